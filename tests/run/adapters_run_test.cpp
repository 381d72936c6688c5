// ctest: label=full timeout=300
// Runs with [lora] that begin with a trained run: the weights stay as they were, the adapters learn, resumed
// to the bit, and the merged weights begin where the adapted ones ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/adapters/adapted_run.h"
#include "checkpoint/starting_point.h"
#include "layout/adapters.h"
#include "recipe/load.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/words.h"
#include "storage/catalog.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;

class AdaptersRun : public RunFixture {
 protected:
  RunRequest request(const std::string& name, const Words& more, const std::string& from = "") const {
    const Words words = {"model.layers=2",         "model.hidden=32",
                         "model.heads=2",          "model.kv_heads=2",
                         "model.head_dim=16",      "model.vocabulary=16",
                         "model.mixers=softmax",   "model.intermediate=32",
                         "model.rotary_dim=16",    "model.wiring=pre_norm",
                         "train.task=recall",      "recall.kind=copy",
                         "recall.pairs=3",         "train.sequence=8",
                         "train.batch=8",          "train.micro_batch=2",
                         "train.steps=4",          "train.dtype=fp64",
                         "train.evaluate_every=0", "train.checkpoint_every=2",
                         "recall.held_out=10",     "train.threads=1",
                         "optim.lr=0.01",          "optim.schedule=constant",
                         "optim.warmup_steps=2",   "sample.tokens=0",
                         "observe.report=false",   "observe.tensorboard=false"};
    RunRequest request{
        .recipe = recipe::load_defaults(words + more), .run_folder = folder_ / name, .quiet = true};
    if (!from.empty()) request.from = checkpoint::StartingPoint::open(folder_ / from);
    return request;
  }
  std::map<std::string, std::vector<std::byte>> tensors(const std::string& name) const {
    std::map<std::string, std::vector<std::byte>> all;
    const auto checkpoint = storage::open_checkpoint(storage::local_file_system(), folder_ / name);
    for (const auto& [tensor, entry] : checkpoint.manifest().tensors)
      all[tensor] = checkpoint.read_tensor(tensor);
    return all;
  }
  std::string refused(const RunRequest& request) const {
    try {
      run_training(request);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "accepted";
  }
};

const Words kLora = {"lora.rank=3"};

TEST_F(AdaptersRun, TheWeightsStayAndTheAdaptersLearn) {
  run_training(request("base", {}));
  run_training(request("lora", kLora + Words{"train.steps=6"}, "base"));
  const auto base = tensors("base"), lora = tensors("lora");
  int64_t adapters = 0, states = 0;
  for (const auto& [name, bytes] : lora) {
    if (name.starts_with("optimizer.")) {
      ++states;
      EXPECT_NE(name.find(".lora_"), std::string::npos) << name << " is frozen";
    } else if (layout::is_adapter_name(name)) {
      ++adapters;
      EXPECT_NE(bytes, std::vector<std::byte>(bytes.size())) << name << " is still zero";
    } else if (base.contains(name)) {
      EXPECT_EQ(bytes, base.at(name)) << name;
    }
  }
  EXPECT_EQ(adapters, 2 * 7 * 2);
  EXPECT_GE(states, adapters);
  // The first step is that of a run which goes on with the base as a whole.
  run_training(request("on", {"train.steps=1"}, "base"));
  EXPECT_NEAR(losses("lora").at(0), losses("on").at(0), 1e-9);
}

TEST_F(AdaptersRun, ResumedRunsAreTheSameBits) {
  run_training(request("base", {}));
  run_training(request("whole", kLora, "base"));
  run_training(request("halves", kLora + Words{"train.steps=2"}, "base"));
  run_training(request("halves", kLora));
  const auto whole = tensors("whole"), halves = tensors("halves");
  ASSERT_EQ(whole.size(), halves.size());
  for (const auto& [name, bytes] : whole) EXPECT_EQ(bytes, halves.at(name)) << name;
}

TEST_F(AdaptersRun, EveryKindOfRanksIsOneProcess) {
  run_training(request("base", {}));
  run_training(request("one", kLora, "base"));
  for (const Words& ranks : std::vector<Words>{{"parallel.ranks=2", "parallel.zero=1"},
                                               {"parallel.ranks=2", "parallel.zero=3"},
                                               {"parallel.tp=2"},
                                               {"parallel.pp=2"},
                                               {"parallel.cp=2"}}) {
    const std::string name = fmt::format("{}", fmt::join(ranks, " "));
    run_training(request(name, kLora + ranks, "base"));
    for (size_t s = 0; s < 4; ++s)
      EXPECT_NEAR(losses(name).at(s), losses("one").at(s), 1e-9) << name << ", step " << s + 1;
  }
}

TEST_F(AdaptersRun, MergedWeightsBeginWhereTheAdaptedOnesEnd) {
  run_training(request("base", {}));
  run_training(request("lora", kLora + Words{"lora.kind=dora"}, "base"));
  checkpoint::merge_adapters(folder_ / "lora", folder_ / "merged", std::nullopt);
  run_training(request("merged on", {"train.steps=1"}, "merged"));
  run_training(request("adapted on", kLora + Words{"lora.kind=dora", "train.steps=1"}, "lora"));
  EXPECT_NEAR(losses("merged on").at(0), losses("adapted on").at(0), 1e-9);
  EXPECT_GT(std::abs(losses("merged on").at(0) - losses("base").at(0)), 1e-3);
}

TEST_F(AdaptersRun, AdaptersThatWouldBeLostAreRefused) {
  run_training(request("base", {}));
  run_training(request("lora", kLora, "base"));
  EXPECT_THAT(refused(request("plain", {}, "lora")), HasSubstr("checkpoint merge"));
  EXPECT_THAT(refused(request("other", {"lora.rank=4"}, "lora")), HasSubstr("rank 3"));
  EXPECT_EQ(refused(request("same", kLora + Words{"train.steps=1"}, "lora")), "accepted");
  EXPECT_THAT(refused(request("none", {"lora.rank=4", "lora.targets=q_proj"}, "base")), HasSubstr("q_proj"));
}

}  // namespace
}  // namespace longhaul::run
