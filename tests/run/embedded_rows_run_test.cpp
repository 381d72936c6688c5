// A task from outside whose decoder reads pictures (support/captioned_pictures.h) is learnt, resumed to the
// bit, frozen and shared by ranks in every way that a decoder is. ctest: label=full timeout=300
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe/load.h"
#include "run/run.h"
#include "run/run_fixture.h"
#include "run/words.h"
#include "support/captioned_pictures.h"

namespace longhaul::run {
namespace {

using longhaul::testing::kCaptionTasks;

class CaptionedPicturesRun : public RunFixture {
 protected:
  CaptionedPicturesRun() { train::declare_options(kCaptionTasks); }
  train::Outcome run(const std::string& name, const Words& more = {}) const {
    const Words words = {"train.task=captions",     "train.sequence=10",
                         "train.batch=8",           "train.micro_batch=4",
                         "train.steps=6",           "train.dtype=fp64",
                         "train.evaluate_every=3",  "train.checkpoint_every=3",
                         "train.threads=1",         "model.layers=2",
                         "model.hidden=16",         "model.heads=2",
                         "model.kv_heads=2",        "model.head_dim=8",
                         "model.rotary_dim=4",      "model.vocabulary=257",
                         "data.vocabulary=257",     "model.mixers=lightning,softmax",
                         "model.intermediate=20",   "optim.lr=0.01",
                         "optim.schedule=constant", "optim.warmup_steps=2",
                         "sample.tokens=0",         "observe.tensorboard=false",
                         "observe.report=false"};
    return run_training(
        {.recipe = recipe::load_defaults(words + more), .run_folder = folder_ / name, .quiet = true},
        kCaptionTasks);
  }
  double metric(const std::string& run, const std::string& wanted) const {
    const auto judged = events<observe::Evaluation>(run);
    if (judged.empty()) return -1;
    for (const auto& [name, value] : judged.back().metrics) {
      if (name == wanted) return value;
    }
    return -1;
  }
  void expect_near(const std::string& found, const std::string& wanted) const {
    ASSERT_EQ(losses(found).size(), losses(wanted).size());
    for (size_t s = 0; s < losses(wanted).size(); ++s)
      EXPECT_NEAR(losses(found)[s], losses(wanted)[s], 1e-11) << found << ", step " << s + 1;
  }
};

TEST_F(CaptionedPicturesRun, ALearntModelNamesWhatItSees) {
  EXPECT_EQ(run("long", {"train.steps=120", "train.evaluate_every=120", "train.checkpoint_every=0"}).reason,
            "finished");
  EXPECT_GT(metric("long", "accuracy"), 0.9) << "by chance 0.25";
}

TEST_F(CaptionedPicturesRun, RanksAreOneProcessAndResumeToTheBit) {
  run("one");
  for (const Words& shared : std::vector<Words>{{"parallel.ranks=2", "parallel.zero=3"},
                                                {"parallel.tp=2"},
                                                {"parallel.cp=2"},
                                                {"parallel.pp=2"},
                                                {"parallel.tp=2", "parallel.cp=2", "train.recompute=full"}}) {
    const std::string name = shared.front() + shared.back();
    run(name, shared);
    expect_near(name, "one");
    if (shared.front() != "parallel.pp=2") {
      EXPECT_NEAR(metric(name, "loss"), metric("one", "loss"), 1e-11) << name;
      EXPECT_EQ(metric(name, "accuracy"), metric("one", "accuracy")) << name;
    }
    run(name + " in parts", shared + Words{"train.steps=3"});
    EXPECT_EQ(run(name + " in parts", shared).step, 6);
    EXPECT_EQ(losses(name + " in parts"), losses(name)) << name;
  }
  run("one in parts", {"train.steps=3"});
  run("one in parts");
  EXPECT_EQ(losses("one in parts"), losses("one"));
  run("moved", {"train.steps=3", "parallel.tp=2"});
  run("moved", {"parallel.cp=2"});
  expect_near("moved", "one");
}

// The projector is a tensor of the model: [train] freezes it by its name, and the table likewise.
TEST_F(CaptionedPicturesRun, WhatIsFrozenStays) {
  run("trained");
  for (const std::string frozen : {"projector.*", "embedding.*"}) {
    const std::string word = "train.freeze=" + frozen;
    run(frozen, {word});
    EXPECT_NE(losses(frozen), losses("trained"));
    run(frozen + " on two", {word, "parallel.tp=2"});
    expect_near(frozen + " on two", frozen);
    EXPECT_LT(events<observe::RunStart>(frozen).at(0).planned_memory_bytes,
              events<observe::RunStart>("trained").at(0).planned_memory_bytes);
  }
}

TEST_F(CaptionedPicturesRun, ModulesAheadInAnotherStageAreRefused) {
  run("one", {"model.predict_ahead=1"});
  run("cut", {"model.predict_ahead=1", "parallel.cp=2"});
  expect_near("cut", "one");
  try {
    run("stages", {"model.predict_ahead=1", "parallel.pp=2"});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rows from outside in the last stage"));
  }
}

}  // namespace
}  // namespace longhaul::run
