// ctest: label=full timeout=300
// The plan of memory of one rank of a mesh beside what its allocator counts: ranks that are processes train small models, and each tells by purpose what
// was planned and what was its most.
#include "plan/memory_rank.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/network.h"
#include "base/progress.h"
#include "base/temporary_folder.h"
#include "comm/placement.h"
#include "comm/world.h"
#include "observe/event_log.h"
#include "support/child.h"
#include "tensor/cpu_allocator.h"
#include "train/run.h"

namespace longhaul::train {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
constexpr const char* kWords = "LONGHAUL_TEST_RANK_MEMORY";  // the words of a rank's recipe, between commas

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A rank, in a process that the tests below start.
TEST(RankMemoryBody, Trains) {
  const char* const text = std::getenv(kWords);
  if (text == nullptr) GTEST_SKIP() << "runs in the processes that the tests of RankMemory start";
  install_cpu_allocator();
  Words words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ';');) words.push_back(word);
  const fs::path run = words.back();
  words.pop_back();
  const auto world = comm::join_world();
  run_training({.recipe = recipe::load_defaults(words), .run_folder = run, .quiet = true}, world.get());
}

const std::map<std::string, Words> kModels = {
    {"dense", {"model.experts=0", "model.intermediate=384"}},
    {"experts", {"model.experts=4", "model.experts_per_token=2", "model.intermediate=192"}},
};

class RankMemory : public ::testing::Test {
 protected:
  RankMemory() {
    fs::create_directories(folder_ / "text");
    std::ofstream file(folder_ / "text" / "some.txt");  // one document, far longer than a sequence
    for (int i = 0; i < 40000; ++i) file << "line " << i * 7 << " of a file\n";
  }

  // Of each rank, by purpose.
  std::vector<std::map<std::string, observe::MeasuredMemory>> trained(const std::string& name, int ranks, const Words& more) {
    const fs::path run = folder_ / name;
    const Words words = Words{"model.layers=4",
                              "model.mixers=lightning,softmax",
                              "model.hidden=128",
                              "model.heads=4",
                              "model.kv_heads=2",
                              "model.head_dim=32",
                              "model.rotary_dim=16",
                              "model.vocabulary=700",
                              "data.tokenizer=bytes",
                              "data.source=" + (folder_ / "text").string(),
                              "data.cache=" + (folder_ / "cache").string(),
                              "train.steps=2",
                              "train.checkpoint_every=0",
                              "train.evaluate_every=0",
                              "train.threads=1",
                              "train.batch=4",
                              "train.micro_batch=2",
                              "train.sequence=1024",
                              "sample.tokens=0",
                              "observe.compression_baseline=false",
                              "observe.tensorboard=false",
                              "observe.report=false"} +
                        more + Words{run.string()};
    const uint16_t port = free_port();
    std::vector<std::unique_ptr<Child>> processes;
    for (int rank = 0; rank < ranks; ++rank) {
      Words environment = comm::environment_of_rank(rank, ranks, port);
      environment.push_back(fmt::format("{}={}", kWords, fmt::join(words, ";")));
      processes.push_back(std::make_unique<Child>(Words{fs::read_symlink("/proc/self/exe").string(), "--gtest_filter=RankMemoryBody.*"},
                                                  environment, folder_ / fmt::format("{}-{}.log", name, rank)));
    }
    std::vector<std::map<std::string, observe::MeasuredMemory>> all;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(processes[static_cast<size_t>(rank)]->wait(), 0) << processes[static_cast<size_t>(rank)]->output();
      auto& rows = all.emplace_back();
      const fs::path events = rank == 0 ? run / "events.jsonl" : run / "events" / fmt::format("rank-{}.jsonl", rank);
      if (!fs::exists(events)) continue;
      for (const auto& event : observe::read_events(events)) {
        if (const auto* row = std::get_if<observe::MeasuredMemory>(&event.body)) rows[row->purpose] = *row;
      }
    }
    return all;
  }

  void expect_planned(const std::string& name, int ranks, const Words& more, double of_all, double of_purpose) {
    const auto all = trained(name, ranks, more);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const auto together = all[rank].find("together");
      ASSERT_NE(together, all[rank].end()) << name << ": rank " << rank << " tells nothing";
      const auto total = static_cast<double>(together->second.peak_bytes);
      for (const auto& [purpose, row] : all[rank]) {
        if (!row.planned_bytes) continue;
        const auto planned = static_cast<double>(*row.planned_bytes), counted = static_cast<double>(row.peak_bytes);
        if (std::getenv("LONGHAUL_TELL") != nullptr) {
          fmt::print("{:<34} rank {} {:<16} planned {:>10.0f} counted {:>10.0f}  {:+.1f} %\n", name, rank, purpose, planned, counted,
                     counted > 0 ? 100 * (planned - counted) / counted : 0);
        }
        if (std::max(planned, counted) < 0.05 * total) continue;
        EXPECT_NEAR(planned, counted, (purpose == "together" ? of_all : of_purpose) * counted)
            << name << ", rank " << rank << ": " << purpose << ", " << bytes_text(*row.planned_bytes) << " planned, "
            << bytes_text(row.peak_bytes) << " counted";
      }
    }
  }

  TemporaryFolder folder_;
};

TEST_F(RankMemory, IsWhatIsCounted) {
  for (const char* const dtype : {"bf16", "fp32"}) {
    for (const auto& [model, words] : kModels) {
      const auto check = [&](const std::string& layout, int ranks, const Words& more) {
        expect_planned(fmt::format("{} {} {}", model, dtype, layout), ranks, words + Words{fmt::format("train.dtype={}", dtype)} + more,
                       0.02, 0.05);
      };
      check("dp2", 2, {});
      check("dp2 zero1", 2, {"parallel.zero=1"});
      check("tp2", 2, {"parallel.tp=2"});
      check("cp2", 2, {"parallel.cp=2"});
      check("pp2", 2, {"parallel.pp=2", "train.micro_batch=1"});
      // Every token goes to every expert: ranks of experts get equally many rows, whatever a router says.
      if (model == "experts") check("ep2", 2, {"parallel.ep=2", "model.experts_per_token=4"});
    }
  }
}

// Where a router chooses, one rank gets more rows than the other; what both have together is what was planned.
TEST_F(RankMemory, OfRoutedRowsIsThatOfTheRanksTogether) {
  const auto all = trained("routed", 2, kModels.at("experts") + Words{"train.dtype=bf16", "parallel.ep=2"});
  double planned = 0, counted = 0;
  for (const auto& rank : all) {
    ASSERT_TRUE(rank.contains("activations"));
    planned += static_cast<double>(rank.at("activations").planned_bytes.value());
    counted += static_cast<double>(rank.at("activations").peak_bytes);
  }
  EXPECT_NEAR(planned, counted, 0.03 * counted);
}

}  // namespace
}  // namespace longhaul::train
