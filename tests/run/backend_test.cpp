// Which ranks a recipe asks for, and which there are: every pair of them either goes together or is refused with what to type.
#include "run/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/write.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const comm::Placement kAlone;
const comm::Placement kOneLaunched{.engine = "longhaul launch"};
const comm::Placement kFour{.rank = 2, .size = 4, .engine = "Slurm"};

std::string refusal(const recipe::LoadedRecipe& recipe, const comm::Placement& place) {
  try {
    require_backend(recipe, place);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

recipe::LoadedRecipe with(const std::string& backend) { return recipe::load_defaults({"parallel.backend=" + backend}); }

TEST(Backends, ARecipeThatSaysNothingTakesWhatWasStarted) {
  for (const comm::Placement& place : {kAlone, kOneLaunched, kFour}) EXPECT_EQ(refusal(recipe::load_defaults(), place), "");
  // Also when it was written by a run that said nothing.
  const auto of_earlier_run = recipe::load_text(recipe::to_toml(recipe::load_defaults()), "runs/a/recipe.toml");
  EXPECT_EQ(refusal(of_earlier_run, kFour), "");
}

TEST(Backends, ProcessesMustHaveBeenStarted) {
  EXPECT_EQ(refusal(with("gloo"), kOneLaunched), "");
  EXPECT_EQ(refusal(with("gloo"), kFour), "");
  EXPECT_THAT(refusal(with("gloo"), kAlone), AllOf(HasSubstr("this process was started alone"), HasSubstr(" launch -n 2 ")));
  const auto four = recipe::load_defaults({"parallel.backend=gloo", "parallel.tp=2", "parallel.cp=2"});
  EXPECT_THAT(refusal(four, kAlone), HasSubstr(" launch -n 4 "));
}

TEST(Backends, ThreadsAreOfOneProcess) {
  EXPECT_EQ(refusal(with("threads"), kAlone), "");
  EXPECT_EQ(refusal(with("threads"), kOneLaunched), "");
  EXPECT_THAT(refusal(with("threads"), kFour), AllOf(HasSubstr("4 processes, by Slurm"), HasSubstr("command line")));
}

TEST(Backends, NcclIsNotReplacedByAnything) {
  for (const comm::Placement& place : {kAlone, kFour}) EXPECT_THAT(refusal(with("nccl"), place), HasSubstr("built without it"));
}

}  // namespace
}  // namespace longhaul::run
