// Several ranks give what one process gives: experts that are folded over ranks, and every kind of router.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prove/prove.h"
#include "proved_models.h"
#include "support/nightly.h"

// ctest: label=full timeout=600

namespace longhaul::prove {
namespace {

using ::testing::HasSubstr;

const recipe::ExpertOptions kGathers{.dispatcher = recipe::Dispatcher::kAllGather},
    kOverlaps{.token_groups = 3, .delay_gradients = true}, kFlex{.dispatcher = recipe::Dispatcher::kFlex},
    kFlexOverlaps{.dispatcher = recipe::Dispatcher::kFlex, .token_groups = 2, .delay_gradients = true};

// Tensors of experts cut over ranks, experts folded over all axes of the dense side, all dispatchers, in
// groups of tokens and not.
TEST(ProveExperts, FoldedExperts) {
  expect_proved(hybrid(), {{.ep = 2, .etp = 2},
                           {.tp = 2, .ep = 4, .experts = kOverlaps},
                           {.tp = 2, .ep = 2, .etp = 2, .experts = kGathers},
                           {.ranks = 8, .tp = 2, .etp = 4, .experts = kOverlaps},
                           {.tp = 2, .cp = 2, .ep = 4, .etp = 2, .experts = kFlexOverlaps},
                           {.pp = 2,
                            .ep = 2,
                            .etp = 2,
                            .pipeline = {.schedule = recipe::PipelineSchedule::kZbH1},
                            .experts = kOverlaps}});
}

// What is dropped, and the bias that evens out the choices, are the same whoever shares a sequence. In bf16 a
// choice that flips drops others. By day each layout with one of the two.
TEST(ProveExperts, RoutersThatDropAndBalance) {
  recipe::ModelConfig config = hybrid();
  config.router = {.score = recipe::RouterScore::kSigmoid, .bias_rate = 0.01, .capacity_factor = 0.75};
  for (const auto dropped : {recipe::Dropped::kLeast, recipe::Dropped::kLast}) {
    config.router.dropped = dropped;
    config.router.normalised = dropped == recipe::Dropped::kLeast;
    const std::vector<recipe::ParallelOptions> all = {
        {.ranks = 2},
        {.tp = 2},
        {.cp = 2},
        {.pp = 2},
        {.pp = 2, .pipeline = {.schedule = recipe::PipelineSchedule::kDualPipe}},
        {.ranks = 2, .zero = 3},
        {.cp = 2, .ep = 2, .experts = config.router.normalised ? kFlex : kGathers},
        {.tp = 2, .ep = 2, .etp = 2, .experts = kOverlaps}};
    std::vector<recipe::ParallelOptions> today;
    for (size_t i = 0; i < all.size(); ++i) {
      if ((i % 2 == 0) == config.router.normalised || longhaul::testing::takes_all()) today.push_back(all[i]);
    }
    expect_proved(config, today);
  }
}

// Rooms of parts of a sequence, which ranks have whole or cut, and of all sequences of a step; rows padded to
// them.
TEST(ProveExperts, RoutersThatDropByPartsAndByBatches) {
  const recipe::ExpertOptions padded{.padded = true},
      in_groups{.padded = true, .token_groups = 2, .delay_gradients = true};
  recipe::ModelConfig config = hybrid();
  config.router = {.capacity_factor = 0.75, .capacity_parts = 4};
  expect_proved(config, {{.ranks = 2},
                         {.cp = 2, .ep = 2, .experts = padded},
                         {.tp = 2, .ep = 2, .etp = 2, .experts = in_groups},
                         {.pp = 2, .ep = 2, .experts = padded}});
  config.router = {.capacity_factor = 0.75, .capacity_of = recipe::CapacityOf::kBatch};
  expect_proved(config, {{.ranks = 2},
                         {.ranks = 4, .cp = 2, .ep = 2, .experts = padded},
                         {.ranks = 4, .tp = 2, .ep = 4},
                         {.ranks = 4, .pp = 2, .zero = 2, .experts = {}}});
  config.router.capacity_of = recipe::CapacityOf::kLent;
  expect_proved(config, {{.ranks = 4, .cp = 2, .ep = 2, .experts = padded},
                         {.ranks = 4, .tp = 2, .ep = 4},
                         {.ranks = 4, .pp = 2}});
}

// Jitter has the same numbers whoever has a token, in an elastic run to the bit; Sinkhorn's iteration is over
// a sequence, whoever shares it.
TEST(ProveExperts, RoutersThatJitterAndBalanceTheirChoice) {
  recipe::ModelConfig config = hybrid();
  config.auxiliary_loss = 0;
  config.router = {.jitter = 0.2, .choice = recipe::RouterChoice::kSinkhorn};
  expect_proved(config, {{.ranks = 2},
                         {.cp = 2},
                         {.pp = 2, .pipeline = {.schedule = recipe::PipelineSchedule::kDualPipe}},
                         {.tp = 2, .cp = 2, .ep = 4}});
  config.predict_ahead = 1;
  std::vector<ProofLayout> layouts;
  for (const ProofLayout& each : proof_layouts({})) {
    if (each.name == "dp4-zero3-elastic" || (each.name.starts_with("workers") && layouts.empty()))
      layouts.push_back(each);
  }
  ASSERT_EQ(layouts.size(), 2u);
  for (const Proof& proof : prove({.model = config, .layouts = layouts})) {
    EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst, proof.layout.ends_with("-elastic") ? 0 : kProofBound)
        << proof.layout << ": " << proof.tensor;
  }
}

// Thresholds that move with the tokens of whole sequences, whoever shares them; in an elastic run to the bit.
TEST(ProveExperts, RoutersThatChooseByThresholds) {
  recipe::ModelConfig config = hybrid();
  config.auxiliary_loss = 0;
  config.router = {.choice = recipe::RouterChoice::kQuantile, .quantile_memory = 0.5};
  std::vector<ProofLayout> layouts = proof_layouts({});
  std::erase_if(layouts, [](const ProofLayout& each) { return each.name != "dp4-zero3-elastic"; });
  layouts.push_back(proof_layout({.ranks = 4, .cp = 2, .ep = 2, .zero = 1}, true, recipe::Recompute::kFull));
  layouts.push_back(proof_layout({.pp = 2, .pipeline = {.schedule = recipe::PipelineSchedule::kDualPipe}}));
  ASSERT_EQ(layouts.size(), 3u);
  for (const Proof& proof : prove({.model = config, .layouts = layouts})) {
    EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst, proof.layout.ends_with("-elastic") ? 0 : kProofBound)
        << proof.layout << ": " << proof.tensor;
  }
}

// Value and gradient of the balance over all sequences of a step, all at once or as far as they have come:
// here that is the same.
TEST(ProveExperts, BalanceOfTheBatch) {
  recipe::ModelConfig config = hybrid();
  config.auxiliary_loss = 1;
  config.router = {.balance_of = recipe::BalanceOf::kBatch};
  expect_proved(config,
                {{.ranks = 4, .zero = 2}, {.ranks = 4, .pp = 2}, {.ranks = 8, .tp = 2, .cp = 2, .ep = 4}});
  config.router.balance_of = recipe::BalanceOf::kBatchSoFar;
  const std::vector<Proof> proofs = prove(
      {.model = config,
       .layouts = {proof_layout({.ranks = 2, .cp = 2}, true, recipe::Recompute::kFull),
                   proof_layout({.ranks = 4, .ep = 2, .etp = 2, .experts = kGathers}),
                   proof_layout({.pp = 2, .pipeline = {.schedule = recipe::PipelineSchedule::kDualPipe}})}});
  for (const Proof& proof : proofs) {
    EXPECT_LE(proof.worst, kProofBound) << proof.layout << ": " << proof.tensor;
    EXPECT_EQ(proof.status, &proof == &proofs.back() ? Proof::Status::kRefused : Proof::Status::kTried)
        << proof.layout << ": " << proof.reason;
  }
  EXPECT_THAT(proofs.back().reason, HasSubstr("two ranks have each layer"));
}

// All routers' balance joined into one loss, value and gradient: with recomputation, of sequences and of the
// batch. Stages would have to tell each other.
TEST(ProveExperts, BalanceOfAllRoutersTogether) {
  recipe::ModelConfig config = hybrid();
  config.auxiliary_loss = 1;
  config.router = {.balance_form = recipe::BalanceForm::kHuggingFace};
  for (const auto of : {recipe::BalanceOf::kSequence, recipe::BalanceOf::kBatch}) {
    config.router.balance_of = of;
    const std::vector<Proof> proofs =
        prove({.model = config,
               .layouts = {proof_layout({.ranks = 2, .zero = 2}, true, recipe::Recompute::kFull),
                           proof_layout({.tp = 2, .cp = 2, .ep = 4}),
                           proof_layout({.ranks = 4, .ep = 2, .etp = 2, .experts = kGathers}),
                           proof_layout({.pp = 2})}});
    for (const Proof& proof : proofs) {
      EXPECT_LE(proof.worst, kProofBound) << proof.layout << ": " << proof.tensor;
      EXPECT_EQ(proof.status, &proof == &proofs.back() ? Proof::Status::kRefused : Proof::Status::kTried)
          << proof.layout << ": " << proof.reason;
    }
    EXPECT_THAT(proofs.back().reason, HasSubstr("other stages have"));
  }
}

// Two balance losses at once, other scores, and choices that are forced whatever the scores.
TEST(ProveExperts, ForcedChoicesAndTwoLosses) {
  recipe::ModelConfig config = hybrid();
  config.auxiliary_loss = 1;
  config.router = {.score = recipe::RouterScore::kSqrtSoftplus,
                   .balance_of = recipe::BalanceOf::kBatch,
                   .sequence_loss = 2};
  expect_proved(config, {{.ranks = 4, .cp = 2}, {.ranks = 4, .tp = 2, .ep = 4}, {.ranks = 4, .pp = 2}});
  for (const auto choice :
       {recipe::RouterChoice::kRandom, recipe::RouterChoice::kRoundRobin, recipe::RouterChoice::kBiased}) {
    config.router = {.choice = choice};
    expect_proved(config, {{.ranks = 2}, {.tp = 2, .cp = 2, .ep = 4}, {.pp = 2}});
  }
}

TEST(ProveExperts, BalanceAsPrinted) {
  recipe::ModelConfig config = hybrid();
  config.auxiliary_loss = 10;
  config.router = {.balance_form = recipe::BalanceForm::kGshard};
  expect_proved(config, {{.tp = 2, .cp = 2, .ep = 4}, {.ranks = 4, .pp = 2}});
}

// The largest that folding is proved on.
TEST(ProveExperts, FoldedExpertsOnSixteenRanks) {
  expect_proved(hybrid(), {{.tp = 2, .cp = 2, .ep = 4, .etp = 4, .experts = kOverlaps}});
}

}  // namespace
}  // namespace longhaul::prove
