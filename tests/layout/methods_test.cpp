// The entries of parallel methods (layout/methods): rules beside what refuses the same numbers with a model
// in hand, bytes beside sums made by hand.
#include "layout/methods/methods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "layout/mesh.h"
#include "layout/parameters.h"
#include "layout/schedule/schedule.h"

namespace longhaul::layout {
namespace {

bool accepted(const auto& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return false;
  }
}

recipe::ModelConfig model_with(int64_t heads, int64_t key_heads, int64_t experts) {
  recipe::ModelConfig model;
  model.layers = 2, model.hidden = 48, model.heads = heads, model.softmax.kv_heads = key_heads,
  model.head_dim = 4;
  model.mixers = {recipe::Mixer::kSoftmax};
  model.experts = experts, model.experts_per_token = std::min<int64_t>(experts, 2);
  return model;
}

TEST(ParallelMethods, HeadsAreDealtOutWhereTensorsCanBeCut) {
  int refused = 0;
  for (const int64_t heads : {1, 2, 4, 6, 12}) {
    for (const int64_t key_heads : {1, 2, 3, 4, 6, 12}) {
      if (heads % key_heads != 0) continue;
      for (const int64_t tp : {1, 2, 3, 4, 6, 12}) {
        const recipe::ModelConfig model = model_with(heads, key_heads, 0);
        const bool cut = accepted([&] {
          const Mesh mesh(tp, {.tp = tp, .key_copies = key_copies(model, tp)});
          for (const ParameterSpec& spec : parameters(model)) placement_of(spec, mesh);
        });
        refused += cut ? 0 : 1;
        EXPECT_EQ(kHeadsOfTensorRanks.holds({.heads = heads, .key_heads = key_heads}, {.tp = tp}), cut)
            << heads << " heads, " << key_heads << " of keys, tp " << tp;
      }
    }
  }
  EXPECT_GT(refused, 10);
}

TEST(ParallelMethods, ExpertsAreDealtOutWhereTensorsAndRanksAllowIt) {
  int refused = 0;
  for (const int64_t experts : {2, 3, 4, 6}) {
    for (const int64_t ep : {1, 2, 3, 4}) {
      for (const int64_t etp : {1, 2}) {
        for (const int64_t world : {2, 4, 6, 12}) {
          const bool cut = accepted([&] {
            const Mesh mesh(world, {.ep = ep, .etp = etp});
            for (const ParameterSpec& spec : parameters(model_with(4, 4, experts))) placement_of(spec, mesh);
          });
          refused += cut ? 0 : 1;
          EXPECT_EQ(kExpertsOfRanks.holds({.experts = experts}, {.dp = world, .ep = ep, .etp = etp}), cut)
              << experts << " experts, ep " << ep << ", etp " << etp << " of " << world;
        }
      }
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_FALSE(kModelOfExperts.holds({}, {.ep = 2}));
  EXPECT_FALSE(kModelOfExperts.holds({}, {.etp = 2}));
  EXPECT_TRUE(kModelOfExperts.holds({}, {}));
}

TEST(ParallelMethods, RanksAreDealtOutWhereAMeshIs) {
  for (int64_t world = 1; world <= 24; ++world) {
    for (const auto& [tp, pp, cp] : {std::tuple(1, 1, 1), {2, 1, 1}, {2, 3, 1}, {2, 2, 2}, {1, 5, 1}}) {
      const bool possible = accepted([&] { Mesh(world, {.pp = pp, .cp = cp, .tp = tp}); });
      EXPECT_EQ(kRanksOfReplicas.holds({}, {.world = world, .tp = tp, .pp = pp, .cp = cp}), possible)
          << world << " ranks, tp " << tp << ", pp " << pp << ", cp " << cp;
    }
  }
}

TEST(ParallelMethods, SequencesStagesAndRounds) {
  EXPECT_TRUE(kSequencesOfReplicas.holds({.batch = 24}, {.dp = 4, .micro_batch = 3}));
  EXPECT_FALSE(kSequencesOfReplicas.holds({.batch = 24}, {.dp = 4, .micro_batch = 4}));
  EXPECT_TRUE(kStagesOfLayers.holds({.layers = 8}, {.pp = 4, .chunks = 2}));
  EXPECT_FALSE(kStagesOfLayers.holds({.layers = 8}, {.pp = 3, .chunks = 3}));
  const RankSizes interleaved = {.pp = 4, .schedule = recipe::PipelineSchedule::kInterleaved};
  EXPECT_TRUE(kRoundsOfStages.holds({.batch = 8}, interleaved));
  EXPECT_FALSE(kRoundsOfStages.holds({.batch = 6}, interleaved));
  EXPECT_TRUE(kRoundsOfStages.holds({.batch = 6}, {.pp = 4}));
  EXPECT_EQ(kSequencesOfReplicas.numbers({.batch = 24}, {.dp = 4, .micro_batch = 4}),
            "24 sequences over dp 4 · micro-batch 4");
}

TEST(ParallelMethods, HeadsOfContextRanks) {
  using enum recipe::ContextMethod;
  EXPECT_EQ(ranks_of_heads(kRing, 4, 3), 1);
  EXPECT_EQ(ranks_of_heads(kUlysses, 4, 8), 4);
  EXPECT_EQ(ranks_of_heads(kUlysses, 4, 6), 0);
  EXPECT_EQ(ranks_of_heads(kTwoLevel, 4, 6), 2);
  EXPECT_TRUE(
      kHeadsOfContextRanks.holds({.key_heads = 8}, {.tp = 2, .cp = 4, .context = {.softmax = kUlysses}}));
  EXPECT_FALSE(
      kHeadsOfContextRanks.holds({.key_heads = 8}, {.tp = 4, .cp = 4, .context = {.softmax = kUlysses}}));
}

TEST(ParallelMethods, HeadsOfLinearContext) {
  constexpr auto kUlysses = recipe::LinearContextMethod::kUlysses;
  const auto holds = [](int64_t heads, const RankSizes& ranks) {
    return kHeadsOfLinearContext.holds({.linear_heads = heads}, ranks);
  };
  EXPECT_TRUE(holds(8, {.tp = 2, .cp = 4, .context = {.linear = kUlysses}}));
  EXPECT_FALSE(holds(8, {.tp = 4, .cp = 4, .context = {.linear = kUlysses}}));
  EXPECT_FALSE(holds(2, {.tp = 4, .cp = 2, .context = {.linear = kUlysses}})) << "a copy of one";
  EXPECT_TRUE(holds(0, {.tp = 1, .cp = 3, .context = {.linear = kUlysses}})) << "no state passes on";
  EXPECT_TRUE(holds(8, {.tp = 1, .cp = 3}));
  EXPECT_EQ(kHeadsOfLinearContext.numbers({.linear_heads = 8}, {.tp = 4, .cp = 4}),
            "2 heads on each of 4 tensor ranks, over cp 4");
}

TEST(ParallelMethods, WhateverOneRuleForbidsDoesNotComeOutEven) {
  const SharedWork work = {.layers = 8, .heads = 8, .key_heads = 4, .experts = 4, .batch = 16};
  const RankSizes good = {.world = 16, .dp = 2, .tp = 2, .pp = 2, .cp = 2, .ep = 4};
  EXPECT_TRUE(comes_out_even(work, good));
  const auto spoilt = [&](const auto& spoil) {
    SharedWork other = work;
    RankSizes ranks = good;
    spoil(other, ranks);
    return !comes_out_even(other, ranks);
  };
  EXPECT_TRUE(spoilt([](SharedWork&, RankSizes& ranks) { ranks.world = 12; }));
  EXPECT_TRUE(spoilt([](SharedWork& one, RankSizes&) { one.batch = 15; }));
  EXPECT_TRUE(spoilt([](SharedWork& one, RankSizes&) { one.heads = 7; }));
  EXPECT_TRUE(spoilt([](SharedWork& one, RankSizes&) { one.layers = 1; }));
  EXPECT_TRUE(spoilt([](SharedWork& one, RankSizes&) { one.experts = 6; }));
  EXPECT_TRUE(spoilt([](SharedWork& one, RankSizes&) { one.experts = 0; }));
  EXPECT_TRUE(spoilt([](SharedWork& one, RankSizes& ranks) {
    one.key_heads = 3, ranks.tp = 1, ranks.context.softmax = recipe::ContextMethod::kUlysses;
  }));
  EXPECT_TRUE(spoilt([](SharedWork& one, RankSizes& ranks) {
    one.linear_heads = 6, ranks.context.linear = recipe::LinearContextMethod::kUlysses;
  }));
  EXPECT_TRUE(spoilt([](SharedWork& one, RankSizes& ranks) {
    one.batch = 6, ranks.schedule = recipe::PipelineSchedule::kDualPipe;
  })) << "three micro-batches of each replica";
}

// Where a pipeline's own lists can be made.
TEST(ParallelMethods, PairsOfStages) {
  int refused = 0;
  for (int64_t pp = 1; pp <= 6; ++pp) {
    for (int64_t micro_batches = 1; micro_batches <= 14; ++micro_batches) {
      const bool made =
          pp == 1 || accepted([&] {
            passes_of(Pipeline(pp, {.schedule = recipe::PipelineSchedule::kDualPipe}), micro_batches);
          });
      refused += made ? 0 : 1;
      const RankSizes ranks = {.pp = pp, .chunks = 2, .schedule = recipe::PipelineSchedule::kDualPipe};
      EXPECT_EQ(kPairsOfStages.holds({.batch = micro_batches}, ranks), made)
          << pp << " ranks, " << micro_batches << " micro-batches";
      EXPECT_EQ(kStagesOfLayers.holds({.layers = pp}, ranks), true) << "two of the stages, not twice as many";
      EXPECT_EQ(kStagesOfLayers.holds({.layers = pp - 1}, ranks), false);
    }
  }
  EXPECT_GT(refused, 30);
  EXPECT_FALSE(kPairsOfStages.holds({.batch = 8, .judges_batch = true},
                                    {.pp = 2, .schedule = recipe::PipelineSchedule::kDualPipe}));
}

// Of four context ranks in the order of the row: of a chain over 0 1 2 3 each but the last sends one state;
// over 0 1 2 3 3 2 1 0 the middle ones send two, and six messages follow one another.
TEST(ParallelMethods, StatesByHand) {
  using enum recipe::LinearContextMethod;
  using enum recipe::ContextSplit;
  const auto states = [](recipe::LinearContextMethod method, recipe::ContextSplit split, int64_t ranks) {
    const RankSizes sizes = {.cp = ranks, .context = {.linear = method, .split = split}};
    return kContextParallelism.sent({.states = 16}, sizes).sent / 16;
  };
  EXPECT_EQ(states(kRing, kContiguous, 4), 1);
  EXPECT_EQ(states(kAllScan, kContiguous, 4), 1);
  EXPECT_EQ(states(kRing, kZigzag, 4), 2);
  EXPECT_EQ(states(kAllScan, kZigzag, 2), 1);
  EXPECT_EQ(states(kAllGather, kContiguous, 4), 3);
  EXPECT_EQ(states(kAllGather, kZigzag, 4), 6);
  EXPECT_EQ(states(kAllGather, kZigzag, 1), 0);
  const auto in_turn = [](recipe::LinearContextMethod method, recipe::ContextSplit split, int64_t ranks) {
    return states_in_turn({.linear = method, .split = split}, ranks);
  };
  EXPECT_EQ(in_turn(kRing, kContiguous, 4), 3);
  EXPECT_EQ(in_turn(kRing, kZigzag, 4), 6);
  EXPECT_EQ(in_turn(kAllScan, kContiguous, 4), 1 + 2.0 / 4) << "four slices";
  EXPECT_EQ(in_turn(kAllGather, kZigzag, 4), 6);
  EXPECT_EQ(in_turn(kAllScan, kZigzag, 1), 0);
  // Delta rules gather whatever the method is.
  EXPECT_EQ(kContextParallelism
                .sent({.delta_states = 16}, {.cp = 4, .context = {.linear = kRing, .split = kContiguous}})
                .sent,
            3 * 16);
}

// Of 3 channels in 2 bytes and 8 tokens a context rank has 48 bytes.
TEST(ParallelMethods, BytesByHand) {
  EXPECT_EQ(kTensorParallelism.sent({.hidden = 48}, {.tp = 4}).sent, 48 * 2 * 3 / 4);
  using enum recipe::ContextMethod;
  const auto context = [](LayerBytes layer, recipe::ContextMethod method) {
    return kContextParallelism.sent(layer, {.cp = 4, .context = {.softmax = method}}).sent;
  };
  EXPECT_EQ(context({.keys = 160}, kAllGather), 120);  // three of four parts come
  EXPECT_EQ(context({.keys = 160}, kRing), 120);
  // A rank has a quarter of queries, results, keys and values, and gives three quarters of that away.
  EXPECT_EQ(context({.keys = 160, .queries = 320}, kUlysses), (2 * 320 + 160) / 4 * 3 / 4);
  // Sums go out and come back: twice three quarters of them.
  EXPECT_EQ(context({.summed_states = 16}, kAllGather), 2 * 12);
  // Likewise of what recurrences read and give; their states stay.
  EXPECT_EQ(kContextParallelism
                .sent({.linear_rows = 640, .states = 16, .delta_states = 16},
                      {.cp = 4, .context = {.linear = recipe::LinearContextMethod::kUlysses}})
                .sent,
            640 / 4 * 3 / 4);
  const auto experts = [](recipe::Dispatcher dispatcher) {
    const SentBytes sent =
        kExpertParallelism.sent({.hidden = 96, .rows_per_token = 3, .imbalance = 1.25, .chance = 0.5},
                                {.tp = 2, .ep = 4, .etp = 2, .dispatcher = dispatcher});
    return std::pair(sent.sent, sent.within_expert);
  };
  EXPECT_EQ(experts(recipe::Dispatcher::kAllToAll), std::pair(48 * 3 * 1.25 * 3 / 4, 48 * 3 * 1.25));
  EXPECT_EQ(experts(recipe::Dispatcher::kAllGather), std::pair(48.0 * 7, 0.0));
  EXPECT_EQ(experts(recipe::Dispatcher::kFlex), std::pair(48 * 7 * 1.25 * 0.5, 0.0));
}

TEST(ParallelMethods, IslandsAreAsSmallAsAReplica) {
  EXPECT_EQ(smallest_islands({.tp = 2, .pp = 2}, 12), 3);
  EXPECT_EQ(smallest_islands({.tp = 2, .pp = 2}, 14), 3);
  EXPECT_EQ(smallest_islands({.tp = 8}, 4), 0);
}

// Each method has layouts that prove tries, and in each of them the method is used.
TEST(ParallelMethods, EachIsProved) {
  std::vector<std::string_view> names;
  for (const ParallelMethod* method : parallel_methods()) {
    names.push_back(method->name);
    EXPECT_FALSE(method->proved().empty()) << method->name;
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("data parallelism", "tensor parallelism", "context parallelism",
                                     "pipeline parallelism", "expert parallelism", "ZeRO", "outer loops"));
}

}  // namespace
}  // namespace longhaul::layout
