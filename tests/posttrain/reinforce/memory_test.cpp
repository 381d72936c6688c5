// The plan of memory of a reinforce run beside what the allocator counts: whole runs, of which the generation
// is the fullest moment, or the passes are.
// ctest: label=full timeout=300
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <thread>

#include "base/memory/memory_purpose.h"
#include "base/progress.h"
#include "plan/memory/generation_memory.h"
#include "posttrain/tasks.h"
#include "recipe/load.h"
#include "run/run.h"
#include "run/run_fixture.h"
#include "run/words.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::posttrain {
namespace {

using run::Words;
using run::operator+;

class ReinforceMemory : public run::RunFixture {
 protected:
  ReinforceMemory() {
    install_cpu_allocator();
    train::declare_options(tasks());
    for (const int tokens : {40, 250, 300}) write_prompts(tokens);
    std::ofstream(folder_ / "judge.sh") << "while read -r line; do echo $((i += 1)); done\n";
  }
  // All prompts are as long as each other, with the token that begins a text, and most answers go on to their
  // last page, so that the plan, which is of the longest, is exact.
  std::string prompts_of(int tokens) const { return (folder_ / fmt::format("{}.jsonl", tokens)).string(); }
  void write_prompts(int tokens) const {
    std::ofstream file(prompts_of(tokens));
    for (int i = 0; i < 64; ++i) {
      const std::string prompt(static_cast<size_t>(tokens - 1), static_cast<char>('b' + i % 20));
      file << fmt::format("{{\"prompt\": \"{}\", \"answer\": \"a\"}}\n", prompt);
    }
  }

  std::map<std::string, observe::MeasuredMemory> memory_of(const std::string& name, const Words& more) const {
    const Words words = Words{"train.task=reinforce",
                              "model.layers=2",
                              "model.hidden=64",
                              "model.heads=4",
                              "model.kv_heads=2",
                              "model.head_dim=16",
                              "model.vocabulary=257",
                              "model.mixers=lightning,softmax",
                              "model.intermediate=192",
                              "model.rotary_dim=8",
                              "data.tokenizer=bytes",
                              "data.cache=" + (folder_ / "cache").string(),
                              "train.steps=2",
                              "train.sequence=128",
                              "train.batch=8",
                              "train.micro_batch=1",
                              "train.dtype=fp32",
                              "train.threads=1",
                              "train.evaluate_every=0",
                              "train.checkpoint_every=1",
                              "optim.warmup_steps=0",
                              "reinforce.prompts_file=" + prompts_of(40),
                              "reinforce.reward=[\"program\"]",
                              "reinforce.program=sh " + (folder_ / "judge.sh").string(),
                              "reinforce.prompts=8",
                              "reinforce.group=8",
                              "reinforce.tokens=24",
                              "sample.tokens=0",
                              "observe.tensorboard=false",
                              "observe.report=false"} +
                        more;
    const MemoryStatistics before = memory_statistics();
    // In a thread of its own, whose scratch memory ends with it.
    std::thread([&] {
      run::run_training({.recipe = recipe::load_defaults(words), .run_folder = folder_ / name, .quiet = true},
                        tasks());
    }).join();
    std::map<std::string, observe::MeasuredMemory> rows;
    for (const auto& row : events<observe::MeasuredMemory>(name)) rows[row.purpose] = row;
    for (size_t i = 0; i < kMemoryPurposes; ++i) {
      const auto purpose = static_cast<MemoryPurpose>(i);
      if (const auto row = rows.find(std::string(name_of(purpose))); row != rows.end())
        row->second.peak_bytes -= before.of(purpose).bytes;
    }
    rows["together"].peak_bytes -= before.total.bytes;
    return rows;
  }

  void expect_as_planned(const std::string& name, const Words& more, double tolerance = 0.05) const {
    const auto rows = memory_of(name, more);
    const auto total = static_cast<double>(rows.at("together").peak_bytes);
    for (const auto& [purpose, row] : rows) {
      if (!row.planned_bytes) continue;
      const auto planned = static_cast<double>(*row.planned_bytes),
                 measured = static_cast<double>(row.peak_bytes);
      if (std::max(planned, measured) < 0.05 * total) continue;
      // Scratch of the loss is planned as if every token had a label; prompts have none.
      if (purpose == name_of(MemoryPurpose::kWorkspace) && planned > measured) continue;
      EXPECT_NEAR(planned, measured, tolerance * measured)
          << name << ": " << purpose << ", " << bytes_text(*row.planned_bytes) << " planned, "
          << bytes_text(row.peak_bytes) << " counted of " << bytes_text(rows.at("together").peak_bytes);
    }
  }
};

TEST_F(ReinforceMemory, OfGenerationIsWhatIsCounted) {
  expect_as_planned("one wave", {});
  expect_as_planned("waves", {"reinforce.sequences=24"});
  for (const int prompt : {250, 300}) {
    expect_as_planned(fmt::format("two pages, {}", prompt),
                      {"train.sequence=330", "reinforce.prompts_file=" + prompts_of(prompt)});
  }
  expect_as_planned("states", {"model.mixers=lightning", "model.head_dim=32"});
  expect_as_planned("bf16", {"train.dtype=bf16"});
  // 64 prompts at once: what a pass without a backward pass needs is known to a tenth.
  expect_as_planned("evaluated",
                    {"train.steps=3", "train.evaluate_every=1", "reinforce.prompts=4", "reinforce.group=4"},
                    0.1);
}

// A row of the trainer has one answer, so that all are full.
TEST_F(ReinforceMemory, OfPassesAndWhatStandsBesideThemIsWhatIsCounted) {
  const Words passes = {"reinforce.sequences=8", "reinforce.prompts=16", "train.sequence=63",
                        "train.batch=64", "train.micro_batch=64"};
  expect_as_planned("passes", passes);
  expect_as_planned("reference", passes + Words{"reinforce.kl=0.1", "reinforce.updates=2"});
  expect_as_planned("critic", passes + Words{"reinforce.algorithm=ppo", "reinforce.updates=2"});
}

// By hand: of two layers of 8 heads each, with states of 64 × 64 numbers, a rank has one layer, or four heads
// of each. While the last layer's rows are doubled, half of them exist a second time: a quarter of two
// layers'. What remains of a pass is small beside 256 states.
TEST(ReinforceMemoryOfRanks, HasTheRanksShareOfStates) {
  const plan::MemoryRequest request{
      .model =
          recipe::load_defaults({"model.layers=2", "model.hidden=64", "model.heads=8", "model.kv_heads=8",
                                 "model.head_dim=64", "model.vocabulary=257", "model.mixers=lightning",
                                 "model.intermediate=64", "data.tokenizer=bytes"})
              .recipe.model,
      .dtype = recipe::Dtype::kFp32};
  const plan::GenerationSizes sizes{.sequences = 256, .group = 8, .prompts = 32, .prompt = 8, .tokens = 8};
  const double states = 256.0 * 2 * 8 * 64 * 64 * 4;
  const auto bytes = [&](int64_t tp, int64_t pp) {
    const plan::RankRequest rank{.place = {.mesh = layout::Mesh(tp * pp, {.pp = pp, .tp = tp}), .rank = 0}};
    return plan::generation_bytes(request, sizes, tp * pp == 1 ? nullptr : &rank);
  };
  EXPECT_NEAR(bytes(1, 1), 1.25 * states, 1e-3 * states);
  EXPECT_NEAR(bytes(2, 1), 1.25 * states / 2, 1e-3 * states);
  EXPECT_NEAR(bytes(1, 2), 1.5 * states / 2, 1e-3 * states);
  EXPECT_NEAR(bytes(2, 2), 1.5 * states / 4, 1e-3 * states);
}

}  // namespace
}  // namespace longhaul::posttrain
