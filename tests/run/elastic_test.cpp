// ctest: label=full timeout=300
// Elastic runs (train.elastic): one recipe on 1, 2, 3, 4 and 8 replicas, at every stage of ZeRO, beside ranks
// that share a replica, and continued at other widths: every bit of losses, norms, weights and optimizer
// state is that of one process. And that it is not without the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "checkpoint/run_difference.h"
#include "observe/events/event_comparison.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

class ElasticRuns : public RunFixture {
 protected:
  ElasticRuns() {
    write_text([](int i) { return 1 + i % 7; });
  }

  // A hybrid with experts, clipped, three steps of eight micro-batches.
  void train(const std::string& name, const Settings& more, bool elastic = true) const {
    Settings all = tiny_run(folder_.path());
    for (const char* own : {"train.dtype=fp32", "train.batch=16", "train.micro_batch=2", "train.steps=3",
                            "train.checkpoint_every=1", "train.checkpoint_keep=0", "optim.clip_norm=0.5"})
      all.emplace_back(own);
    all.emplace_back(elastic ? "train.elastic=true" : "train.elastic=false");
    all.insert(all.end(), more.begin(), more.end());
    run_training({.recipe = recipe::load_defaults(all), .run_folder = folder_ / name, .quiet = true});
  }

  // Every field of every step and evaluation, and every tensor of every checkpoint.
  void expect_equal(const std::string& name, const std::string& reference) const {
    const observe::Comparison events = observe::compare(folder_ / reference, folder_ / name);
    EXPECT_EQ(events.steps_in_both, 3) << name;
    EXPECT_TRUE(events.equal()) << name << "\n" << events.text();
    const auto checkpoints = checkpoint::compare_runs(folder_ / reference, folder_ / name, 0);
    EXPECT_EQ(checkpoints.equal_steps, (std::vector<int64_t>{1, 2, 3})) << name;
    EXPECT_EQ(checkpoints.step, std::nullopt) << name << ": " << checkpoints.difference.tensors.front().name;
  }
  static std::string name_of(const Settings& settings) {
    std::string name;
    for (const std::string& each : settings) name += each.substr(each.find('.') + 1) + " ";
    return name;
  }
  void expect_equal_on(const std::vector<Settings>& layouts, const Settings& same,
                       const std::string& reference) const {
    for (Settings layout : layouts) {
      const std::string name = reference + " " + name_of(layout);
      layout.insert(layout.end(), same.begin(), same.end());
      train(name, layout);
      expect_equal(name, reference);
    }
  }
};

TEST_F(ElasticRuns, AnyNumberOfReplicasAtEveryStageOfZeroGivesTheSameBits) {
  for (const std::string dtype : {"train.dtype=fp32", "train.dtype=bf16"}) {
    train(dtype, {dtype});
    expect_equal_on({{"parallel.ranks=2"},
                     {"parallel.ranks=4"},
                     {"parallel.ranks=8"},
                     {"parallel.ranks=2", "parallel.zero=1"},
                     {"parallel.ranks=4", "parallel.zero=2"},
                     {"parallel.ranks=8", "parallel.zero=1"},
                     {"parallel.ranks=2", "parallel.zero=3"},
                     {"parallel.ranks=8", "parallel.zero=3"}},
                    {dtype}, dtype);
  }
}

// The test above can fail: in the usual order of sums, replicas change the last bits.
TEST_F(ElasticRuns, WithoutItTheBitsDiffer) {
  train("one", {}, false);
  train("four", {"parallel.ranks=4"}, false);
  EXPECT_FALSE(observe::compare(folder_ / "one", folder_ / "four").equal());
  EXPECT_EQ(checkpoint::compare_runs(folder_ / "one", folder_ / "four", 0).step, 1);
  train("elastic", {});
  EXPECT_EQ(checkpoint::compare_runs(folder_ / "one", folder_ / "elastic", 0).step, 1)
      << "it changes the numbers: the key may not change";
}

TEST_F(ElasticRuns, NumbersThatAreNoPowersOfTwo) {
  const Settings six{"train.batch=12"}, seven{"train.batch=14"};
  train("six", six);
  expect_equal_on({{"parallel.ranks=2"},
                   {"parallel.ranks=3"},
                   {"parallel.ranks=6"},
                   {"parallel.ranks=3", "parallel.zero=1"},
                   {"parallel.ranks=2", "parallel.zero=3"}},
                  six, "six");
  train("seven", seven);
  expect_equal_on({{"parallel.ranks=7"}}, seven, "seven");
}

TEST_F(ElasticRuns, ContinuedAtAnotherWidth) {
  train("one", {});
  const std::vector<Settings> ways{{"parallel.ranks=2"}, {"parallel.ranks=4", "parallel.zero=2"}, {}};
  for (int64_t step = 1; step <= 3; ++step) {
    Settings way = ways[static_cast<size_t>(step - 1)];
    way.push_back("train.steps=" + std::to_string(step));
    train("on", way);
  }
  const auto checkpoints = checkpoint::compare_runs(folder_ / "one", folder_ / "on", 0);
  EXPECT_EQ(checkpoints.equal_steps, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(checkpoints.step, std::nullopt);
}

// Replicas are made of several ranks: those stay, and the number of replicas changes.
TEST_F(ElasticRuns, ReplicasOfSeveralRanks) {
  for (const std::string inner : {"parallel.tp=2", "parallel.cp=2", "parallel.pp=2"}) {
    train(inner, {inner});
    expect_equal_on({{"parallel.ranks=4"},
                     {"parallel.ranks=8", "parallel.zero=1"},
                     {"parallel.ranks=4", "parallel.zero=3"}},
                    {inner}, inner);
  }
  // Two tensor ranks have each key head: their sums are within a replica.
  const Settings copies{"parallel.tp=4", "model.heads=4"};
  train("copies", copies);
  expect_equal_on({{"parallel.ranks=8", "parallel.zero=3"}}, copies, "copies");
}

TEST_F(ElasticRuns, CameWithWholeStates) {
  train("came", {"optim.name=came"});
  expect_equal_on({{"parallel.ranks=2"}, {"parallel.ranks=4", "train.recompute=full"}}, {"optim.name=came"},
                  "came");
}

TEST_F(ElasticRuns, WhatItComputesMayNotChangeOnResume) {
  train("run", {"train.steps=1"});
  const auto expect_refused = [&](const Settings& settings, bool elastic, const std::string& text) {
    try {
      train("run", settings, elastic);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expect_refused({"train.steps=2"}, false, "train.elastic cannot change");
  expect_refused({"train.steps=2", "train.micro_batch=1"}, true, "train.micro_batch cannot change");
}

}  // namespace
}  // namespace longhaul::run
