// ctest: label=full timeout=300
// Runs with train.freeze: on every kind of ranks the same as alone, resumed to the bit, refused where they
// must be, with the memory of what trains alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "layout/freezing.h"
#include "observe/events/event_log.h"
#include "plan/memory/state_bytes.h"
#include "recipe/load.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/words.h"
#include "storage/catalog.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;

class FrozenRun : public RunFixture {
 protected:
  RunRequest request(const std::string& name, const Words& more) const {
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
    return {.recipe = recipe::load_defaults(words + more), .run_folder = folder_ / name, .quiet = true};
  }
  std::string refused(const std::string& name, const Words& more, ExitCode code = ExitCode::kUsage) const {
    try {
      run_training(request(name, more));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "accepted";
  }
  // The values of a checkpoint's masters by logical name, as bytes.
  std::map<std::string, std::vector<std::byte>> weights(const std::string& name, int64_t step) const {
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& saved :
         storage::list_checkpoints(storage::local_file_system(), folder_ / name / "checkpoints")) {
      if (saved.name.step != step) continue;
      const auto checkpoint = storage::Checkpoint::open(storage::local_file_system(), saved.path);
      for (const auto& [tensor, entry] : checkpoint.manifest().tensors)
        all[tensor] = checkpoint.read_tensor(tensor);
    }
    EXPECT_FALSE(all.empty()) << name << ", step " << step;
    return all;
  }
};

const Words kFrozen = {"train.freeze=layers.0.*,embedding.weight"};

TEST_F(FrozenRun, EveryKindOfRanksIsOneProcess) {
  run_training(request("one", kFrozen));
  run_training(request("trained", {}));
  EXPECT_NE(losses("one"), losses("trained"));
  for (const Words& ranks : std::vector<Words>{{"parallel.ranks=2"},
                                               {"parallel.ranks=2", "parallel.zero=1"},
                                               {"parallel.ranks=2", "parallel.zero=2"},
                                               {"parallel.ranks=2", "parallel.zero=3"},
                                               {"parallel.tp=2"},
                                               {"parallel.pp=2"},
                                               {"parallel.cp=2"},
                                               {"parallel.ranks=4", "parallel.pp=2", "parallel.zero=2"},
                                               {"parallel.ranks=4", "parallel.tp=2", "parallel.zero=3"}}) {
    const std::string name = fmt::format("{}", fmt::join(ranks, " "));
    run_training(request(name, kFrozen + ranks));
    ASSERT_EQ(losses(name).size(), 4u) << name;
    for (size_t s = 0; s < 4; ++s)
      EXPECT_NEAR(losses(name)[s], losses("one")[s], 1e-9) << name << ", step " << s + 1;
  }
}

TEST_F(FrozenRun, ATiedHeadIsFrozenWithItsEmbedding) {
  const Words tied = {"train.freeze=embedding.weight", "model.tie_embeddings=true"};
  run_training(request("one", tied));
  for (const char* ranks : {"parallel.tp=2", "parallel.pp=2", "parallel.zero=3"}) {
    run_training(request(ranks, tied + Words{ranks, "parallel.ranks=2"}));
    for (size_t s = 0; s < 4; ++s)
      EXPECT_NEAR(losses(ranks)[s], losses("one")[s], 1e-9) << ranks << ", step " << s + 1;
  }
}

TEST_F(FrozenRun, GoesOnAsIfNobodyHadStoppedItAndKeepsWhatIsFrozenToTheBit) {
  for (const Words& dtype : std::vector<Words>{{}, {"train.dtype=bf16"}}) {
    const std::string of = dtype.empty() ? "fp64 " : "bf16 ";
    run_training(request(of + "whole", kFrozen + dtype));
    run_training(request(of + "parts", kFrozen + dtype + Words{"train.steps=2"}));
    run_training(request(of + "parts", kFrozen + dtype));
    EXPECT_EQ(losses(of + "parts"), losses(of + "whole"));
    const auto at_2 = weights(of + "whole", 2), at_4 = weights(of + "whole", 4),
               resumed = weights(of + "parts", 4);
    EXPECT_EQ(resumed, at_4);
    int64_t kept = 0, moved = 0;
    for (const auto& [tensor, bytes] : at_2) {
      const bool frozen = tensor.find("layers.0.") != std::string::npos ||
                          tensor.find("embedding.weight") != std::string::npos;
      EXPECT_EQ(bytes == at_4.at(tensor), frozen) << tensor;
      (frozen ? kept : moved) += 1;
    }
    EXPECT_EQ(kept, 10) << "nine tensors of the layer and the embedding, none with a state";
    EXPECT_GT(moved, 0);
  }
}

TEST_F(FrozenRun, GoesOnWithTheSamePatternsOnly) {
  run_training(request("run", kFrozen + Words{"train.steps=2"}));
  EXPECT_THAT(refused("run", {"train.freeze=layers.0.*"}), HasSubstr("train.freeze"));
  EXPECT_THAT(refused("run", {}), HasSubstr("train.freeze"));
}

TEST_F(FrozenRun, WhatCannotBeFrozenIsRefusedBeforeAnythingIsThere) {
  EXPECT_THAT(refused("new", {"train.freeze=embeding.weight"}), HasSubstr("near are: embedding.weight"));
  EXPECT_THAT(refused("new", {"train.freeze=layers.1.mixer.key.weight"}),
              HasSubstr("layers.1.mixer.query.weight"));
  EXPECT_THAT(refused("new", {"train.freeze=*"}), HasSubstr("nothing is left that trains"));
  EXPECT_THAT(refused("new", {"train.freeze=layers.1.mixer.key.weight", "parallel.tp=2"}),
              HasSubstr("layers.1.mixer.query.weight"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
}

// Weights of all, and gradients and AdamW's two moments of what trains, in eight bytes each.
TEST_F(FrozenRun, MemoryIsPlannedForWhatTrains) {
  const recipe::Recipe recipe = request("plan", kFrozen).recipe.recipe;
  const int64_t layer = 4 * 32 * 32 + 3 * 32 * 32 + 2 * 32, outside = 2 * 16 * 32 + 32,
                trained = layer + 32 + 16 * 32;
  const plan::RankState state = plan::rank_state(recipe.model, recipe.train.dtype, recipe.optim, {});
  EXPECT_EQ(state.weights, 8 * (2 * layer + outside));
  EXPECT_EQ(state.gradients, 8 * trained);
  EXPECT_EQ(state.optimizer, 2 * 8 * trained);
  run_training(request("run", kFrozen));
  run_training(request("all", {}));
  const auto start = events<observe::RunStart>("run").at(0), all = events<observe::RunStart>("all").at(0);
  EXPECT_EQ(start.parameters, all.parameters);
  EXPECT_LE(*start.planned_memory_bytes, *all.planned_memory_bytes - 3 * 8 * (layer + 16 * 32));
  EXPECT_LT(*start.flops_per_token, *all.flops_per_token);
}

}  // namespace
}  // namespace longhaul::run
