// Tasks that src does not know (support/outside_tasks.h) are planned, guarded, trained, resumed, shared by
// ranks and reported as those of language are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "observe/events/event_log.h"
#include "recipe/load.h"
#include "recipe/write.h"
#include "run/memory.h"
#include "run/run.h"
#include "run/run_fixture.h"
#include "run/words.h"
#include "storage/catalog.h"
#include "support/outside_tasks.h"

namespace longhaul::run {
namespace {

using longhaul::testing::kOutsideTasks;
using ::testing::HasSubstr;

class OutsideTasks : public RunFixture, public ::testing::WithParamInterface<std::string> {
 protected:
  OutsideTasks() { train::declare_options(kOutsideTasks); }
  recipe::LoadedRecipe recipe(const Words& more = {}) const {
    Words words = {"train.task=" + GetParam(),
                   "train.sequence=1",
                   "train.batch=16",
                   "train.micro_batch=8",
                   "train.steps=8",
                   "train.dtype=fp64",
                   "train.evaluate_every=4",
                   "train.checkpoint_every=4",
                   "train.threads=1",
                   "optim.lr=0.01",
                   "optim.schedule=constant",
                   "optim.warmup_steps=2",
                   "sample.tokens=0",
                   "observe.tensorboard=false",
                   "observe.report=false"};
    words.insert(words.end(), more.begin(), more.end());
    return recipe::load_defaults(words);
  }
  train::Outcome run(const std::string& name, const Words& more = {}) const {
    return run_training({.recipe = recipe(more), .run_folder = folder_ / name, .quiet = true}, kOutsideTasks);
  }
  double accuracy(const std::string& run) const {
    const auto judged = events<observe::Evaluation>(run);
    if (judged.empty()) return -1;
    for (const auto& [name, value] : judged.back().metrics) {
      if (name == "accuracy") return value;
    }
    return -1;
  }
};

TEST_P(OutsideTasks, AreLearnt) {
  EXPECT_EQ(run("long", {"train.steps=150", "train.evaluate_every=150", "train.checkpoint_every=0"}).reason,
            "finished");
  EXPECT_GT(accuracy("long"), 0.9) << "by chance 0.25 and 0.125";
}

TEST_P(OutsideTasks, ARunInTwoPartsIsTheRunInOne) {
  run("whole");
  run("parts", {"train.steps=4"});
  EXPECT_EQ(run("parts").step, 8);
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(accuracy("parts"), accuracy("whole"));
}

TEST_P(OutsideTasks, TwoRanksAreOneProcess) {
  run("one");
  for (const char* shared : {"parallel.zero=0", "parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
    const std::string name = std::string("two ") + shared;
    run(name, {"parallel.ranks=2", shared});
    ASSERT_EQ(losses(name).size(), 8u);
    // Sums are taken in another order, nothing else.
    for (size_t s = 0; s < 8; ++s)
      EXPECT_NEAR(losses(name)[s], losses("one")[s], 1e-12) << name << ", step " << s + 1;
  }
}

// The phases that the task names have their seconds with the step, with the evaluation and on the page.
TEST_P(OutsideTasks, PhasesAreReportedByTheirNames) {
  run("run", {"observe.report=true"});
  for (const observe::StepReport& step : events<observe::StepReport>("run")) {
    ASSERT_TRUE(step.metrics.contains("choosing_seconds"));
    EXPECT_GT(step.metrics.at("choosing_seconds"), 0);
    EXPECT_LT(step.metrics.at("choosing_seconds"), step.milliseconds * 1e-3);
    EXPECT_GE(step.data_wait_milliseconds, 0) << "a phase is no waiting for data";
    EXPECT_FALSE(step.metrics.contains("judging_seconds")) << "evaluations are no part of a step";
  }
  const auto judged = events<observe::Evaluation>("run");
  ASSERT_FALSE(judged.empty());
  EXPECT_GT(judged.back().metrics.at("judging_seconds"), 0);
  EXPECT_THAT(read_text(folder_ / "run" / "report.html"), HasSubstr("choosing_seconds"));
}

TEST_P(OutsideTasks, AreFrozenByTheirOwnNames) {
  const std::string frozen =
      GetParam() == "pictures" ? "train.freeze=convolution.*" : "train.freeze=query_tower.mixer.query.*";
  run("whole", {frozen});
  run("parts", {frozen, "train.steps=4"});
  run("parts", {frozen});
  EXPECT_EQ(losses("parts"), losses("whole"));
  run("two", {frozen, "parallel.ranks=2", "parallel.zero=2"});
  for (size_t s = 0; s < 8; ++s) EXPECT_NEAR(losses("two")[s], losses("whole")[s], 1e-12) << "step " << s + 1;
  run("trained");
  EXPECT_NE(losses("whole"), losses("trained"));
  EXPECT_LT(events<observe::RunStart>("whole").at(0).planned_memory_bytes,
            events<observe::RunStart>("trained").at(0).planned_memory_bytes);
}

TEST_P(OutsideTasks, ALayoutThatTheTaskDoesNotOfferIsRefused) {
  try {
    run("refused", {"parallel.tp=2", "parallel.ranks=2"});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(GetParam() + " can be shared by data ranks alone"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

// Weights, gradients, and AdamW's two moments, in eight bytes each: the weights are their own masters in
// fp64.
TEST_P(OutsideTasks, AreReportedAndGuardedByTheirOwnTensors) {
  const int64_t parameters = GetParam() == "pictures" ? 6 * 9 + 6 + 4 * 54 + 4 : 4 * 8 * 10;
  run("run", {"observe.report=true"});
  const auto start = events<observe::RunStart>("run").at(0);
  EXPECT_EQ(start.model, GetParam());
  EXPECT_EQ(start.parameters, parameters);
  EXPECT_EQ(start.planned_memory_bytes, 4 * 8 * parameters);
  EXPECT_EQ(start.tokens_per_step, 16);
  EXPECT_GT(*start.flops_per_token, 0);
  EXPECT_THAT(read_text(folder_ / "run" / "report.html"), HasSubstr("accuracy"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "tokenizer.json")) << "nothing reads text";

  const recipe::LoadedRecipe loaded = recipe();
  const auto model = train::task_named(kOutsideTasks, GetParam()).plan(loaded.recipe);
  EXPECT_NO_THROW(
      require_memory(*model, loaded.recipe, model->arrange(1), at::kCPU, 4 * 8 * parameters, nullptr));
  try {
    require_memory(*model, loaded.recipe, model->arrange(1), at::kCPU, 4 * 8 * parameters - 1, nullptr);
    ADD_FAILURE() << "it does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(parameters) + " parameters"));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("model.layers"))) << "[model] does not describe it";
  }
}

INSTANTIATE_TEST_SUITE_P(Both, OutsideTasks, ::testing::Values("pictures", "retriever"),
                         [](const auto& of) { return of.param; });

// Its gradients would stay on the rank that made them, and every rank would go its own way.
TEST(CarelessTask, LayersThatAreNotMarkedEndTheRun) {
  train::declare_options(kOutsideTasks);
  const TemporaryFolder folder;
  const recipe::LoadedRecipe recipe = recipe::load_defaults(
      {"train.task=careless", "train.sequence=1", "train.batch=4", "train.micro_batch=2", "train.steps=2",
       "train.dtype=fp32", "train.threads=1", "parallel.ranks=2", "parallel.zero=2", "sample.tokens=0",
       "train.evaluate_every=0", "observe.tensorboard=false", "observe.report=false"});
  try {
    run_training({.recipe = recipe, .run_folder = folder / "run", .quiet = true}, kOutsideTasks);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    EXPECT_THAT(error.what(), HasSubstr("does not mark where layer 0 begins and ends"));
  }
}

// As every option: read, checked, printed, compared and written.
class OutsideTaskOptions : public RunFixture {
 protected:
  OutsideTaskOptions() { train::declare_options(kOutsideTasks); }
  static std::string refused(const std::string& word) {
    try {
      recipe::load_defaults({word});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(OutsideTaskOptions, AreReadFromTheirSectionAndWritten) {
  const recipe::LoadedRecipe loaded =
      recipe::load_text("[pictures]\nnoise = 0.5\n", "noisy.toml", {"pictures.stripes=6"});
  EXPECT_EQ(loaded.recipe.outside.number("pictures.noise"), 0.5);
  EXPECT_EQ(loaded.recipe.outside.whole("pictures.stripes"), 6);
  EXPECT_EQ(loaded.origin("pictures.noise").text(), "noisy.toml:2");
  const std::string written = recipe::to_toml(loaded);
  EXPECT_THAT(written, HasSubstr("[pictures]"));
  EXPECT_EQ(recipe::load_text(written, "written.toml").recipe.outside, loaded.recipe.outside);
  EXPECT_EQ(recipe::load_defaults().recipe.outside.number("pictures.noise"), 0.3);
}

TEST_F(OutsideTaskOptions, AreCheckedAsAllOthers) {
  EXPECT_THAT(refused("pictures.nois=0.5"), HasSubstr("pictures.noise"));
  EXPECT_THAT(refused("pictures.noise=-1"), HasSubstr("from 0 to 10"));
  EXPECT_THAT(refused("pictures.stripes=2.5"), HasSubstr("whole number"));
}

TEST_F(OutsideTaskOptions, ChangeTheRunAndMustStayTheSame) {
  const Words words = {"train.task=pictures",
                       "train.sequence=1",
                       "train.batch=8",
                       "train.micro_batch=8",
                       "train.steps=2",
                       "train.dtype=fp64",
                       "train.evaluate_every=0",
                       "train.checkpoint_every=2",
                       "train.threads=1",
                       "sample.tokens=0",
                       "observe.tensorboard=false",
                       "observe.report=false"};
  const auto run = [&](const std::string& name, const Words& more) {
    return run_training(
        {.recipe = recipe::load_defaults(words + more), .run_folder = folder_ / name, .quiet = true},
        kOutsideTasks);
  };
  run("usual", {});
  run("clear", {"pictures.noise=0"});
  EXPECT_NE(losses("clear"), losses("usual"));
  EXPECT_THAT(read_text(folder_ / "clear" / "recipe.toml"), HasSubstr("noise = 0"));
  try {
    run("clear", {"pictures.noise=0.1", "train.steps=4"});
    ADD_FAILURE() << "it went on with other pictures";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("pictures.noise"));
  }
}

TEST(OutsideTaskNames, AnUnknownOneIsRefusedWithThoseThatAreKnown) {
  const TemporaryFolder folder;
  try {
    run_training({.recipe = recipe::load_defaults({"train.task=pretrain"}),
                  .run_folder = folder / "run",
                  .quiet = true},
                 kOutsideTasks);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("pictures, retriever, actor_critic, careless"));
  }
}

}  // namespace
}  // namespace longhaul::run
