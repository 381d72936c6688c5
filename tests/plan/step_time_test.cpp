// What a step takes, part by part, against sums by hand.
#include <gtest/gtest.h>

#include "plan/link_rates.h"
#include "plan/step_time.h"
#include "recipe/architecture/presets.h"

namespace longhaul::plan {
namespace {

using recipe::PipelineSchedule;

Cluster some_a100s(int64_t gpus) { return load_cluster("a100", gpus); }
Work large_gpt() { return work_of(recipe::preset_model("megascale-175b"), 2048); }

// Parts of a layer by hand, as the reference model of specs docs/sources/planner.md §8 has them.
TEST(StepTime, OfOneLayerByHand) {
  const Work work = large_gpt();
  Cluster cluster = some_a100s(64);
  cluster.efficiency = {.products = 0.72, .memory = 0.5, .layer_s = 100e-6, .source = "", .by_size = false};
  const PlanLayout layout{.dp = 1,
                          .tp = 8,
                          .pp = 8,
                          .schedule = PipelineSchedule::kInterleaved,
                          .chunks = 6,
                          .recompute = recipe::Recompute::kSelective};
  const Practice practice{.fused = false, .flash = false, .causal = false, .loss_bytes = 0};
  const StepParts parts = step_parts(work, layout, 16, cluster, practice);
  const double tok = 2048, h = 12288, pk = 312e12 * 0.72, memory = 2039e9 * 0.5, layers = 12, m = 16;
  const double gemm = 24 * tok * h * h / 8 / pk, attention = 4 * tok * 2048 * h / 8 / pk,
               elementwise = 40 * tok * h / 8 / memory;
  const double scores = 12 * 128 * 2048.0 * 2048 / 8 / memory, tensor = 8 * tok * h * 7 / 8 / 240e9 + 40e-6;
  EXPECT_NEAR(parts.products, 3 * m * layers * gemm, 1e-9);
  EXPECT_NEAR(parts.attention, 3 * m * layers * attention, 1e-9);
  EXPECT_NEAR(parts.elementwise, 2.6 * m * layers * (elementwise + scores), 1e-9);
  EXPECT_NEAR(parts.tensor_exchange, 2 * m * layers * tensor, 1e-9);
  EXPECT_NEAR(parts.recomputation, m * layers * (attention + scores), 1e-9);
  EXPECT_NEAR(parts.layer_overhead, 2 * m * layers * 100e-6, 1e-12);
  EXPECT_NEAR(parts.head, m * 6 * tok * h * 64000 / 8 / pk, 1e-9);
  const double transfer = 6 * (2 * tok * h / 8 / 23.5e9 + 20e-6);
  EXPECT_NEAR(parts.pipeline_exchange, m * 2 * transfer, 1e-9);
  const double stage = (parts.forward + parts.backward_input + parts.backward_weight);
  EXPECT_NEAR(m * stage,
              parts.products + parts.attention + parts.elementwise + parts.tensor_exchange +
                  parts.recomputation + parts.layer_overhead,
              1e-9)
      << "passes hold the same time as the parts";
  EXPECT_NEAR(parts.bubble, 7 * (stage + 2 * transfer) / 6, 1e-9);
  EXPECT_EQ(parts.gradients, 0) << "one replica sums with nobody";
}

// A layer that is made again finds what attention gave, and needs no keys of other ranks; in published runs
// it made both again.
TEST(StepTime, AttentionIsNotMadeAgain) {
  const Work work = large_gpt();
  const Cluster cluster = some_a100s(64);
  for (const int64_t cp : {1, 2}) {
    const auto parts = [&](recipe::Recompute recompute, bool attention_again) {
      const PlanLayout layout{.dp = 1, .tp = 8, .pp = 8 / cp, .cp = cp, .recompute = recompute};
      return step_parts(work, layout, 16, cluster, {.attention_again = attention_again});
    };
    const StepParts once = parts(recipe::Recompute::kNone, false),
                    ours = parts(recipe::Recompute::kFull, false),
                    published = parts(recipe::Recompute::kFull, true);
    EXPECT_EQ(once.recomputation, 0);
    // Of attention forward and backward together, 1 and 2.5 times it, one share; of the exchanges of three
    // passes, one.
    EXPECT_NEAR(published.recomputation - ours.recomputation,
                once.attention / 3.5 + once.context_exchange / 3, 1e-9 * published.recomputation);
    EXPECT_NEAR(ours.recomputation,
                once.products / 3 + once.recurrence / 3 + once.elementwise / 2.6 + once.tensor_exchange / 2 +
                    once.layer_overhead / 2,
                1e-9 * ours.recomputation);
    EXPECT_EQ(once.context_exchange > 0, cp > 1);
  }
}

TEST(StepTime, SumsAndMonotonies) {
  const Work work = large_gpt();
  const PlanLayout layout{.dp = 16, .tp = 8, .pp = 8, .chunks = 1};
  const Cluster cluster = some_a100s(1024);
  const StepParts parts = step_parts(work, layout, 768, cluster, default_practice(layout));
  double sum = 0;
  for (const auto& [name, seconds] : parts.rows()) {
    EXPECT_GE(seconds, 0) << name;
    sum += seconds;
  }
  EXPECT_DOUBLE_EQ(sum, parts.total());
  for (double Accelerator::*rate : {&Accelerator::bf16_flops, &Accelerator::memory_rate,
                                    &Accelerator::link_rate, &Accelerator::nic_rate}) {
    Cluster faster = cluster;
    faster.device.*rate *= 2;
    EXPECT_LT(step_parts(work, layout, 768, faster, default_practice(layout)).total(), parts.total());
  }
}

TEST(NetworkShare, IsTheTableAtItsPlacesAndBetweenThem) {
  EXPECT_DOUBLE_EQ(network_share(1 << 24, 2), 0.32);
  EXPECT_DOUBLE_EQ(network_share(double(1LL << 34), 128), 0.919);
  EXPECT_DOUBLE_EQ(network_share(double(1LL << 30), 16), 0.76);
  EXPECT_NEAR(network_share(double(1LL << 29), 16), (0.57 + 0.76) / 2, 1e-12);
  EXPECT_GT(network_share(1e9, 32), network_share(1e9, 64));
}

TEST(LinkShare, IsTheTableAtItsPlacesAndLatencyBelow) {
  EXPECT_DOUBLE_EQ(link_share(1 << 24), 0.45);
  EXPECT_DOUBLE_EQ(link_share(1 << 28), 0.73);
  EXPECT_DOUBLE_EQ(link_share(1LL << 40), 0.81);
  EXPECT_NEAR(link_share(1 << 25), 0.55, 1e-12) << "half way between 16 and 64 MiB in logarithms";
  const double latency = (1 << 24) / 0.45 - (1 << 24);
  for (const double bytes : {1e3, 1e6, 1e7})
    EXPECT_NEAR(bytes / link_share(bytes) - bytes, latency, 1e-6) << bytes;
}

// Neighbours of a group that share a node share its network cards: of tensor ranks by 2 four of a group do,
// of 8 one.
TEST(StepTime, SumsOverNodesUseTheCardsOfAllMembersOfANode) {
  const Work work = large_gpt();
  Cluster cluster = some_a100s(64);
  cluster.efficiency.by_size = false;
  const auto parameters = [&](int64_t tp) {
    return (96 * work.dense_parameters + work.embedding_parameters) / static_cast<double>(tp);
  };
  for (const auto& [tp, cards] : {std::pair<int64_t, double>{1, 8}, {2, 4}, {4, 2}, {8, 1}}) {
    const PlanLayout layout{.dp = 64 / tp, .tp = tp};
    const double share = 1 - 1 / static_cast<double>(layout.dp);
    EXPECT_NEAR(step_parts(work, layout, 64, cluster, {}).gradients,
                6 * parameters(tp) * share / (cards * 23.5e9), 1e-6)
        << tp;
    PlanLayout whole = layout;
    whole.zero = 0;
    EXPECT_NEAR(step_parts(work, whole, 64, cluster, {}).gradients,
                8 * parameters(tp) * share / (cards * 23.5e9), 1e-6)
        << "all gradients come back, in fp32";
  }
}

TEST(StepTime, SumsBesideThePasses) {
  const Work work = large_gpt();
  Cluster cluster = some_a100s(64);
  cluster.efficiency.by_size = false;
  const PlanLayout layout{.dp = 8, .tp = 8};
  const StepParts seen = step_parts(work, layout, 64, cluster, {}),
                  beside = step_parts(work, layout, 64, cluster, {.data_beside = true});
  const double sums = seen.gradients * 4 / 6, values = seen.gradients * 2 / 6,
               backward = seen.backward_input + seen.backward_weight;
  EXPECT_NEAR(beside.gradients,
              std::max(sums / 96, sums - backward) + std::max(values / 96, values - seen.forward), 1e-9);
  EXPECT_GT(beside.gradients, 0);
}

// Stages that take turns end a round of micro-batches after the other: the sums of one have as long as the
// rounds of the others take.
TEST(StepTime, SumsOfAStageHaveTheRoundsOfTheOthers) {
  const Work work = large_gpt();
  Cluster cluster = some_a100s(256);
  cluster.efficiency.by_size = false;
  const PlanLayout layout{.dp = 8, .tp = 8, .pp = 4, .schedule = PipelineSchedule::kInterleaved, .chunks = 6};
  for (const double slower : {1.0, 20.0, 60.0}) {
    Cluster on = cluster;
    on.device.nic_rate /= slower;
    const StepParts seen = step_parts(work, layout, 64, on, {}),
                    beside = step_parts(work, layout, 64, on, {.data_beside = true});
    const double window = 4 * 5 / 6.0 * (seen.forward + seen.backward_input + seen.backward_weight);
    EXPECT_NEAR(beside.gradients, std::max(seen.gradients / 6, seen.gradients - window), 1e-9) << slower;
    EXPECT_TRUE(slower < 50 || seen.gradients > window * 6 / 5) << "the window counts";
  }
}

// Stage 2 sums after each backward pass, stage 3 brings values for each pass too.
TEST(StepTime, ShardsOfValuesComeForEachMicroBatch) {
  const Work work = large_gpt();
  Cluster cluster = some_a100s(64);
  cluster.efficiency.by_size = false;
  const double once =
      // a byte of every parameter over the ring
      (96 * work.dense_parameters + work.embedding_parameters) / 8 * 7 / 8 / 23.5e9;
  const auto gradients = [&](int64_t zero, int64_t micro_batch) {
    return step_parts(work, {.dp = 8, .tp = 8, .zero = zero, .micro_batch = micro_batch}, 64, cluster, {})
        .gradients;
  };
  EXPECT_NEAR(gradients(1, 1), (4 + 2) * once, 1e-6);
  EXPECT_NEAR(gradients(2, 1), (8 * 4 + 2) * once, 1e-6);
  EXPECT_NEAR(gradients(3, 1), 8 * (4 + 4) * once, 1e-6);
  EXPECT_NEAR(gradients(3, 4), 2 * (4 + 4) * once, 1e-6) << "two micro-batches";
}

// 126 layers and both ends in 16 · 8 places (arXiv 2407.21783 §3.3.2): the head's stage has a layer less.
TEST(StepTime, TheHeadInPlaceOfALayer) {
  const Work work = work_of(recipe::preset_model("llama-3-8b"), 4096);
  Work uneven = work;
  uneven.layers = 30;
  const Cluster cluster = some_a100s(4);
  const PlanLayout layout{.pp = 4};
  EXPECT_EQ(layers_of_rank(work, layout), 8);
  EXPECT_EQ(layers_of_rank(uneven, layout), 8);
  EXPECT_EQ(spare_layers(work, layout), 0);
  EXPECT_EQ(spare_layers(uneven, layout), 2);
  const StepParts even = step_parts(work, layout, 8, cluster, {}),
                  parts = step_parts(uneven, layout, 8, cluster, {});
  const double a_layer = (parts.forward + parts.backward_input + parts.backward_weight) / 8;
  EXPECT_GT(even.head, 0);
  EXPECT_NEAR(parts.head, std::max(0.0, even.head - 8 * a_layer), 1e-12);
  EXPECT_NEAR(parts.total() - parts.update - parts.head - parts.gradients,
              even.total() - even.update - even.head - even.gradients, 1e-9);
}

TEST(StepTime, ExchangesOfTheBackwardPass) {
  const Work work = large_gpt();
  const Cluster cluster = some_a100s(64);
  const PlanLayout layout{.tp = 8, .pp = 8};
  const StepParts both = step_parts(work, layout, 16, cluster, {}),
                  half = step_parts(work, layout, 16, cluster, {.backward_tensor = 0.5});
  EXPECT_NEAR(half.tensor_exchange, 0.75 * both.tensor_exchange, 1e-9);
  EXPECT_NEAR(16 * (both.backward_input - half.backward_input), 0.25 * both.tensor_exchange, 1e-9);
}

TEST(StepTime, WhatTensorRanksDoAllOfWithoutSequenceParallelism) {
  const Work work = large_gpt();
  const Cluster cluster = some_a100s(8);
  const double rate = cluster.device.memory_rate * cluster.efficiency.memory, tokens = 2048, h = 12288;
  const auto elementwise = [&](const Practice& practice) {
    return step_parts(work, {.tp = 8}, 1, cluster, practice).elementwise;
  };
  EXPECT_NEAR(elementwise({}), 2.6 * 96 * tokens * (10 * h + 16 * h) / 8 / rate, 1e-9);
  EXPECT_NEAR(elementwise({.sequence_parallel = false}), 2.6 * 96 * tokens * (10 * h + 16 * h / 8) / rate,
              1e-9);
}

// As [parallel] and [train] of a recipe say, and nothing else.
TEST(StepTime, TheLayoutOfARecipe) {
  recipe::Recipe recipe;
  recipe.parallel.ranks = 32, recipe.parallel.tp = 2, recipe.parallel.pp = 2, recipe.parallel.cp = 2;
  recipe.parallel.ep = 2, recipe.parallel.etp = 2, recipe.parallel.zero = 2, recipe.parallel.zero_copies = 2;
  recipe.parallel.experts.dispatcher = recipe::Dispatcher::kFlex;
  recipe.parallel.context = {.softmax = recipe::ContextMethod::kRing,
                             .linear = recipe::LinearContextMethod::kUlysses};
  recipe.parallel.pipeline.schedule = PipelineSchedule::kZbH1;
  recipe.train.micro_batch = 3;
  recipe.train.recompute = recipe::Recompute::kSelective;
  recipe.train.offload = recipe::Offload::kFile;
  const PlanLayout expected{.dp = 4,
                            .tp = 2,
                            .pp = 2,
                            .cp = 2,
                            .ep = 2,
                            .etp = 2,
                            .zero = 2,
                            .zero_copies = 2,
                            .schedule = PipelineSchedule::kZbH1,
                            .micro_batch = 3,
                            .recompute = recipe::Recompute::kSelective,
                            .offload = true,
                            .dispatcher = recipe::Dispatcher::kFlex,
                            .context = {recipe::ContextMethod::kRing, recipe::LinearContextMethod::kUlysses}};
  EXPECT_EQ(expected.text(),
            "dp 4 tp 2 pp 2 cp 2 ep 2 etp 2 flex ring linear-ulysses zero 2 in 2 copies zb-h1 micro-batch 3 "
            "recompute selective offload");
  EXPECT_EQ(layout_of_recipe(recipe), expected) << layout_of_recipe(recipe).text();
  recipe.train.offload = recipe::Offload::kNone;
  EXPECT_FALSE(layout_of_recipe(recipe).offload);
  EXPECT_FALSE(layout_of_recipe(recipe).to_host);
  recipe.train.offload = recipe::Offload::kHost;
  EXPECT_TRUE(layout_of_recipe(recipe).to_host);
  EXPECT_FALSE(layout_of_recipe(recipe).offload);
  EXPECT_EQ(layout_of_recipe(recipe).host_share, std::nullopt);
  recipe.train.offload_share = "0.25";
  EXPECT_EQ(layout_of_recipe(recipe).host_share, 0.25);
}

// Copies to the host show as far as they take longer than compute; what goes there is not made again.
TEST(StepTime, CopiesToTheHostHide) {
  const Work work = large_gpt();
  Cluster cluster = some_a100s(8);
  PlanLayout layout{.tp = 8, .recompute = recipe::Recompute::kTokens};
  const StepParts without = step_parts(work, layout, 3, cluster, {});
  layout.to_host = true, layout.host_share = 1;
  cluster.host_rate = 1e15;
  const StepParts fast = step_parts(work, layout, 3, cluster, {});
  EXPECT_EQ(fast.offload, 0);
  EXPECT_NEAR(without.recomputation - fast.recomputation, without.products / 3, 1e-9 * without.products);
  // 9 h columns of results a layer: three of query, key and value, the mixer's, four and one of the channel.
  const double layers = 3 * 96, tokens = 2048, h = 12288;
  EXPECT_NEAR(work.row_bytes, 9 * h * 2, 1e-6 * h);
  cluster.host_rate = 1e6;
  const StepParts slow = step_parts(work, layout, 3, cluster, {});
  const double moved = layers * tokens * (work.kept_of(recipe::Recompute::kTokens, 8) + 9 * h * 2 / 8);
  EXPECT_NEAR(slow.offload / (2 * moved / 1e6), 1, 1e-2);
  layout.host_share = {};  // as much as hides: nothing
  EXPECT_NEAR(step_parts(work, layout, 3, cluster, {}).recomputation, without.recomputation,
              1e-9 * without.recomputation);
}

// What layers keep goes to the host and into the file and comes back, and passes wait for both
// (docs/design/recomputation.md).
TEST(StepTime, OffloadWaitsForTheFile) {
  const Work work = large_gpt();
  Cluster cluster = some_a100s(8);
  cluster.host_rate = 20e9, cluster.file_rate = 4e9;
  const StepParts parts = step_parts(work, {.tp = 8, .offload = true}, 3, cluster, {}),
                  without = step_parts(work, {.tp = 8}, 3, cluster, {});
  const double bytes = 3 * 96 * 2048 * work.kept_of(recipe::Recompute::kNone, 8);
  EXPECT_NEAR(parts.offload / (2 * bytes * (1 / 20e9 + 1 / 4e9)), 1, 1e-12);
  EXPECT_NEAR(parts.total() - without.total(), parts.offload, 1e-9);
}

// The loss reads and writes twelve bytes of every number of the head; without ZeRO every rank updates all
// that it holds.
TEST(StepTime, LossAndUpdateByHand) {
  const Work work = large_gpt();
  const Cluster cluster = some_a100s(64);
  const double rate = cluster.device.memory_rate * cluster.efficiency.memory;
  const auto parts = [&](int64_t zero, double loss_bytes) {
    return step_parts(work, {.dp = 8, .tp = 8, .zero = zero}, 16, cluster, {.loss_bytes = loss_bytes});
  };
  EXPECT_NEAR(parts(1, 12).head - parts(1, 0).head, 2 * 2048 / 8 * 12 * 64000.0 / rate, 1e-9);
  EXPECT_NEAR(parts(0, 12).update / parts(1, 12).update, 8, 1e-9);
}

// Selective recomputation where scores are never kept: norms and activations again, about half of what passes
// through memory.
TEST(StepTime, SelectiveRecomputation) {
  const Work work = large_gpt();
  const StepParts parts =
      step_parts(work, {.tp = 8, .recompute = recipe::Recompute::kSelective}, 4, some_a100s(8), {});
  EXPECT_NEAR(parts.recomputation, 0.5 * parts.elementwise / 2.6, 1e-9);
}

// Keys of eight heads over sixteen tensor ranks: each holds one of two copies, so that a head's keys go over
// the ring and not half of them.
TEST(StepTime, ContextRanksGatherWholeHeads) {
  const Work work = work_of(recipe::preset_model("llama-3-8b"), 8192);
  Cluster cluster = some_a100s(64);
  cluster.efficiency.message_s = 0;
  const auto exchange = [&](int64_t tp) {
    return step_parts(work, {.tp = tp, .cp = 2}, 1, cluster, {}).context_exchange;
  };
  const double head = 8192 * 2 * 2 * 128;  // keys and values of all tokens, bf16
  EXPECT_NEAR(exchange(4), 3 * 32 * 2 * head / 2 / 240e9, 1e-9) << "two heads a rank, half of them away";
  EXPECT_NEAR(exchange(16), 3 * 32 * head / 2 / 23.5e9, 1e-9) << "one, over the network";
}

// Queries, keys, values and results of a tensor rank's 8 of 32 heads, half of them away; a layer that is made
// again exchanges them again. States would be the same for every length.
TEST(StepTime, ContextRanksDealOutHeads) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  Cluster cluster = some_a100s(64);
  cluster.efficiency.message_s = 0;
  const auto parts = [&](recipe::Mixer mixer, recipe::Recompute recompute) {
    model.mixers = {mixer};
    return step_parts(work_of(model, 8192),
                      {.tp = 4,
                       .cp = 2,
                       .recompute = recompute,
                       .context = {recipe::ContextMethod::kUlysses, recipe::LinearContextMethod::kUlysses}},
                      1, cluster, {});
  };
  const double head = 4096 * 2 * 128;  // one channel vector of a head, of a rank's tokens, bf16
  const auto expect = [&](recipe::Mixer mixer, double heads) {
    const StepParts once = parts(mixer, recipe::Recompute::kNone),
                    again = parts(mixer, recipe::Recompute::kFull);
    EXPECT_NEAR(once.context_exchange, 3 * 32 * heads * head / 2 / 240e9, 1e-9);
    EXPECT_NEAR(again.recomputation,
                once.products / 3 + once.recurrence / 3 + once.elementwise / 2.6 + once.tensor_exchange / 2 +
                    once.layer_overhead / 2 + once.context_exchange / 3,
                1e-9 * again.recomputation);
  };
  expect(recipe::Mixer::kLightning, 4 * 8);
  expect(recipe::Mixer::kSoftmax, 2 * 8 + 2 * 2);
}

// Experts that hardly anybody chooses take as long as their weights take to be read.
TEST(StepTime, ExpertsOfFewTokens) {
  recipe::ModelConfig model = recipe::preset_model("gpt2-124m");
  model.experts = 8;
  model.experts_per_token = 2;
  const Work work = work_of(model, 16);
  const Cluster cluster = some_a100s(1);
  const double rate = cluster.device.memory_rate * cluster.efficiency.memory,
               peak = 312e12 * cluster.efficiency.products;
  const StepParts parts = step_parts(work, {}, 1, cluster, {});
  EXPECT_NEAR(parts.products,
              3 * 12 * (2 * 16 * work.dense_products / peak + 2 * work.expert_parameters / rate), 1e-12);
  Cluster links = some_a100s(8);
  links.efficiency.by_size = false, links.efficiency.message_s = 0;
  const auto rows = [&](double imbalance) {
    return step_parts(work, {.dp = 8, .ep = 8}, 8, links, {.imbalance = imbalance}).expert_exchange;
  };
  EXPECT_NEAR(rows(1.5), 1.5 * rows(1), 1e-12) << "the busiest rank's";
}

// A recurrence, attention and a step have constants of their own where a machine was measured.
TEST(StepTime, ConstantsOfTheirOwn) {
  recipe::ModelConfig model = recipe::preset_model("gpt2-124m");
  const Work work = work_of(model, 1024);
  Cluster cluster = some_a100s(1);
  const StepParts before = step_parts(work, {}, 8, cluster, {});
  cluster.efficiency.attention = before.attention > 0 ? 0.3 : 0, cluster.efficiency.step_s = 0.25;
  const StepParts after = step_parts(work, {}, 8, cluster, {});
  EXPECT_NEAR(after.attention, 2 * before.attention, 1e-12) << "A100's is 0.6";
  EXPECT_EQ(after.fixed, 0.25);
  EXPECT_NEAR(after.total() - before.total(), before.attention + 0.25, 1e-9);
  model.mixers = {recipe::Mixer::kLightning};
  const Work recurrent = work_of(model, 1024);
  const StepParts fast = step_parts(recurrent, {}, 8, cluster, {});
  ASSERT_GT(fast.recurrence, 0);
  cluster.efficiency.recurrence = cluster.efficiency.products / 4;
  EXPECT_NEAR(step_parts(recurrent, {}, 8, cluster, {}).recurrence, 4 * fast.recurrence, 1e-9);
}

}  // namespace
}  // namespace longhaul::plan
