// ctest: label=full timeout=600
// Whole runs on several ranks beside the run of one process: the same losses step by step, in fp64 to
// rounding of sums, for every kind of parallelism; saved on one layout and continued on another; asked to
// stop on one rank and stopped on all; refused where sizes do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "base/process/signals.h"
#include "checkpoint/run_difference.h"
#include "comm/threads/run_ranks.h"
#include "language/decoder_plan.h"
#include "observe/events/event_log.h"
#include "run/language_run.h"
#include "run/memory.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "storage/catalog.h"
#include "support/nightly.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;
using Overrides = std::vector<std::string>;

class RunOnRanks : public RunFixture {
 protected:
  RunOnRanks() {
    write_text([](int i) { return 30 + i; });
  }
  ~RunOnRanks() override { clear_signal_requests(); }

  RunRequest request(const std::string& name, Overrides more = {}) const {
    // eps: where a gradient is zero but for rounding, the first step is no whole one.
    Overrides all = tiny_run(folder_.path());
    for (const char* own : {"train.dtype=fp64", "train.batch=4", "train.micro_batch=1", "train.steps=4",
                            "train.checkpoint_every=2", "optim.eps=1e-3"})
      all.emplace_back(own);
    all.insert(all.end(), more.begin(), more.end());
    return {.recipe = recipe::load_defaults(all), .run_folder = folder_ / name, .quiet = true};
  }

  // What a run has saved, for others to go on from.
  void copy_run(const std::string& from, const std::string& to) const {
    std::filesystem::copy(
        folder_ / from, folder_ / to,
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  }

  // Losses, norms and tokens of a run beside those of another.
  void expect_same_steps(const std::string& run, const std::string& reference, double bound) const {
    const auto steps = events<observe::StepReport>(run), expected = events<observe::StepReport>(reference);
    ASSERT_EQ(steps.size(), expected.size()) << run;
    for (size_t s = 0; s < steps.size(); ++s) {
      EXPECT_EQ(steps[s].step, expected[s].step) << run;
      EXPECT_NEAR(steps[s].loss, expected[s].loss, bound * expected[s].loss) << run << " step " << s + 1;
      EXPECT_NEAR(steps[s].grad_norm, expected[s].grad_norm, 10 * bound * expected[s].grad_norm)
          << run << " step " << s + 1;
      EXPECT_EQ(steps[s].tokens, expected[s].tokens) << run;
    }
  }
  // And evaluations.
  void expect_same(const std::string& run, const std::string& reference, double bound) const {
    expect_same_steps(run, reference, bound);
    const auto judged = events<observe::Evaluation>(run), by_one = events<observe::Evaluation>(reference);
    ASSERT_EQ(judged.size(), by_one.size()) << run;
    for (size_t e = 0; e < judged.size(); ++e) {
      EXPECT_NEAR(*judged[e].loss, *by_one[e].loss, bound * *by_one[e].loss) << run;
      EXPECT_NEAR(*judged[e].bits_per_byte, *by_one[e].bits_per_byte, bound * *by_one[e].bits_per_byte)
          << run;
    }
  }

  void expect_refused(const Overrides& overrides, const std::string& text) const {
    try {
      run_training(request("refused", overrides));
      ADD_FAILURE() << "not refused: " << overrides[0];
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused")) << "touched before it was refused";
  }
};

// Sums are taken in another order, nothing else: 1e-12 after four steps.
constexpr double kExact = 1e-12;

const std::map<std::string, Overrides>& layouts() {
  static const std::map<std::string, Overrides> all{
      {"dp2", {"parallel.ranks=2"}},
      {"dp4", {"parallel.ranks=4"}},
      {"tp2", {"parallel.tp=2"}},
      {"cp2", {"parallel.cp=2"}},
      {"pp2", {"parallel.pp=2"}},
      {"ep2", {"parallel.ep=2"}},
      {"ep2-etp2", {"parallel.ep=2", "parallel.etp=2", "parallel.dispatcher=all-gather"}},
      {"tp2-dp2", {"parallel.tp=2", "parallel.ranks=4"}},
      {"pp2-cp2", {"parallel.pp=2", "parallel.cp=2"}},
      {"pp2-zbv-dp2", {"parallel.pp=2", "parallel.schedule=zbv", "parallel.ranks=4"}},
      {"dp2-zero1", {"parallel.ranks=2", "parallel.zero=1"}},
      {"dp4-zero2", {"parallel.ranks=4", "parallel.zero=2"}},
      {"dp2-zero3", {"parallel.ranks=2", "parallel.zero=3"}},
      {"tp2-dp2-zero1", {"parallel.tp=2", "parallel.ranks=4", "parallel.zero=1"}},
      {"ep2-dp4-zero3", {"parallel.ep=2", "parallel.ranks=4", "parallel.zero=3"}},
      {"dp4-zero3-copies2", {"parallel.ranks=4", "parallel.zero=3", "parallel.zero_copies=2"}},
      {"cp2-zero2", {"parallel.cp=2", "parallel.zero=2"}},
      {"pp2-zbv-dp2-zero3",
       {"parallel.pp=2", "parallel.schedule=zbv", "parallel.ranks=4", "parallel.zero=3"}}};
  return all;
}

TEST_F(RunOnRanks, EveryLayoutTrainsAsOneProcessDoes) {
  run_training(request("one"));
  ASSERT_EQ(events<observe::Evaluation>("one").size(), 2u);
  for (const auto& [name, overrides] : layouts()) {
    const train::Outcome outcome = run_training(request(name, overrides));
    EXPECT_EQ(outcome.step, 4);
    EXPECT_TRUE(outcome.saved);
    expect_same(name, "one", kExact);
  }
}

// Two steps on two replicas of two tensor ranks; then two more on any other layout.
TEST_F(RunOnRanks, SavedOnOneLayoutAndContinuedOnAnother) {
  run_training(request("one"));
  Overrides first = layouts().at("tp2-dp2");
  first.emplace_back("train.steps=2");
  run_training(request("first", first));
  std::map<std::string, Overrides> others{{"alone", {}}};
  for (const char* name : {"cp2", "dp2-zero3", "ep2-etp2", "pp2-cp2", "pp2-zbv-dp2-zero3", "tp2-dp2-zero1"})
    others[name] = layouts().at(name);
  if (longhaul::testing::takes_all()) others.insert(layouts().begin(), layouts().end());
  for (const auto& [name, overrides] : others) {
    copy_run("first", "to-" + name);
    EXPECT_EQ(run_training(request("to-" + name, overrides)).step, 4);
    EXPECT_EQ(events<observe::Resume>("to-" + name).at(0).step, 2);
    const auto steps = events<observe::StepReport>("to-" + name),
               expected = events<observe::StepReport>("one");
    ASSERT_EQ(steps.size(), 4u);
    for (size_t s = 0; s < 4; ++s) {
      EXPECT_NEAR(steps[s].loss, expected[s].loss, kExact * expected[s].loss) << name << " step " << s + 1;
      EXPECT_EQ(steps[s].tokens, expected[s].tokens);
    }
  }
}

// Saved in shares of rows, with layers and experts elsewhere too; then on layouts that cut nothing, or
// otherwise.
TEST_F(RunOnRanks, SavedInSharesAndContinuedOnAnyLayout) {
  run_training(request("one"));
  for (const auto& [saved, goes_on] :
       {std::pair("ep2-dp4-zero3", "alone"), std::pair("pp2-zbv-dp2-zero3", "dp4-zero2"),
        std::pair("dp4-zero3-copies2", "tp2")}) {
    Overrides first = layouts().at(saved);
    first.emplace_back("train.steps=2");
    run_training(request(saved, first));
    for (const std::string next : {"alone", "dp4-zero2", "tp2"}) {
      if (next != goes_on && !longhaul::testing::takes_all()) continue;
      const std::string name = std::string(saved) + "-to-" + next;
      copy_run(saved, name);
      run_training(request(name, next == "alone" ? Overrides{} : layouts().at(next)));
      expect_same_steps(name, "one", kExact);
    }
  }
}

// One micro-batch a rank and no clipping: sums are taken in the same order at every stage of ZeRO, and every
// bit of every tensor is the same; also of a run that goes on at another stage than it was saved at.
TEST_F(RunOnRanks, EveryStageOfZeroGivesTheSameBits) {
  for (const char* dtype : {"bf16", "fp64"}) {
    const Overrides same{"parallel.ranks=2", "train.micro_batch=2", "optim.clip_norm=0",
                         std::string("train.dtype=") + dtype};
    const auto run = [&](const std::string& name, int64_t zero, int64_t steps) {
      Overrides all = same;
      all.push_back("parallel.zero=" + std::to_string(zero));
      all.push_back("train.steps=" + std::to_string(steps));
      run_training(request(name, all));
    };
    const auto expect_equal = [&](const std::string& name, const std::string& reference) {
      const auto found = checkpoint::compare_runs(folder_ / name, folder_ / reference, 0);
      EXPECT_EQ(found.equal_steps, (std::vector<int64_t>{2, 4})) << name;
      EXPECT_EQ(found.step, std::nullopt) << name;
      expect_same(name, reference, kExact);
    };
    const std::string copies = std::string("copies-") + dtype;
    run(copies, 0, 4);
    const bool all = longhaul::testing::takes_all(), whole = std::string(dtype) == "bf16";
    for (const int64_t zero : {1, 2, 3}) {
      const std::string name = "zero" + std::to_string(zero) + "-" + dtype;
      if (whole || all) {
        run(name, zero, 4);
        expect_equal(name, copies);
      }
      if (whole && !all) continue;
      const int64_t next = (zero + 2) % 4;
      run(name + "-then", zero, 2);
      run(name + "-then", next, 4);
      EXPECT_EQ(checkpoint::compare_runs(folder_ / (name + "-then"), folder_ / copies, 0).step, std::nullopt)
          << name << " then " << next;
    }
  }
}

// Products are rounded to 2^-8 before they are summed; the bound is that of `prove`.
TEST_F(RunOnRanks, InBf16TheCurveIsTheSameButForRounding) {
  run_training(request("one", {"train.dtype=bf16"}));
  for (const char* name : {"tp2-dp2", "pp2-cp2", "ep2"}) {
    Overrides overrides = layouts().at(name);
    overrides.emplace_back("train.dtype=bf16");
    run_training(request(name, overrides));
    const auto steps = events<observe::StepReport>(name), expected = events<observe::StepReport>("one");
    ASSERT_EQ(steps.size(), expected.size());
    for (size_t s = 0; s < steps.size(); ++s)
      EXPECT_NEAR(steps[s].loss, expected[s].loss, 0.02 * expected[s].loss) << name;
  }
}

// docs/sources/long-context-parallelism.md A11: a hybrid's curve over a hundred steps in fp32, on 1, 2 and 4
// context ranks by every method.
TEST_F(RunOnRanks, AHundredStepsOnContextRanksAreThoseOfOne) {
  const Overrides shared = {"train.dtype=fp32",    "train.steps=100",        "train.batch=2",
                            "train.micro_batch=2", "train.evaluate_every=0", "train.checkpoint_every=0",
                            "optim.lr=1e-3"};
  run_training(request("one", shared));
  const auto expected = events<observe::StepReport>("one");
  ASSERT_EQ(expected.size(), 100u);
  EXPECT_LT(expected.back().loss, 0.8 * expected.front().loss) << "it learns, or rounding could not grow";
  for (const auto& [name, overrides] : std::map<std::string, Overrides>{
           {"cp2", {"parallel.cp=2"}},
           {"cp4", {"parallel.cp=4"}},
           {"cp4-ring", {"parallel.cp=4", "parallel.context=ring", "parallel.linear_context=ring"}}}) {
    if (name == "cp4" && !longhaul::testing::takes_all()) continue;
    Overrides all = shared;
    all.insert(all.end(), overrides.begin(), overrides.end());
    run_training(request(name, all));
    const auto steps = events<observe::StepReport>(name);
    ASSERT_EQ(steps.size(), expected.size()) << name;
    for (size_t s = 0; s < steps.size(); ++s)
      EXPECT_NEAR(steps[s].loss, expected[s].loss, 1e-5 * expected[s].loss) << name << ", step " << s + 1;
  }
}

// What is made again has the bits that were dropped, on every layout: layers that communicate again, expert
// rows that travel again, products of weights that wait. The key may change on resume.
TEST_F(RunOnRanks, RecomputationChangesNoBit) {
  const std::map<std::string, Overrides> some = {
      {"dp2", {"parallel.ranks=2"}},
      {"tp2", {"parallel.tp=2"}},
      {"ep2-etp2", {"parallel.ep=2", "parallel.etp=2"}},
      {"pp2-zb-h1", {"parallel.pp=2", "parallel.schedule=zb-h1"}},
      {"cp2-ring", {"parallel.cp=2", "parallel.context=ring", "parallel.linear_context=ring"}},
      {"dp2-zero2", {"parallel.ranks=2", "parallel.zero=2"}},
      {"dp2-zero3", {"parallel.ranks=2", "parallel.zero=3"}},
      {"pp2-zb-h1-zero3",
       {"parallel.pp=2", "parallel.schedule=zb-h1", "parallel.ranks=4", "parallel.zero=3"}}};
  int turn = 0;
  for (auto [name, overrides] : some) {
    overrides.emplace_back(name.starts_with("cp2") || name == "tp2" ? "train.dtype=bf16"
                                                                    : "train.dtype=fp32");
    run_training(request(name, overrides));
    // of neighbours in the list, which are alike, one each
    const std::string ones_turn = turn++ % 2 == 0 ? "selective" : "full";
    for (const std::string recompute : {"selective", "full"}) {
      if (recompute != ones_turn && !longhaul::testing::takes_all()) continue;
      Overrides again = overrides;
      again.emplace_back("train.recompute=" + recompute);
      run_training(request(name + "-" + recompute, again));
      expect_same(name + "-" + recompute, name, 0);
    }
  }
  Overrides half = {"train.dtype=bf16", "train.steps=2", "train.recompute=selective"};
  run_training(request("one", {"train.dtype=bf16"}));
  run_training(request("changed", half));
  run_training(request("changed", {"train.dtype=bf16", "train.recompute=full"}));
  const auto steps = events<observe::StepReport>("changed"), expected = events<observe::StepReport>("one");
  // the last evaluation of each start reads more than those on the way
  ASSERT_EQ(steps.size(), expected.size());
  for (size_t s = 0; s < steps.size(); ++s) EXPECT_EQ(steps[s].loss, expected[s].loss) << "step " << s + 1;
}

TEST_F(RunOnRanks, EachRankWritesItsOwnEventsOfTheSameRun) {
  run_training(request("run", {"parallel.tp=2"}));
  std::vector<std::string> runs;
  for (const char* file : {"events.jsonl", "events/rank-1.jsonl"}) {
    const auto all = observe::read_events(folder_ / "run" / file);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.front().common.rank, std::string(file) == "events.jsonl" ? 0 : 1);
    EXPECT_EQ(all.front().common.generation, 1);
    runs.push_back(all.front().common.run);
    EXPECT_EQ(events<observe::RunStart>("run", file).at(0).world_size, 2);
    EXPECT_EQ(events<observe::End>("run", file).at(0).reason, "finished");
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(RunOnRanks, AStopIsTheSameStepEverywhereAndIsSaved) {
  run_training(request("one"));  // and the text is prepared: a stop would end that
  request_stop(SIGTERM);
  const train::Outcome outcome = run_training(request("run", {"parallel.tp=2", "parallel.ranks=4"}));
  EXPECT_EQ(outcome.reason, "signal");
  EXPECT_EQ(outcome.signal, SIGTERM);
  EXPECT_EQ(outcome.step, 0);
  EXPECT_TRUE(outcome.saved);
  clear_signal_requests();
  run_training(request("run", {"parallel.pp=2"}));
  expect_same("run", "one", kExact);
}

// As launched processes do it: each rank calls the whole of it, with a communicator from outside.
TEST_F(RunOnRanks, RanksThatAreGivenTheirWorldFromOutside) {
  run_training(request("one"));
  comm::run_ranks(
      2, [&](comm::Communicator& world) { run_training(request("run", {"parallel.pp=2"}), &world); });
  expect_same("run", "one", kExact);
}

TEST_F(RunOnRanks, AFinishedRunIsNotJudgedAgainOnMoreRanks) {
  run_training(request("run"));
  const size_t before = events<observe::Evaluation>("run").size();
  run_training(request("run", {"parallel.ranks=2"}));
  EXPECT_EQ(events<observe::Evaluation>("run").size(), before);
}

TEST_F(RunOnRanks, ReplicasSampleAndPartsOfAModelDoNot) {
  run_training(request("replicas", {"parallel.ranks=2", "sample.tokens=3", "sample.prompt=line"}));
  EXPECT_EQ(events<observe::Sample>("replicas").size(), 1u);
  run_training(
      request("shares", {"parallel.ranks=2", "parallel.zero=2", "sample.tokens=3", "sample.prompt=line"}));
  EXPECT_EQ(events<observe::Sample>("shares").size(), 1u);
  run_training(
      request("layers", {"parallel.ranks=2", "parallel.zero=3", "sample.tokens=3", "sample.prompt=line"}));
  EXPECT_EQ(events<observe::Sample>("layers").size(), 0u);
  run_training(request("parts", {"parallel.tp=2", "sample.tokens=3", "sample.prompt=line"}));
  EXPECT_EQ(events<observe::Sample>("parts").size(), 0u);
}

// One rank's events cannot be opened: all ranks end, with its error.
TEST_F(RunOnRanks, ARankThatFailsEndsAllWithItsError) {
  std::filesystem::create_directories(folder_ / "run" / "events" / "rank-1.jsonl");
  try {
    run_training(request("run", {"parallel.tp=2"}));
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank-1.jsonl"));
  }
}

TEST_F(RunOnRanks, WhatCannotBeDealtOutIsRefusedBeforeAnythingIsTouched) {
  expect_refused({"parallel.tp=2", "parallel.ranks=3"}, "do not fit on 3 ranks");
  expect_refused({"parallel.tp=4"}, "heads cannot be dealt out to 4 ranks");
  expect_refused({"parallel.ep=3"}, "experts cannot be dealt out to 3 ranks");
  expect_refused({"parallel.pp=3"}, "more pipeline stages than layers");
  expect_refused({"parallel.pp=2", "parallel.schedule=interleaved", "train.micro_batch=4"}, "schedule");
  expect_refused({"parallel.pp=2", "parallel.stage_layers=[2,1]"},
                 "layers of the stages are not those of the model");
  expect_refused({"parallel.etp=2", "model.experts=0"}, "no experts that ranks could share");
  expect_refused({"parallel.ranks=3"}, "cannot be dealt out to the replicas");
  expect_refused({"parallel.ranks=2", "train.micro_batch=4"}, "train.micro_batch=2");
  expect_refused({"parallel.ranks=512"}, "cannot be threads");
  expect_refused({"parallel.ep=2", "model.experts=0"}, "no experts");
  expect_refused({"parallel.cp=2", "parallel.context=ulysses", "model.kv_heads=1"},
                 "cannot share the heads of attention");
  run_training(
      request("whole groups go round", {"parallel.cp=2", "parallel.context=two-level", "model.kv_heads=1"}));
}

TEST_F(RunOnRanks, ThreadsThatTogetherNeedMoreThanThereIsAreRefusedBeforeAnythingIsTouched) {
  // Copies of a model of which one fits: 64 ranks, and as many masters and moments.
  const auto refused = [&](const Overrides& overrides) -> std::string {
    try {
      run_training(request("refused", overrides));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kOutOfMemory) << error.what();
      return error.what();
    }
    return "";
  };
  int64_t hidden = 64;
  const auto bytes = [&](int64_t ranks) {
    const Overrides sizes = {"model.hidden=" + std::to_string(hidden),
                             "model.heads=1",
                             "model.kv_heads=1",
                             "parallel.ranks=" + std::to_string(ranks),
                             "train.batch=" + std::to_string(ranks),
                             "train.micro_batch=1"};
    const recipe::Recipe recipe = request("run", sizes).recipe.recipe;
    const plan::MemoryPlan plan =
        memory_plan(language::DecoderPlan(recipe), recipe,
                    parallel::arrangement_of(recipe.model, recipe.parallel, ranks), std::nullopt, at::kCPU);
    return static_cast<int64_t>(plan.peak() + plan.not_tensors);
  };
  while (bytes(64) < available_bytes(at::kCPU)) hidden *= 2;
  ASSERT_LT(bytes(1), available_bytes(at::kCPU)) << "one would fit";
  const std::string text =
      refused({"model.hidden=" + std::to_string(hidden), "model.heads=1", "model.kv_heads=1",
               "parallel.ranks=64", "train.batch=64", "train.micro_batch=1"});
  EXPECT_THAT(text, HasSubstr("the 64 ranks of this process do not fit into its memory together"));
  EXPECT_THAT(text, HasSubstr("parallel.zero=1 takes "));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

}  // namespace
}  // namespace longhaul::run
