// Rows from outside in the place of some of the embedding's: several ranks give what one process gives, the
// gradients of the projector that makes the rows included.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prove/prove.h"
#include "proved_models.h"

// ctest: label=full timeout=300

namespace longhaul::prove {
namespace {

recipe::ModelConfig learned_positions() {
  recipe::ModelConfig config = dense_linear();
  config.position = recipe::Position::kLearned;
  config.max_positions = 64;
  return config;
}

recipe::ModelConfig predicting_ahead() {
  recipe::ModelConfig config = dense_linear();
  config.predict_ahead = 2;
  return config;
}

void expect_all(const recipe::ModelConfig& config, const std::vector<ProofLayout>& layouts,
                recipe::Dtype dtype) {
  for (const Proof& proof : prove({.model = config, .layouts = layouts, .dtype = dtype})) {
    EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
    EXPECT_TRUE(proof.holds) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst, kProofBound) << proof.layout << ": " << proof.tensor;
  }
}

// What `prove` tries by itself, in bf16 too.
TEST(ProveEmbeddedRows, TheUsualLayouts) {
  for (const recipe::ModelConfig& config : {hybrid(), learned_positions()})
    expect_all(config, embedded_layouts(), recipe::Dtype::kBf16);
}

TEST(ProveEmbeddedRows, LayoutsOfEveryKind) {
  using enum recipe::PipelineSchedule;
  std::vector<ProofLayout> layouts;
  for (const recipe::ParallelOptions& each : std::vector<recipe::ParallelOptions>{
           {.cp = 3},
           {.tp = 4, .tp_chunks = 2},
           {.ranks = 4, .zero = 2},
           {.pp = 2, .cp = 2, .zero = 2, .pipeline = {.schedule = kDualPipe}},
           {.ranks = 4, .pp = 2, .zero = 1, .pipeline = {.schedule = kZbH1}}}) {
    layouts.push_back(proof_layout(each));
    layouts.back().embedded = true;
  }
  expect_all(hybrid(), layouts, recipe::Dtype::kFp64);
  layouts.resize(2);
  for (const recipe::ModelConfig& config : {learned_positions(), predicting_ahead(), without_order()})
    expect_all(config, layouts, recipe::Dtype::kFp64);
}

TEST(ProveEmbeddedRows, ModulesAheadInAnotherStageAreRefused) {
  ProofLayout stages = proof_layout({.pp = 2});
  stages.embedded = true;
  const Proof refused = prove({.model = predicting_ahead(), .layouts = {stages}})[0];
  EXPECT_EQ(refused.status, Proof::Status::kRefused);
  EXPECT_THAT(refused.reason, ::testing::HasSubstr("rows from outside in the last stage"));
}

}  // namespace
}  // namespace longhaul::prove
