// A launched run whose driver, nodes and ranks a test looks at, and ends.
#pragma once

#include "cli/launched_run.h"

#include <fmt/ranges.h>

#include <iterator>

namespace longhaul::cli {

// Files of /proc have no length to read them by.
inline std::string of_process(int64_t pid, const char* file) {
  std::ifstream in(fmt::format("/proc/{}/{}", pid, file));
  return {std::istreambuf_iterator<char>(in), {}};
}

class SupervisedRun : public LaunchedRun {
 protected:
  ~SupervisedRun() override {
    // Whatever failed: nothing of this run stays.
    const nlohmann::json now = status();
    for (const char* what : {"nodes", "ranks"}) {
      for (const nlohmann::json& one : now.value(what, nlohmann::json::array())) {
        if (const int64_t pid = one.value("pid", int64_t{0}); pid > 1 && is_ours(pid))
          ::kill(static_cast<pid_t>(pid), SIGKILL);
      }
    }
  }
  static bool is_ours(int64_t pid) { return of_process(pid, "cmdline").starts_with(program_file()); }

  nlohmann::json status() const {
    const fs::path file = run_ / "control/status.json";
    return fs::exists(file) ? nlohmann::json::parse(read_text(file)) : nlohmann::json::object();
  }
  nlohmann::json rank(int64_t number) const {
    for (const nlohmann::json& one : status().value("ranks", nlohmann::json::array())) {
      if (one.at("rank") == number) return one;
    }
    return nlohmann::json::object();
  }
  pid_t pid_of(int64_t number) const { return static_cast<pid_t>(rank(number).value("pid", int64_t{-1})); }
  nlohmann::json node(const std::string& name) const {
    for (const nlohmann::json& one : status().value("nodes", nlohmann::json::array())) {
      if (one.at("node") == name) return one;
    }
    return nlohmann::json::object();
  }
  nlohmann::json last_incident() const {
    const nlohmann::json all = status().value("incidents", nlohmann::json::array());
    return all.empty() ? nlohmann::json::object() : all.back();
  }
  int64_t generation() const { return status().value("generation", int64_t{0}); }

  // In the first generation the rank stops itself when it comes to the step: however quick the machine, the
  // run waits there for what the test does to it.
  static std::string stops_at(int64_t step, int64_t rank) {
    return fmt::format("LONGHAUL_FAULTS=step.passes:step={}:rank={}:generation=1 stop", step, rank);
  }
  // Its process when it has; -1: it did not come there.
  pid_t stopped(Child& child, int64_t number) const {
    pid_t process = -1;
    const bool there = child.wait_for([&] {
      process = pid_of(number);
      return process > 1 && of_process(process, "stat").find(") T ") != std::string::npos;
    });
    return there ? process : -1;
  }

  Words long_run(int64_t steps, int64_t batch = 4) const {
    return {fmt::format("train.steps={}", steps), fmt::format("train.batch={}", batch),
            "train.checkpoint_every=5", "optim.warmup_steps=1"};
  }
  // of each step the last time that it was done
  std::map<int64_t, double> losses(const fs::path& run) const {
    std::map<int64_t, double> all;
    for (const auto& event : observe::read_events(run / "events.jsonl")) {
      if (const auto* step = std::get_if<observe::StepReport>(&event.body)) all[step->step] = step->loss;
    }
    return all;
  }
  // Of a run to which nothing happens, made once for all tests of this process that ask for the same.
  std::map<int64_t, double> undisturbed(const Words& options, int ranks) const {
    static std::map<std::string, std::map<int64_t, double>> known;
    const std::string key = fmt::format("{} {}", ranks, fmt::join(options, " "));
    if (!known.contains(key)) {
      known[key] = run_undisturbed(options, ranks);
      fs::remove_all(folder_ / "undisturbed");
    }
    return known[key];
  }
  std::map<int64_t, double> run_undisturbed(const Words& options, int ranks) const {
    Words typed = words({"launch", "-n", std::to_string(ranks)}, options);
    typed.back() = (folder_ / "undisturbed").string();
    const ProcessResult result = run_process(typed, {"NO_COLOR=1"}, 120);
    EXPECT_EQ(result.status, 0) << result.errors;
    return losses(folder_ / "undisturbed");
  }
};

}  // namespace longhaul::cli
