// Runs whose ranks are processes, in a folder of their own: a tiny model, twenty small texts, and what a test
// types and looks at.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/temporary_folder.h"
#include "base/net/network.h"
#include "base/net/socket.h"
#include "base/process/launch.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "comm/gloo/wire.h"
#include "comm/placement.h"
#include "observe/events/event_log.h"
#include "storage/catalog.h"
#include "support/child.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class LaunchedRun : public ::testing::Test {
 protected:
  LaunchedRun() : run_(folder_ / "run") {
    write_texts("text", 'a');
    std::ofstream(folder_ / "tiny.toml")
        << "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 2\nhead_dim = 16\n"
           "vocabulary = 257\nmixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n"
           "[data]\ntokenizer = \"bytes\"\n[train]\nsteps = 1000000\ndtype = \"fp32\"\nbatch = 4\n"
           "micro_batch = 1\nsequence = 32\nevaluate_every = 0\ncheckpoint_every = 0\nthreads = "
           "1\n[optim]\nschedule = \"constant\"\n"
           "[sample]\ntokens = 0\n[observe]\ncompression_baseline = false\nreport = "
           "false\n[parallel]\njoin_timeout = 30\n";
  }

  void write_texts(const std::string& name, char letter) const {
    fs::create_directories(folder_ / name);
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / name / (std::to_string(i) + ".txt")) << std::string(300, letter) << i << "\n";
  }

  Words words(const Words& command, const Words& more) const {
    Words all{program_file()};
    all.insert(all.end(), command.begin(), command.end());
    all.insert(all.end(), {(folder_ / "tiny.toml").string(), "data.source=" + (folder_ / "text").string(),
                           "data.cache=" + (folder_ / "cache").string()});
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"--run", run_.string()});
    return all;
  }
  Words launch_words(int ranks, const Words& more = {}) const {
    return words({"launch", "-n", std::to_string(ranks)}, more);
  }

  // One rank, as an engine starts it, with a log and a home of its own.
  std::unique_ptr<Child> rank(int rank, int size, uint16_t port, const Words& more = {},
                              const fs::path& program = program_file(), const Words& variables = {}) const {
    const std::string home = (folder_ / fmt::format("home-{}", rank)).string();
    Words all = words({"train"}, more);
    all[0] = program.string();
    Words environment = comm::environment_of_rank(rank, size, port);
    environment.insert(environment.end(),
                       {"NO_COLOR=1", "HOME=" + home, cache_variable(fs::path(home) / "cache")});
    environment.insert(environment.end(), variables.begin(), variables.end());
    return std::make_unique<Child>(all, environment, folder_ / fmt::format("rank-{}.log", rank));
  }
  // All end with the code, and each says the text.
  static void expect_all(const std::vector<std::unique_ptr<Child>>& ranks, int code,
                         const ::testing::Matcher<std::string>& text) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(ranks[i]->wait(), code) << i;
      EXPECT_THAT(ranks[i]->output(), text) << i;
    }
  }

  std::string log_of(int rank) const { return read_text(run_ / "logs" / fmt::format("rank-{}.log", rank)); }
  template <class Type>
  std::vector<Type> events(const std::string& file = "events.jsonl") const {
    std::vector<Type> found;
    if (!fs::exists(run_ / file)) return found;
    for (const auto& event : observe::read_events(run_ / file)) {
      if (const auto* body = std::get_if<Type>(&event.body)) found.push_back(*body);
    }
    return found;
  }
  int64_t steps_done() const {
    const auto steps = events<observe::StepReport>();
    return steps.empty() ? 0 : steps.back().step;
  }

  // Of the process below `launcher` that is this rank.
  static pid_t process_of(pid_t launcher, int rank) {
    std::ifstream children(fmt::format("/proc/{}/task/{}/children", launcher, launcher));
    for (pid_t child = 0; children >> child;) {
      std::ifstream file(fmt::format("/proc/{}/environ", child));
      const std::string environment{std::istreambuf_iterator<char>(file), {}};
      if ((std::string(1, '\0') + environment)
              .find(std::string(1, '\0') + fmt::format("RANK={}", rank) + '\0') != std::string::npos)
        return child;
      if (const pid_t below = process_of(child, rank); below > 0) return below;
    }
    return -1;
  }

  TemporaryFolder folder_;
  fs::path run_;
};

}  // namespace longhaul::cli
