// ctest: label=full timeout=180
// Whole runs that change their optimizer on the way, and groups of tensors that there are none of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "observe/events/event_log.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "storage/catalog.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Settings = std::vector<std::string>;

class OptimizerRuns : public RunFixture {
 protected:
  OptimizerRuns() {
    write_text([](int i) { return 20 + i % 7; });
  }
  void train(const std::string& name, const Settings& more) const {
    Settings all = tiny_run(folder_.path());
    for (const char* own : {"train.dtype=fp32", "train.batch=4", "train.micro_batch=2",
                            "train.evaluate_every=0", "train.checkpoint_every=0"})
      all.emplace_back(own);
    all.insert(all.end(), more.begin(), more.end());
    run_training({.recipe = recipe::load_defaults(all), .run_folder = folder_ / name, .quiet = true});
  }
  ErrorFields refused(const std::string& name, const Settings& more) const {
    try {
      train(name, more);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.fields();
    }
    ADD_FAILURE() << "trained";
    return {};
  }
  // What the last checkpoint has of queries: "weight", "optimizer.m".
  std::set<std::string> kinds(const std::string& name) const {
    const storage::LocalFileSystem files;
    // newest first
    const auto saved = storage::list_checkpoints(files, folder_ / name / "checkpoints").front();
    std::set<std::string> found;
    for (const auto& [name_of_tensor, tensor] : storage::read_manifest(files, saved.path).tensors) {
      if (name_of_tensor.find("query") != std::string::npos) found.insert(tensor.role);
    }
    return found;
  }
};

TEST_F(OptimizerRuns, StatesOfAnotherOptimizerAreRefusedAndFreshOnesOffered) {
  train("run", {"optim.name=adamw", "train.steps=4"});
  const Settings came = {"optim.name=came", "train.steps=8"};
  const ErrorFields fields = refused("run", came);
  EXPECT_THAT(fields.what, HasSubstr("optim.name cannot change in the middle of a run"));
  EXPECT_THAT(fields.expected, HasSubstr("optim.name = \"adamw\""));
  EXPECT_THAT(fields.found, HasSubstr("optim.name = \"came\""));
  EXPECT_THAT(fields.hint, AllOf(HasSubstr("optim.name=adamw"), HasSubstr("optim.fresh_states=true"),
                                 HasSubstr("--fresh")));
  EXPECT_EQ(losses("run").size(), 4U) << "nothing was touched";
}

// The first step behind the change is that of the old weights, which no state has a part in; and states begin
// anew once, not at every start.
TEST_F(OptimizerRuns, FreshStatesGoOnFromTheWeights) {
  const Settings fresh = {"optim.name=came", "optim.fresh_states=true"};
  const auto with = [](Settings all, const std::string& more) {
    all.push_back(more);
    return all;
  };
  for (const char* name : {"same", "run", "stopped"}) train(name, {"optim.name=adamw", "train.steps=4"});
  train("same", {"optim.name=adamw", "train.steps=8"});
  train("run", with(fresh, "train.steps=8"));
  train("stopped", with(fresh, "train.steps=6"));
  train("stopped", with(fresh, "train.steps=8"));
  ASSERT_EQ(losses("run").size(), 8U);
  EXPECT_EQ(losses("run")[4], losses("same")[4]);
  EXPECT_NE(losses("run")[5], losses("same")[5]);
  EXPECT_EQ(losses("stopped"), losses("run"));
  EXPECT_LT(losses("run").back(), losses("run").front());
  EXPECT_THAT(kinds("same"), AllOf(Contains("optimizer.v"), Not(Contains("optimizer.row_residual"))));
  EXPECT_THAT(kinds("run"), AllOf(Contains("optimizer.row_residual"), Not(Contains("optimizer.v"))));
}

TEST_F(OptimizerRuns, GroupsAboutNoTensorAreRefusedBeforeAnythingIsMade) {
  const auto refused_groups = [&](const std::string& groups) {
    return refused("run", {"model.experts=0", "optim.group=" + groups});
  };
  const ErrorFields router = refused_groups("[{ tensors = [\"router\", \"expert_up\"], name = \"lion\" }]");
  EXPECT_THAT(router.what, HasSubstr("about no tensor of this model"));
  EXPECT_THAT(router.expected, AllOf(HasSubstr("channel_up"), HasSubstr("query"), Not(HasSubstr("router"))));
  EXPECT_EQ(router.found, "router, expert_up");
  EXPECT_EQ(router.where, "optim.group, entry 1");
  const ErrorFields second = refused_groups(
      "[{ tensors = [\"query\", \"norm\"], name = \"lion\" }, { tensors = \"norm\", lr_factor = 0.5 }]");
  EXPECT_EQ(second.where, "optim.group, entry 2") << "the first has all norms";
  EXPECT_THAT(refused_groups("[{ name = \"lion\" }]").found, HasSubstr("no roles"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  train("run", {"model.experts=0", "train.steps=2",
                "optim.group=[{ tensors = [\"query\", \"norm\"], name = \"lion\" }]"});
  EXPECT_THAT(kinds("run"), Contains(HasSubstr("momentum")));
}

}  // namespace
}  // namespace longhaul::run
