// Several ranks give what one process gives: every layout (prove_models_test.cpp: models of every kind). What
// it takes for granted (that a difference is seen) is shown by scripts/mutations/parallel.
#include "prove/prove.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "prove/prove_covering.h"
#include "proved_models.h"
#include "recipe/optimizers/optimizers.h"
#include "support/models.h"
#include "support/nightly.h"

// ctest: label=full timeout=600

namespace longhaul::prove {
namespace {

using recipe::Mixer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// More ranks than two, stages of uneven size or without a layer, a tied embedding whose ends lie on any
// ranks, bounds that some stages use.
TEST(Prove, PipelinesOfEveryKind) {
  using enum recipe::PipelineSchedule;
  std::vector<ProofLayout> layouts;
  for (const recipe::ParallelOptions& each : std::vector<recipe::ParallelOptions>{
           {.pp = 3},
           {.pp = 2, .pipeline = {.stage_layers = {6, 2}}},
           {.pp = 3, .pipeline = {.schedule = kInterleaved, .chunks = 2}},
           {.pp = 2, .pipeline = {.schedule = kInterleaved}},
           {.pp = 2, .cp = 2, .zero = 3, .pipeline = {.schedule = kInterleaved}},
           {.pp = 3, .pipeline = {.schedule = kZbH1}},
           {.pp = 3, .pipeline = {.schedule = kZbV}},
           {.pp = 3, .cp = 2, .zero = 2, .pipeline = {.schedule = kInterleaved, .chunks = 2}},
           {.pp = 3, .cp = 2, .zero = 3, .pipeline = {.schedule = kZbV}},
           {.pp = 2, .cp = 2, .zero = 3, .pipeline = {.schedule = kDualPipe}},
           {.ranks = 16, .pp = 2, .pipeline = {.schedule = kDualPipe}}}) {
    layouts.push_back(proof_layout(each));
  }
  std::vector<std::string> refused;
  for (const Proof& proof : prove({.model = hybrid(), .layouts = layouts})) {
    EXPECT_TRUE(proof.holds) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst, kProofBound) << proof.layout << ": " << proof.tensor;
    if (proof.status != Proof::Status::kTried) refused.push_back(proof.layout + ": " + proof.reason);
  }
  EXPECT_THAT(refused, ElementsAre(StartsWith("dp8-pp2-dualpipe"))) << "one micro-batch";
}

TEST(Prove, AHybridWithExpertsAndSharedBounds) { expect_equal(hybrid(), true, "adamw", 6); }
TEST(Prove, AnOptimizerOfWholeMatrices) { expect_equal(hybrid(), true, "came", 11); }

// Sums, largest numbers and whole matrices over tensor, expert and data ranks, and what two optimizers reduce
// together; by day one layout each, in turns.
TEST(Prove, EveryOptimizer) {
  std::vector<ProofLayout> layouts;
  for (const recipe::ParallelOptions& each :
       std::vector<recipe::ParallelOptions>{{.ranks = 4, .tp = 2, .ep = 2, .zero = 1},
                                            {.ranks = 4, .zero = 2},
                                            {.ranks = 4, .pp = 2, .zero = 1}}) {
    layouts.push_back(proof_layout(each));
  }
  size_t turn = 0;
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    std::vector<ProofLayout> today = layouts;
    if (!longhaul::testing::takes_all()) today = {layouts[turn++ % layouts.size()]};
    recipe::OptimOptions options{.name = std::string(entry->name)};
    if (entry->name == "came")
      options.groups = {
          {.tensors = {recipe::Role::kEmbedding, recipe::Role::kHead}, .name = "muon", .lr_factor = 0.5}};
    for (const Proof& proof : prove({.model = hybrid(), .optim = options, .layouts = today})) {
      EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
      EXPECT_LE(proof.worst, kProofBound) << entry->name << ", " << proof.layout << ": " << proof.tensor;
    }
  }
}

// One norm, one gathering and one sum for both mixers of a layer, biases added once; experts beside a mixer
// whose products are summed.
TEST(Prove, ParallelBlocksInParts) {
  for (const int64_t experts : {0, 4}) {
    recipe::ModelConfig config = hybrid();
    config.wiring = recipe::Wiring::kParallel;
    config.experts = experts;
    config.bias = true;
    config.tie_embeddings = false;
    expect_proved(config, {{.ranks = 2},
                           {.tp = 2},
                           {.tp = 2, .tp_chunks = 3},
                           {.ranks = 4, .tp = 2, .tp_chunks = 2, .cp = 2, .zero = 2}});
  }
}

// The order counts: a layout goes on from the checkpoint of the one before it.
TEST(Prove, TheUsualLayoutsInTheirOrder) {
  std::vector<std::string> names;
  for (const ProofLayout& layout : proof_layouts({})) names.push_back(layout.name);
  std::vector<std::string> expected = {"dp2",
                                       "tp2",
                                       "tp2-parts3",
                                       "cp2-contiguous",
                                       "cp2",
                                       "cp2-ulysses-linear-all-scan",
                                       "cp2-ulysses-linear-ulysses",
                                       "cp4-ring-linear-ring-contiguous",
                                       "cp4-ring-linear-ring",
                                       "cp2-ring-striped",
                                       "cp4-two-level-linear-all-scan-contiguous",
                                       "pp2-1f1b",
                                       "pp2-gpipe",
                                       "pp2-interleaved",
                                       "pp2-zb-h1",
                                       "pp2-zbv",
                                       "pp2-dualpipe",
                                       "dp2-ep2",
                                       "dp2-etp2",
                                       "dp2-ep2-all-gather",
                                       "dp4-ep4-flex",
                                       "dp4-ep2-etp2-groups2-delayed",
                                       "pp2-dualpipe-cp2-ep2",
                                       "dp2-tp2"};
  for (const char* zero : {"zero1", "zero2", "zero3"}) {
    for (const char* layout :
         {"dp2-{}", "dp4-{}", "dp4-{}-copies2", "cp2-{}", "dp2-tp2-{}", "dp4-ep2-{}", "dp2-pp2-zb-h1-{}"})
      expected.push_back(fmt::format(fmt::runtime(layout), zero));
  }
  for (const char* layout : {"workers2-tp2", "workers2-dp2-zero3", "workers2-pp2-1f1b-zero1",
                             "dp2-cp2-zero3-copies2", "dp8-ep2-zero2-copies2"})
    expected.emplace_back(layout);
  ASSERT_EQ(names.size(), 69u) << "the last two have rows from outside";
  names.resize(expected.size());
  EXPECT_EQ(names, expected);
}

TEST(Prove, TheLayoutOfTheRecipe) {
  const std::vector<ProofLayout> layouts = proof_layouts(proof_layout({.tp = 2, .pp = 2, .cp = 2, .ep = 2}));
  ASSERT_EQ(layouts.size(), proof_layouts({}).size() + 1);
  EXPECT_EQ(layouts.back().name, "tp2-pp2-1f1b-cp2-ep2");
  const Proof proof = prove({.model = hybrid(), .layouts = {layouts.back()}})[0];
  EXPECT_TRUE(proof.holds) << proof.reason;
  EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.reason;
  EXPECT_EQ(proof_layouts(proof_layout({.tp = 2})).size(), proof_layouts({}).size())
      << "one of the usual ones";
  // Four layers on three stages: the first two have the layers that share bounds.
  recipe::ModelConfig shared = dense_linear();
  shared.mixers = {Mixer::kHgrn2, Mixer::kSoftmax};
  const Proof some = prove({.model = shared, .layouts = {proof_layout({.pp = 3})}})[0];
  EXPECT_EQ(some.status, Proof::Status::kTried) << some.reason;
  EXPECT_TRUE(some.holds) << some.reason;
}

TEST(Prove, AModelThatTheRanksCannotShareIsRefused) {
  recipe::ModelConfig config = hybrid();
  config.experts = 3;
  const Proof refused = prove({.model = config, .layouts = {proof_layout({.ep = 2})}})[0];
  EXPECT_EQ(refused.status, Proof::Status::kRefused);
  EXPECT_THAT(refused.reason, HasSubstr("3 experts"));
}

TEST(Prove, KeyHeadsThatContextRanksCannotShareAreRefused) {
  recipe::ModelConfig config = dense_linear();
  config.mixers = {Mixer::kSoftmax};
  config.softmax.kv_heads = 1;
  config.heads = 4;
  const Proof refused = prove(
      {.model = config,
       .layouts = {proof_layout({.cp = 3, .context = {.softmax = recipe::ContextMethod::kUlysses}})}})[0];
  EXPECT_EQ(refused.layout, "cp3-ulysses");
  EXPECT_EQ(refused.status, Proof::Status::kRefused);
  EXPECT_THAT(refused.reason, HasSubstr("3 context ranks divide expected, 1 found"));
}

// Heads of recurrences, and key heads of delta rules; a memory of one head refuses as well. A mixer without
// heads whose states pass on is not asked.
TEST(Prove, HeadsOfLinearLayersThatContextRanksCannotShareAreRefused) {
  const auto proof_of = [](Mixer mixer, int64_t heads, int64_t cp) {
    recipe::ModelConfig config = dense_linear();
    config.mixers = {mixer};
    config.heads = heads;
    config.softmax.kv_heads = heads;
    return prove({.model = config,
                  .layouts = {proof_layout(
                      {.cp = cp, .context = {.linear = recipe::LinearContextMethod::kUlysses}})}})[0];
  };
  const Proof refused = proof_of(Mixer::kLightning, 4, 3);
  EXPECT_EQ(refused.layout, "cp3-linear-ulysses");
  EXPECT_EQ(refused.status, Proof::Status::kRefused);
  EXPECT_THAT(refused.reason, HasSubstr("3 context ranks divide expected, 4 in layer 0, lightning found"));
  EXPECT_THAT(proof_of(Mixer::kLcsm, 4, 2).reason, HasSubstr("1 in layer 0, lcsm found"));
  EXPECT_EQ(proof_of(Mixer::kSoftmax, 4, 3).status, Proof::Status::kTried);
}

// A striped row is for layers of softmax attention in a ring; everything else says what it needs.
TEST(Prove, StripedRowsOfSoftmaxLayers) {
  const recipe::ContextOptions stripes{.softmax = recipe::ContextMethod::kRing,
                                       .split = recipe::ContextSplit::kStriped};
  recipe::ModelConfig config = hybrid();
  config.mixers = {Mixer::kSoftmax};
  expect_proved(config, {{.cp = 2, .context = stripes},
                         {.cp = 3, .context = stripes},
                         {.cp = 4, .context = stripes},
                         {.tp = 2, .cp = 2, .zero = 2, .context = stripes},
                         {.pp = 2, .cp = 2, .ep = 2, .context = stripes}});
  const auto reason = [](const recipe::ModelConfig& model, recipe::ContextOptions context) {
    const Proof refused =
        prove({.model = model, .layouts = {proof_layout({.cp = 2, .context = context})}})[0];
    EXPECT_EQ(refused.status, Proof::Status::kRefused) << refused.layout;
    return refused.reason;
  };
  recipe::ContextOptions gathered = stripes;
  gathered.softmax = recipe::ContextMethod::kAllGather;
  EXPECT_THAT(reason(config, gathered), HasSubstr("parallel.context = ring expected, all-gather found"));
  config.mixers = {Mixer::kSoftmax, Mixer::kLightning};
  EXPECT_THAT(reason(config, stripes), HasSubstr("layer 1, lightning found"));
}

// ring = all-gather = all-scan = ulysses = one process, for decays of heads and decays from the data, a delta
// rule, and what no method changes.
TEST(Prove, EveryContextMethodOfLinearLayers) {
  using enum recipe::LinearContextMethod;
  recipe::ModelConfig config = dense_linear();
  config.heads = 4;
  config.softmax.kv_heads = 4;
  std::vector<recipe::ParallelOptions> layouts;
  for (const auto method : {kRing, kAllGather, kAllScan, kUlysses}) {
    layouts.push_back({.cp = 4, .context = {.linear = method}});
    layouts.push_back(
        {.tp = 2, .cp = 2, .context = {.linear = method, .split = recipe::ContextSplit::kContiguous}});
  }
  for (const std::vector<Mixer>& mixers : std::vector<std::vector<Mixer>>{
           {Mixer::kLightning, Mixer::kMamba2}, {Mixer::kGatedDeltaNet, Mixer::kHgrn2}, {Mixer::kHgrn}}) {
    config.mixers = mixers;
    expect_proved(config, layouts);
  }
}

// What the ranks share is asked of the recipe's own layers and experts, of which the small model has others.
TEST(Prove, WhatTrainRefusesIsRefused) {
  recipe::ModelConfig config = hybrid();
  config.layers = 2;
  config.experts = 6;
  const std::vector<Proof> proofs =
      prove({.model = config,
             .layouts = {proof_layout({.pp = 4}), proof_layout({.ep = 4}),
                         proof_layout({.pp = 2, .pipeline = {.stage_layers = {3, 1}}})},
             .dtype = recipe::Dtype::kFp64});
  for (const Proof& proof : proofs) EXPECT_EQ(proof.status, Proof::Status::kRefused) << proof.layout;
  EXPECT_THAT(proofs[0].reason,
              HasSubstr("more pipeline stages than layers: parallel.pp of at most 2 expected, 4 found"));
  EXPECT_THAT(proofs[1].reason, HasSubstr("6 experts"));
  EXPECT_THAT(proofs[2].reason, HasSubstr("2 together expected, 4 found"));
}

// Numbers that the small model is made for: nine experts on three ranks, six heads on three, replicas that do
// not divide eight rows, and stages of a model of many layers.
TEST(Prove, WhatTrainTakesIsTried) {
  recipe::ModelConfig config = hybrid();
  config.layers = 12;
  config.experts = 9;
  config.heads = config.softmax.kv_heads = 6;
  expect_proved(config, {{.ep = 3},
                         {.ranks = 3},
                         {.ranks = 6, .zero = 1},
                         {.tp = 3},
                         {.pp = 2, .pipeline = {.stage_layers = {7, 5}}}});
  EXPECT_EQ(proof_rows(8), 8);
  EXPECT_EQ(proof_rows(3), 12);
  EXPECT_EQ(proof_rows(16), 32);
}

TEST(Prove, TheRecipesOwnLayoutHasWhatItTrainsWith) {
  recipe::Recipe recipe;
  recipe.parallel = {.ranks = 4, .zero = 1};
  EXPECT_EQ(own_layout(recipe).name, "dp4-zero1");
  recipe.train.recompute = recipe::Recompute::kFull;
  recipe.train.elastic = true;
  const ProofLayout own = own_layout(recipe);
  EXPECT_EQ(own.name, "dp4-zero1-full-again-elastic");
  EXPECT_TRUE(own.elastic);
  EXPECT_EQ(own.recompute, recipe::Recompute::kFull);
  EXPECT_EQ(proof_layouts(own).back().name, own.name);
}

// The small model has heads for as many ranks as are asked for; whether the recipe's own can be dealt out is
// what counts.
TEST(Prove, HeadsThatTheRecipesRanksCannotShareAreRefused) {
  recipe::ModelConfig config = dense_linear();
  config.mixers = {Mixer::kSoftmax, Mixer::kLightning};
  config.heads = 4;
  config.softmax.kv_heads = 2;
  const std::vector<Proof> proofs =
      prove({.model = config,
             .layouts = {proof_layout({.tp = 2}), proof_layout({.tp = 4}), proof_layout({.tp = 8})},
             .dtype = recipe::Dtype::kFp64});
  for (const size_t tried : {size_t{0}, size_t{1}})
    EXPECT_EQ(proofs[tried].status, Proof::Status::kTried) << proofs[tried].reason;
  EXPECT_EQ(proofs[2].status, Proof::Status::kRefused);
  EXPECT_THAT(proofs[2].reason, HasSubstr("4 heads cannot be dealt out to 8"));
}

// Four tensor ranks, two of which have the same key head each, in every mixer that has key heads of its own;
// and one for all. The ranks' own sums of its gradient, counted once in the norm, shared by ZeRO, under
// clipping; saved by such ranks and loaded by others.
TEST(Prove, TensorRanksThatOutnumberKeyHeads) {
  recipe::ModelConfig config;
  config.mixers = {Mixer::kSoftmax, Mixer::kGla, Mixer::kGatedDeltaNet, Mixer::kMixture};
  config.softmax.kv_heads = config.gla.key_heads = config.gated_deltanet.key_heads = 2;
  config.softmax.qk_norm = config.softmax.output_gate = true;
  config.softmax.bias = recipe::AttentionBias::kQkv;
  expect_proved(config, {{.tp = 4}, {.ranks = 4, .tp = 2, .zero = 1}, {.tp = 4, .tp_chunks = 3, .zero = 3}});
  if (longhaul::testing::takes_all()) {
    expect_proved(config,
                  {{.ranks = 8, .tp = 4, .zero = 2},
                   {.tp = 8},
                   {.ranks = 8, .tp = 4, .zero = 3, .zero_copies = 2},
                   {.tp = 4, .pp = 2, .pipeline = {.schedule = recipe::PipelineSchedule::kDualPipe}},
                   {.tp = 4, .cp = 2, .zero = 1, .context = {.softmax = recipe::ContextMethod::kTwoLevel}}});
  }
  config.softmax.kv_heads = 1;
  expect_proved(config, {{.tp = 2}, {.ranks = 4, .tp = 2, .zero = 2}});
}

// From the exact numbers ranks are no further than twice as far as one process, which is some units of 2^-24
// away; it has been run in fp32, and fp64 says nothing of it.
TEST(Prove, InFp32) {
  std::vector<ProofLayout> layouts;
  for (const recipe::ParallelOptions& each :
       std::vector<recipe::ParallelOptions>{{.ranks = 2},
                                            {.tp = 2},
                                            {.cp = 2},
                                            {.pp = 2},
                                            {.ranks = 4, .ep = 2, .etp = 2, .zero = 1},
                                            {.ranks = 4, .tp = 2, .zero = 3}}) {
    layouts.push_back(proof_layout(each));
  }
  for (const Proof& proof : prove({.model = hybrid(), .layouts = layouts, .dtype = recipe::Dtype::kFp32})) {
    EXPECT_TRUE(proof.holds) << proof.layout << ": " << proof.reason;
    EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst_working, std::max(kProofBoundFp32, 2 * proof.of_one_process)) << proof.layout;
    EXPECT_GT(proof.of_one_process, 0x1p-24) << proof.layout;
    EXPECT_LT(proof.of_one_process, kProofLimitFp32 / 2) << proof.layout;
    EXPECT_GT(proof.worst_working, 1e-9) << proof.layout << ": that is fp64";
  }
  const Proof fp64 = prove({.model = hybrid(), .layouts = {layouts[0]}, .dtype = recipe::Dtype::kFp64})[0];
  EXPECT_TRUE(fp64.holds) << fp64.reason;
  EXPECT_EQ(fp64.worst_working, 0) << "nothing but fp64 was asked for";
}

// A replica that goes its own way by less than what the order of sums changes: only its bits say so.
TEST(Prove, ReplicasThatDriftAreFoundByTheirBits) {
  const ProofRequest request{.model = hybrid(), .layouts = {planted(proof_mistake("replica-drifts"))}};
  const Proof found = prove(request)[0];
  EXPECT_FALSE(found.holds);
  EXPECT_LE(found.worst, kProofBound) << "no other comparison would have seen it";
  EXPECT_THAT(found.reason, StartsWith("value after the last step of "));
  EXPECT_THAT(found.reason, HasSubstr("other bits on rank 1 than on rank 0"));
}

// Every mistake is found where it shows; nothing is found on these layouts without one.
TEST(Prove, FindsEveryMistake) {
  ProofRequest request{.model = hybrid()};
  request.model.bias = true;
  request.model.softmax.kv_heads = 2;
  std::map<std::string, ProofLayout> sound;
  for (const ProofMistake& mistake : proof_mistakes()) {
    const std::string missing = mistake.missing ? mistake.missing(request.model) : "";
    if (missing == "model.causal = false") continue;  // the next test
    EXPECT_EQ(missing, "") << mistake.name;
    request.layouts.push_back(planted(mistake));
    sound.emplace(request.layouts.back().name, proof_layout(mistake.layout));
  }
  ASSERT_GE(request.layouts.size(), 12U);
  for (const auto& [name, layout] : sound) request.layouts.push_back(layout);
  const std::vector<Proof> proofs = prove(request);
  for (size_t i = 0; i < proofs.size(); ++i) {
    const ProofMistake* const mistake = request.layouts[i].mistake;
    EXPECT_EQ(proofs[i].status, Proof::Status::kTried) << proofs[i].layout << ": " << proofs[i].reason;
    EXPECT_EQ(proofs[i].holds, mistake == nullptr)
        << (mistake ? mistake->name : proofs[i].layout) << ": " << proofs[i].reason;
  }
}

// Values that all ranks alike forget to write again behind the update, where all else is right: the loss of
// the second step says so, or the masters.
TEST(Prove, StaleValuesAreFoundInBf16) {
  const Proof found =
      prove({.model = hybrid(), .layouts = {planted(proof_mistake("stale-values-in-bf16"))}})[0];
  EXPECT_FALSE(found.holds);
  EXPECT_THAT(found.reason, ::testing::AnyOf(HasSubstr("are not the rounding of their masters"),
                                             StartsWith("bf16 loss of step 2")));
}

// A rank whose model has other sizes than the others' ends in an error of communication. That finds nothing:
// it is no comparison of numbers.
TEST(Prove, AnErrorOfCommunicationIsNoMistakeFound) {
  const ProofMistake sizes{.name = "other-sizes",
                           .what = "One replica has other sizes.",
                           .layout = {.ranks = 2},
                           .model = [](const layout::MeshRank& place, recipe::ModelConfig& model) {
                             if (place.coordinate(layout::Axis::kDp) == 1) model.intermediate = 28;
                           }};
  try {
    const Proof proof = prove({.model = dense_linear(), .layouts = {planted(sizes)}})[0];
    ADD_FAILURE() << "it ended well, and " << (proof.holds ? "holds" : "was found: " + proof.reason);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCommunication) << error.what();
  }
}

TEST(Prove, FindsAnOrderWhereThereShouldBeNone) {
  for (const Mixer mixer : {Mixer::kLightnet, Mixer::kSoftmax}) {
    ProofRequest request{.model = without_order()};
    request.model.mixers = {mixer};
    for (const char* name : {"order-left-in", "document-reset-lost", "sums-of-own-tokens"}) {
      const ProofMistake& mistake = proof_mistake(name);
      if (mixer == Mixer::kSoftmax && name == std::string("sums-of-own-tokens")) {
        EXPECT_EQ(mistake.missing(request.model), "a linear mixer in model.mixers");
        continue;
      }
      EXPECT_EQ(mistake.missing ? mistake.missing(request.model) : "", "") << name;
      request.layouts.push_back(planted(mistake));
    }
    for (const Proof& proof : prove(request)) {
      EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
      EXPECT_FALSE(proof.holds) << proof.layout;
    }
  }
}

TEST(ProofLayouts, EveryMeshAndEveryPairThatCanBe) {
  const std::vector<ProofLayout> layouts = all_layouts(hybrid(), 4);
  std::set<std::string> names;
  std::map<int64_t, std::set<std::string>> meshes;
  for (const ProofLayout& layout : layouts) {
    EXPECT_TRUE(names.insert(layout.name).second) << layout.name << " twice";
    const recipe::ParallelOptions& of = layout.parallel;
    meshes[of.world()].insert(fmt::format("{} {} {} {} {}", of.pp, of.cp, of.tp, of.ep, of.etp));
  }
  // Powers of two that divide the world: of pp stages, cp·tp and ep·etp each divide world / pp. With n =
  // log2(world / pp) there are (n+1)(n+2)/2 pairs of either, so 1; 9 + 1; 36 + 9 + 1.
  EXPECT_EQ(meshes[1].size(), 1U);
  EXPECT_EQ(meshes[2].size(), 10U);
  EXPECT_EQ(meshes[4].size(), 46U);
  EXPECT_THAT(pairs_left_out(layouts), IsEmpty());
}

}  // namespace
}  // namespace longhaul::prove
