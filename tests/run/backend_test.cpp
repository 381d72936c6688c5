// Which ranks a recipe asks for, and which there are: every pair of them either goes together or is refused
// with what to type.
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

recipe::LoadedRecipe with(const std::string& backend) {
  return recipe::load_defaults({"parallel.backend=" + backend});
}

TEST(Backends, ARecipeThatSaysNothingTakesWhatWasStarted) {
  for (const comm::Placement& place : {kAlone, kOneLaunched, kFour})
    EXPECT_EQ(refusal(recipe::load_defaults(), place), "");
  // Also when it was written by a run that said nothing.
  const auto of_earlier_run =
      recipe::load_text(recipe::to_toml(recipe::load_defaults()), "runs/a/recipe.toml");
  EXPECT_EQ(refusal(of_earlier_run, kFour), "");
}

TEST(Backends, ProcessesMustHaveBeenStarted) {
  EXPECT_EQ(refusal(with("gloo"), kOneLaunched), "");
  EXPECT_EQ(refusal(with("gloo"), kFour), "");
  EXPECT_THAT(refusal(with("gloo"), kAlone),
              AllOf(HasSubstr("this process was started alone"), HasSubstr(" launch -n 2 ")));
  const auto four = recipe::load_defaults({"parallel.backend=gloo", "parallel.tp=2", "parallel.cp=2"});
  EXPECT_THAT(refusal(four, kAlone), HasSubstr(" launch -n 4 "));
}

TEST(Backends, ThreadsAreOfOneProcess) {
  EXPECT_EQ(refusal(with("threads"), kAlone), "");
  EXPECT_EQ(refusal(with("threads"), kOneLaunched), "");
  EXPECT_THAT(refusal(with("threads"), kFour),
              AllOf(HasSubstr("4 processes, by Slurm"), HasSubstr("command line")));
}

TEST(Backends, AutoIsAsIfNothingWereSaid) {
  for (const comm::Placement& place : {kAlone, kOneLaunched, kFour})
    EXPECT_EQ(refusal(with("auto"), place), "");
  EXPECT_EQ(recipe::load_defaults().recipe.parallel.backend, recipe::Backend::kAuto);
}

TEST(Backends, NcclIsNotReplacedByAnything) {
  for (const comm::Placement& place : {kAlone, kFour})
    EXPECT_THAT(refusal(with("nccl"), place), HasSubstr("built without it"));
}

// ---- the device of each rank, on machines with eight visible GPUs, one, and none

recipe::LoadedRecipe asking(const std::vector<std::string>& words) { return recipe::load_defaults(words); }
comm::Placement rank_of_machine(int64_t local_rank, int64_t local_size = 8) {
  return {.rank = 8 + local_rank,
          .size = 16,
          .local_rank = local_rank,
          .local_size = local_size,
          .engine = "torchrun"};
}
constexpr Gpus kEight{.visible = 8, .nccl = true}, kOneEach{.visible = 1, .nccl = true},
    kFewer{.visible = 4, .nccl = true}, kNone{};

std::string device_refusal(const std::vector<std::string>& words, const comm::Placement& place,
                           const Gpus& gpus) {
  try {
    place_of_rank(asking(words), place, gpus);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ExitCode::kUsage || error.code() == ExitCode::kDevice);
    return error.what();
  }
  return "";
}

TEST(RankPlaces, EachRankHasTheGpuOfItsNumberOnItsMachine) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"train.device=cuda"}}) {
    const RankPlace fifth = place_of_rank(asking(words), rank_of_machine(5), kEight);
    EXPECT_EQ(fifth.backend, recipe::Backend::kNccl);
    EXPECT_EQ(fifth.device, at::Device(at::kCUDA, 5));
    EXPECT_EQ(place_of_rank(asking(words), rank_of_machine(5), kOneEach).device, at::Device(at::kCUDA, 0))
        << "CUDA_VISIBLE_DEVICES of one";
    EXPECT_THAT(device_refusal(words, rank_of_machine(5), kFewer),
                AllOf(HasSubstr("fewer GPUs than ranks"), HasSubstr("start 4 ranks")));
  }
  EXPECT_THAT(place_of_rank(asking({}), rank_of_machine(5), kEight).why,
              AllOf(HasSubstr("8 visible GPUs"), HasSubstr("NCCL")));
}

TEST(RankPlaces, OneGpuForAllRanksOfAMachineIsRefused) {
  EXPECT_THAT(device_refusal({"train.device=cuda:0"}, rank_of_machine(5), kEight),
              AllOf(HasSubstr("one GPU for all ranks"), HasSubstr("leave train.device out")));
  EXPECT_EQ(place_of_rank(asking({"train.device=cuda:0"}), rank_of_machine(5), kOneEach).device,
            at::Device(at::kCUDA, 0));
}

TEST(RankPlaces, CpusExchangeOverGloo) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"train.device=cpu"}, {"parallel.backend=gloo"}}) {
    const RankPlace place = place_of_rank(asking(words), rank_of_machine(5), kNone);
    EXPECT_EQ(place.backend, recipe::Backend::kGloo);
    EXPECT_TRUE(place.device.is_cpu());
  }
  EXPECT_EQ(place_of_rank(asking({"train.device=cpu"}), rank_of_machine(5), kEight).backend,
            recipe::Backend::kGloo);
  EXPECT_EQ(place_of_rank(asking({}), kAlone, kNone).backend, recipe::Backend::kThreads);
}

// No GPU lies idle without a word, and what is said leads to it.
TEST(RankPlaces, RefusalsLeadAGpusUserToGpus) {
  EXPECT_THAT(device_refusal({"parallel.backend=gloo"}, rank_of_machine(5), kEight),
              AllOf(HasSubstr("leave parallel.backend out"), HasSubstr("8 visible GPUs")));
  EXPECT_THAT(device_refusal({}, rank_of_machine(5), {.visible = 8, .nccl = false}),
              AllOf(HasSubstr("built without it"), HasSubstr("clusters.md#gpus")));
}

}  // namespace
}  // namespace longhaul::run
