// The planner's formulas against sums by hand, published identities, the event engine, and the exact state of
// a mesh's rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "observe/events/event.h"
#include "plan/calibration.h"
#include "plan/link_rates.h"
#include "plan/memory/state_bytes.h"
#include "plan/memory/update_memory.h"
#include "plan/reliability/goodput.h"
#include "plan/search/next_changes.h"
#include "plan/search/plan_report.h"
#include "plan/simulated.h"
#include "plan/validation_report.h"
#include "recipe/architecture/presets.h"
#include "recipe/load.h"

namespace longhaul::plan {
namespace {

using recipe::PipelineSchedule;
using ::testing::HasSubstr;

Cluster planner_a100(int64_t gpus) { return load_cluster("a100", gpus); }
Work planner_gpt_175b() { return work_of(recipe::preset_model("megascale-175b"), 2048); }

// Equation 3 of arXiv 2104.04473: 72·B·s·l·h²(1 + s/6h + V/12lh). Biases, norms and positions are in no
// product.
TEST(Work, ProductsOfAGpt) {
  const Work work = planner_gpt_175b();
  const double h = 12288, s = 2048, l = 96, v = 64000;
  EXPECT_NEAR(work.flops.full() / (72 * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))), 1, 1e-9);
  EXPECT_NEAR(work.dense_products, 12 * h * h, 1);
  EXPECT_EQ(work.attention_channels, h);
  EXPECT_EQ(work.key_value_channels, 2 * h);
  EXPECT_EQ(work.head_rows, v * h);
}

// Of Qwen2-57B-A14B: 8 of 64 experts of 2,560 and a shared one of 20,480, two numbers in and one out of two
// bytes; rows go to experts and back.
TEST(Work, ElementsOfExperts) {
  for (const PublishedRow& row : published_rows()) {
    if (!row.name.starts_with("Qwen2")) continue;
    EXPECT_NEAR(row.work.activation_bytes, 6 * (8 * 2560 + 20480), 1e-6);
    EXPECT_NEAR(row.work.dispatch_bytes, 4 * 9 * 3584, 1e-6);
    const double active =
        28 * (3.0 * 3584 * (8 * 2560 + 20480) + 2 * 3584 * 3584 + 2 * 3584 * 512) + 2.0 * 3584 * 151936;
    EXPECT_NEAR(active / 14e9, 1, 0.05) << "its name";
    EXPECT_NEAR(row.work.flops.matrices / (6 * (active - 3584.0 * 151936)), 1, 0.01);
  }
}

// The formulas say what the lists of actions say, when messages are free.
TEST(Engines, Agree) {
  struct Case {
    PipelineSchedule schedule;
    int64_t pp, chunks, m;
  };
  for (const Case& c : {Case{PipelineSchedule::kGpipe, 4, 1, 8}, Case{PipelineSchedule::k1F1B, 4, 1, 8},
                        Case{PipelineSchedule::k1F1B, 7, 1, 7}, Case{PipelineSchedule::kInterleaved, 4, 3, 8},
                        Case{PipelineSchedule::kInterleaved, 2, 2, 6}, Case{PipelineSchedule::kZbH1, 4, 1, 8},
                        Case{PipelineSchedule::kZbV, 4, 2, 16}}) {
    const PlanLayout layout{.pp = c.pp, .schedule = c.schedule, .chunks = c.chunks};
    StepParts parts;
    parts.forward = 1.0;
    parts.backward_input = parts.backward_weight =
        c.schedule == PipelineSchedule::kZbH1 || c.schedule == PipelineSchedule::kZbV ? 1.0 : 1.25;
    const double ideal =
        static_cast<double>(c.m) * (parts.forward + parts.backward_input + parts.backward_weight);
    const auto timeline = simulated(layout, c.m, parts);
    ASSERT_TRUE(timeline);
    EXPECT_NEAR(timeline->makespan, ideal + bubble_seconds(layout, c.m, parts), 1e-9)
        << recipe::names_of(c.schedule)[static_cast<size_t>(c.schedule)] << " pp " << c.pp << " m " << c.m;
    for (const double busy : timeline->busy) EXPECT_NEAR(busy, ideal, 1e-9);
  }
}

// DualPipe's formula at random times of passes, with and without pairs in turns; and whatever the times, a
// rank holds no more micro-batches than the plan's memory counts.
TEST(Engines, DualPipe) {
  std::mt19937_64 draw(5);
  std::uniform_real_distribution<double> seconds(0.1, 2);
  for (int64_t i = 0; i < 60; ++i) {
    const int64_t pp = 2 * (1 + i % 6), m = 2 * pp + 2 * (i % 3);
    const PlanLayout layout{
        .pp = pp, .schedule = PipelineSchedule::kDualPipe, .chunks = 2, .pairs_in_turns = i % 2 == 0};
    StepParts parts;
    parts.forward = seconds(draw), parts.backward_input = seconds(draw),
    parts.backward_weight = seconds(draw);
    const double ideal =
        static_cast<double>(m) * (parts.forward + parts.backward_input + parts.backward_weight);
    const auto timeline = simulated(layout, m, parts);
    ASSERT_TRUE(timeline);
    EXPECT_NEAR(timeline->makespan, ideal + bubble_seconds(layout, m, parts), 1e-9)
        << "pp " << pp << " m " << m << ": " << parts.forward << " " << parts.backward_input << " "
        << parts.backward_weight << (layout.pairs_in_turns ? " in turns" : "");
    for (const double busy : timeline->busy) EXPECT_NEAR(busy, ideal, 1e-9);
    EXPECT_EQ(std::ranges::max(timeline->peak_in_flight), in_flight(layout, m));
  }
}

// Two ranks of a replica hold each stage, and take half of its micro-batches each.
TEST(Engines, DualPipeHasTwoCopies) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  model.tie_embeddings = false;
  const Work work = work_of(model, 4096);
  const Cluster cluster = planner_a100(16);
  const PlanLayout one{.dp = 2, .pp = 8, .zero = 0};
  PlanLayout two = one;
  two.schedule = PipelineSchedule::kDualPipe, two.chunks = 2;
  const StepParts of_one = step_parts(work, one, 32, cluster, {}),
                  of_two = step_parts(work, two, 32, cluster, {});
  EXPECT_DOUBLE_EQ(of_two.products, of_one.products) << "each rank has as much to do";
  EXPECT_DOUBLE_EQ(of_two.head, of_one.head / 2) << "both ends have the head, for half of the micro-batches";
  EXPECT_DOUBLE_EQ(of_two.pipeline_exchange, of_one.pipeline_exchange);
  const double h = 4096, layer = 2 * h * h + 2 * h * 1024 + 3 * h * 14336 + 2 * h, table = 128256 * h;
  const double held = 8 * layer + 2 * table;
  EXPECT_NEAR(of_two.update, 38 * held / (0.8 * cluster.device.memory_rate), 1e-4 * of_two.update);
  // All-reduced over two data ranks, half of it seen; then with the other rank of the pipeline.
  EXPECT_GT(of_two.gradients, 4 * held / cluster.device.nic_rate);
  const SearchMemory memory = search_memory(work, two, 32, cluster);
  EXPECT_NEAR(memory.weights, 2 * held, 1e-4 * memory.weights);
  EXPECT_NEAR(memory.optimizer, 12 * held, 1e-4 * memory.optimizer);
  EXPECT_NEAR(memory.activations, 4096 * work.kept_of(recipe::Recompute::kNone, 1) * (4 * 9 + 1), 1)
      << "nine micro-batches in four layers, and a layer";
  // The exact state of the first rank, tensor by tensor.
  const layout::Mesh mesh(16, {.pp = 8});
  const RankState state = rank_state(
      model, recipe::Dtype::kBf16, {},
      {.mesh = mesh, .rank = 0, .pipelined = {.schedule = PipelineSchedule::kDualPipe}, .zero = 0});
  EXPECT_NEAR((memory.weights + memory.gradients + memory.optimizer) /
                  (state.weights + state.gradients + state.optimizer),
              1, 0.002);
  // Two messages of gradients with the part of either rank, and the sum of one.
  EXPECT_EQ(state.stage_sums, (2 * 2 + 1) * double{16 << 20});
}

// A message is a chunk's; an exchange of rows one of two passes of a micro-batch.
TEST(Engines, PlayMessagesAndExchanges) {
  StepParts parts;
  parts.forward = 1, parts.backward_input = 0.75, parts.backward_weight = 0.5, parts.transfer = 0.6,
  parts.expert_exchange = 3.2;
  const auto played = [&](const PlanLayout& plan, int64_t m, double transfer, double exchange) {
    const layout::Pipeline pipeline(
        plan.pp, {.schedule = plan.schedule, .chunks = plan.chunks, .pairs_in_turns = plan.pairs_in_turns});
    return layout::simulate(layout::make_schedule(pipeline, m), {.forward = 1,
                                                                 .backward_input = 0.75,
                                                                 .backward_weight = 0.5,
                                                                 .transfer = transfer,
                                                                 .exchange = exchange})
        .makespan;
  };
  const PlanLayout turns{.pp = 4, .schedule = PipelineSchedule::kInterleaved, .chunks = 3};
  EXPECT_NEAR(simulated(turns, 8, parts)->makespan, played(turns, 8, 0.2, 0), 1e-12);
  const PlanLayout pairs{
      .pp = 4, .schedule = PipelineSchedule::kDualPipe, .chunks = 2, .pairs_in_turns = true};
  EXPECT_NEAR(simulated(pairs, 16, parts)->makespan, played(pairs, 16, 0.6, 0.1), 1e-12)
      << "a micro-batch passes one of the two stages of a rank";
  EXPECT_LT(played(pairs, 16, 0.3, 0.1), played(pairs, 16, 0.3, 0))
      << "an exchange hides beside the other pass of a pair";
}

TEST(Engines, RefuseListsThatAreTooLong) {
  EXPECT_FALSE(simulated({.pp = 64}, 1024, {}));
  EXPECT_FALSE(simulated({.pp = 1}, 8, {}));
}

// The exact state of the fullest rank, counted tensor by tensor.
TEST(SearchMemory, AgreesWithTheStateOfAMesh) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  model.tie_embeddings = false;
  const Work work = work_of(model, 4096);
  for (const auto& [zero, copies] :
       {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {2, 1}, {3, 1}, {1, 2}, {3, 2}, {3, 4}}) {
    const PlanLayout layout{.dp = 4, .tp = 2, .pp = 2, .zero = zero, .zero_copies = copies};
    const SearchMemory memory = search_memory(work, layout, 64, planner_a100(16));
    const layout::Mesh mesh(16, {.pp = 2, .tp = 2, .copies = copies});
    double exact = 0;
    for (int64_t rank = 0; rank < 16; ++rank) {
      const RankState state =
          rank_state(model, recipe::Dtype::kBf16, {}, {.mesh = mesh, .rank = rank, .zero = zero});
      exact = std::max(exact, state.weights + state.gradients + state.optimizer + state.passing_weights +
                                  state.passing_gradients);
    }
    EXPECT_NEAR((memory.weights + memory.gradients + memory.optimizer) / exact, 1, 0.05)
        << "zero " << zero << ", copies " << copies;
  }
}

// Of four data ranks at stage 3 by hand: before the first layer all outside layers and that one are there,
// later two layers beside it.
TEST(RankStateByHand, WhatComesForThePasses) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  model.tie_embeddings = false;
  const RankState state =
      rank_state(model, recipe::Dtype::kBf16, {}, {.mesh = layout::Mesh(4, {}), .rank = 0, .zero = 3});
  const double h = 4096, matrices = 2 * h * h + 2 * h * 1024 + 3 * h * 14336;
  const double layer = 2 * matrices + 4 * 2 * h, outside = 2 * 2 * 128256 * h + 4 * h;  // norms in fp32
  EXPECT_EQ(state.weights, (32 * layer + outside) / 4);
  EXPECT_EQ(state.early_weights, outside + layer);
  EXPECT_EQ(state.passing_weights, outside + 2 * layer);
}

// Modules that predict further ahead stand where the head does; full recomputation keeps a layer's input, the
// output of attention and a log-sum-exp of each of its 32 heads, cut over tensor ranks.
TEST(WorkByHand, ModulesAheadAndRecomputation) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b"), ahead = model;
  ahead.predict_ahead = 1;
  const Work one = work_of(model, 1024), two = work_of(ahead, 1024);
  EXPECT_EQ(two.embedding_parameters, one.embedding_parameters);
  EXPECT_NEAR(two.head_parameters - one.head_parameters, one.dense_parameters + 2 * 4096.0 * 4096, 1e5)
      << "a layer and what joins two norms";
  EXPECT_EQ(one.kept_of(recipe::Recompute::kFull, 8), (2 * 4096 + 2 * 4096 + 4 * 32) / 8.0);
}

// The peak is of the devices that the layout has.
TEST(WorkByHand, SharesOfThePeakAreOfTheLayoutsDevices) {
  const Work work = planner_gpt_175b();
  const PlanCandidate plan = evaluate(work, {.tp = 8, .pp = 8}, planner_a100(1024), 64);
  EXPECT_NEAR(plan.mfu, 64 * 2048 * work.flops.causal() / (64 * 312e12 * plan.seconds), 1e-12);
}

// Muon works on whole matrices some at a time: of each its direction and with Nesterov's a copy.
TEST(UpdateMemoryByHand, CopiesOfDirections) {
  recipe::OptimOptions options;
  options.name = "muon";
  const recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  const auto specs = layout::parameters(model);
  const auto matrix = std::ranges::find_if(specs, [](const layout::ParameterSpec& spec) {
    return spec.layer == 0 && spec.tensor.global_shape.size() == 2;
  });
  ASSERT_NE(matrix, specs.end());
  const auto bytes = [&](bool nesterov) {
    options.nesterov = nesterov;
    UpdateMemory updating(options, 4);
    updating.add(*matrix, matrix->tensor.global_shape, 1);
    return updating.bytes();
  };
  EXPECT_GE(bytes(false), 4 * static_cast<double>(matrix->elements()));
  EXPECT_NEAR(bytes(true), 2 * bytes(false), 1e-6);
}

// Two key heads on eight tensor ranks: each of these holds a whole one, of which there are four copies.
TEST(SearchMemory, TensorRanksThatOutnumberKeyHeadsHoldCopies) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  model.tie_embeddings = false;
  model.softmax.kv_heads = 2;
  const Work work = work_of(model, 4096);
  const double h = 4096, inner = 14336, key_or_value = 128;  // channels of a head
  EXPECT_NEAR(work.dense_products_of(8), 2 * h * h / 8 + 2 * key_or_value * h + 3 * h * inner / 8, 1);
  EXPECT_NEAR(work.dense_products_of(2), work.dense_products / 2, 1);
  EXPECT_NEAR(work.kept_of(recipe::Recompute::kNone, 8),
              (work.kept_bytes - 2 * 2 * 2 * key_or_value) / 8 + 2 * 2 * key_or_value, 1e-6);

  const SearchMemory memory = search_memory(work, {.tp = 8}, 64, planner_a100(8));
  const RankState state =
      rank_state(model, recipe::Dtype::kBf16, {},
                 {.mesh = layout::Mesh(8, {.tp = 8, .key_copies = 4}), .rank = 0, .zero = 0});
  EXPECT_NEAR((memory.weights + memory.gradients + memory.optimizer) /
                  (state.weights + state.gradients + state.optimizer),
              1, 0.003);
}

// What a layout adds, by hand: the head's buffers, what is reserved, both ends of a V on one rank, two layers
// alone where the others lie in a file.
TEST(SearchMemory, PartsByHand) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  model.tie_embeddings = false;
  const Work work = work_of(model, 4096);
  Cluster cluster = planner_a100(8);
  cluster.reserved_bytes = 3e9;
  cluster.fragmentation = 0.1;
  const SearchMemory one = search_memory(work, {.pp = 8, .micro_batch = 2}, 16, cluster);
  const double tokens = 2 * 4096, kept = work.kept_of(recipe::Recompute::kNone, 1);
  EXPECT_NEAR(one.head, tokens * (2 * 2 * 4096 + 4 * 128256 / 8.0), 1);
  EXPECT_NEAR(one.reserved,
              3e9 + 0.1 * (one.weights + one.gradients + one.optimizer + one.activations + one.head), 1);
  EXPECT_NEAR(one.activations, tokens * kept * (4 * 8 + 1), 1)
      << "eight micro-batches in flight, four layers each";
  const SearchMemory in_a_file =
      search_memory(work, {.pp = 8, .micro_batch = 2, .offload = true}, 16, cluster);
  EXPECT_NEAR(in_a_file.activations, tokens * kept * (2 + 1), 1);
  const SearchMemory v = search_memory(
      work, {.pp = 8, .schedule = PipelineSchedule::kZbV, .chunks = 2, .micro_batch = 2}, 16, cluster);
  EXPECT_NEAR(v.weights - one.weights, 2 * 128256.0 * 4096, 1e6) << "embedding and head";
}

TEST(SearchMemory, InFlight) {
  EXPECT_EQ(in_flight({.pp = 4}, 16), 4);
  EXPECT_EQ(in_flight({.pp = 4}, 2), 2);
  EXPECT_EQ(in_flight({.pp = 4, .schedule = PipelineSchedule::kGpipe}, 16), 16);
  EXPECT_DOUBLE_EQ(in_flight({.pp = 4, .schedule = PipelineSchedule::kInterleaved, .chunks = 3}, 16),
                   4 * (1 + 3.0 / 12));
  EXPECT_EQ(in_flight({.pp = 4, .schedule = PipelineSchedule::kDualPipe, .chunks = 2}, 16), 5);
}

// Of eight ranks with four layers each, one micro-batch at a time: so many recomputed layers keep less.
TEST(SearchMemory, SomeLayersAreRecomputed) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  const Work work = work_of(model, 4096);
  const Cluster cluster = planner_a100(8);
  const double whole = work.kept_of(recipe::Recompute::kNone, 1),
               less = work.kept_of(recipe::Recompute::kFull, 1);
  const auto activations = [&](int64_t layers, PipelineSchedule schedule, int64_t chunks) {
    return search_memory(work,
                         {.pp = 8,
                          .schedule = schedule,
                          .chunks = chunks,
                          .recompute = recipe::Recompute::kFull,
                          .recompute_layers = layers},
                         8, cluster)
               .activations /
           4096;
  };
  EXPECT_NEAR(activations(0, PipelineSchedule::k1F1B, 1), 8 * 4 * less + whole, 1);
  EXPECT_NEAR(activations(3, PipelineSchedule::k1F1B, 1), 8 * (3 * less + whole) + whole, 1);
  EXPECT_NEAR(activations(1, PipelineSchedule::kZbV, 2), 8 * (2 * less + 2 * whole) + whole, 1)
      << "one of each of its two stages";
  const auto seconds = [&](int64_t layers) {
    return step_parts(work, {.pp = 8, .recompute = recipe::Recompute::kFull, .recompute_layers = layers}, 8,
                      cluster, {})
        .recomputation;
  };
  EXPECT_NEAR(seconds(3) / seconds(0), 3.0 / 4, 1e-12);
  EXPECT_EQ(seconds(7), seconds(0)) << "no more than there are";
}

// 34·s·b·h/t bytes a layer (arXiv 2205.05198) is of a GPT with dropout masks, 2 · s·b·h of them; ours has
// none and keeps its norms' statistics.
TEST(SearchMemory, ActivationsNearThePublishedFormula) {
  const Work work = planner_gpt_175b();
  const double published = 34 * 12288.0;
  EXPECT_NEAR(work.kept_bytes / published, 1, 0.15);
}

TEST(Goodput, PublishedFailureRates) {
  Cluster cluster = planner_a100(16384);
  cluster.failures_per_node_day = 6.5e-3;
  EXPECT_NEAR(mean_to_failure_s(cluster) / 3600, 1.80, 0.005);
  cluster.gpus = 131072;
  EXPECT_NEAR(mean_to_failure_s(cluster) / 3600, 0.225, 0.0005);
}

// Failures drawn one by one.
TEST(Goodput, AgreesWithFailuresThatAreDrawn) {
  const double mean = 6487, interval = 360, checkpoint = 10, restart = 900;
  std::mt19937_64 generator(1);
  std::exponential_distribution<double> failure(1 / mean);
  double time = 0, useful = 0, left = failure(generator);
  for (int64_t done = 0; done < 200'000; ++done) {
    while (left < interval + checkpoint) {
      time += left + restart;
      left = failure(generator);
    }
    left -= interval + checkpoint;
    time += interval + checkpoint;
    useful += interval;
  }
  EXPECT_NEAR(effective_share(mean, interval, checkpoint, restart) / (useful / time), 1, 0.02);
}

// The rows that constants were fitted on give these constants again; no held-out row has a part in them.
TEST(Calibration, OfThePublishedRowsGivesTheConstantsInUse) {
  for (const char* device : {"a100", "h100"}) {
    const auto rows = published_rows(RowUse::kConstants, device);
    ASSERT_GE(rows.size(), 4u);
    const Efficiency used = efficiency_of(accelerator(device)), fit = fitted(rows, used.attention);
    EXPECT_NEAR(fit.products, used.products, 1e-9) << device;
    EXPECT_NEAR(fit.memory, used.memory, 1e-9) << device;
    EXPECT_NEAR(fit.layer_s, used.layer_s, 1e-9) << device;
    EXPECT_NEAR(fit.stop_s, used.stop_s, 1e-9) << device;
  }
}

TEST(Calibration, OfAClustersBaselineGivesItsReach) {
  const auto rows = published_rows(RowUse::kReach, "a100");
  ASSERT_EQ(rows.size(), 8u);
  for (const PublishedRow& row : rows) {
    EXPECT_EQ(row.family, "MegaScale: Megatron-LM");
    EXPECT_EQ(row.reach, fitted_reach(rows));
  }
  for (const PublishedRow& row : published_rows())
    EXPECT_EQ(row.reach, row.family.starts_with("MegaScale") ? rows[0].reach : 1) << row.name;
}

// A run whose median step took 3 s is predicted to take 3 s.
TEST(Calibration, OfARun) {
  const TemporaryFolder folder;
  write_text_atomically(folder.path() / "recipe.toml",
                        "version = 1\n[model]\nlayers = 4\nhidden = 256\nheads = 4\nkv_heads = 4\nhead_dim = "
                        "64\nvocabulary = 8192\nintermediate = 512\n"
                        "[train]\nbatch = 8\nmicro_batch = 4\nsequence = 128\n");
  std::string events;
  int64_t number = 0;
  for (const double milliseconds : {9000.0, 3000.0, 1000.0}) {
    events +=
        observe::to_json({.common = {.run = "r"},
                          .body = observe::StepReport{.step = ++number, .milliseconds = milliseconds}}) +
        "\n";
  }
  write_text_atomically(folder.path() / "events.jsonl", events);
  Cluster cluster = planner_a100(1);
  cluster.efficiency = calibrated(folder.path(), cluster);
  const recipe::Recipe recipe = recipe::load(folder.path() / "recipe.toml").recipe;
  const PlanLayout layout = layout_of_recipe(recipe);
  EXPECT_EQ(layout.micro_batches(recipe.train.batch), 2);
  // The factor does not change what the table of hardware says of the update.
  EXPECT_NEAR(step_parts(work_of(recipe.model, 128), layout, 8, cluster, default_practice(layout)).total(), 3,
              1e-6);
}

// Of 64 sequences over 8 devices two nodes' worth of rows go away, in parts: SimAI's table at its places.
TEST(Exchanges, AllToAllIsTheTableAtItsPlaces) {
  EXPECT_DOUBLE_EQ(all_to_all_share(1 << 24, 1), 0.44);
  EXPECT_DOUBLE_EQ(all_to_all_share(1 << 30, 4), 0.94);
  EXPECT_NEAR(all_to_all_share(1 << 27, 2), (0.52 + 0.81) / 2, 1e-12) << "half way in logarithms";
  const double latency = (1 << 24) / 0.52 - (1 << 24);
  EXPECT_NEAR(1e6 / all_to_all_share(1e6, 2) - 1e6, latency, 1e-6);
}

// Of a model of twelve layers whose tokens go to two of eight experts, over links without latency that every
// size fills.
double expert_exchange(int64_t ep, int64_t etp,
                       recipe::Dispatcher dispatcher = recipe::Dispatcher::kAllToAll) {
  recipe::ModelConfig model = recipe::preset_model("gpt2-124m");
  model.experts = 8;
  model.experts_per_token = 2;
  Cluster cluster = planner_a100(8);
  cluster.efficiency.by_size = false;
  cluster.efficiency.message_s = 0;
  return step_parts(work_of(model, 1024), {.dp = 8, .ep = ep, .etp = etp, .dispatcher = dispatcher}, 8,
                    cluster, {})
      .expert_exchange;
}
// Bytes of states of minimax-text-01 over eight context ranks: 70 of 80 layers have 64 heads of 128 · 128,
// and fp32 is sent; a tensor rank has an eighth of the heads.
TEST(Exchanges, StatesAreOfTheRecipesMethod) {
  const Work work = work_of(recipe::preset_model("minimax-text-01"), 65536);
  const double state = 70.0 / 80 * 64 * 128 * 128 * 4 / 8;
  using enum recipe::LinearContextMethod;
  const auto sent = [&](recipe::LinearContextMethod method, recipe::ContextSplit split) {
    return exchanged_state_bytes(work, {.tp = 8, .cp = 8, .context = {.linear = method, .split = split}});
  };
  EXPECT_NEAR(sent(kAllGather, recipe::ContextSplit::kZigzag), 14 * state, 1e-3);
  EXPECT_NEAR(sent(kAllGather, recipe::ContextSplit::kContiguous), 7 * state, 1e-3);
  EXPECT_NEAR(sent(kRing, recipe::ContextSplit::kContiguous), state, 1e-3);
  EXPECT_NEAR(sent(kAllScan, recipe::ContextSplit::kZigzag), 2 * state, 1e-3);
  Cluster cluster = planner_a100(64);
  cluster.efficiency.message_s = 0;
  const auto seconds = [&](recipe::LinearContextMethod method) {
    const recipe::ContextOptions context{.linear = method, .split = recipe::ContextSplit::kContiguous};
    return step_parts(work, {.tp = 8, .cp = 8, .context = context}, 1, cluster, {}).context_exchange;
  };
  EXPECT_NEAR(seconds(kRing), seconds(kAllGather), 1e-12) << "the last rank waits for seven, one by one";
  EXPECT_NEAR((seconds(kRing) - seconds(kAllScan)) / (3 * 80 * state / ring_rate(cluster, 8, 8)),
              7 - (1 + 6.0 / 4), 1e-6);
}

constexpr double kTokenSeconds =
    // each token once: 12 layers, to and fro, both passes, two bytes a channel
    12 * 2 * 2 * 2 * 1024 * 768.0 / 240e9;

// Rows to experts over ep, and each of them whole on every rank of etp (parallel/experts/expert_dispatch.h).
TEST(Exchanges, OfExpertsThatTensorRanksShare) {
  EXPECT_NEAR(expert_exchange(4, 1), kTokenSeconds * 2 * 3 / 4, 1e-12) << "two rows of each token";
  EXPECT_NEAR(expert_exchange(1, 4), kTokenSeconds * 2 * 3, 1e-12);
  EXPECT_NEAR(expert_exchange(4, 2), kTokenSeconds * 2 * (3.0 / 4 + 1), 1e-12);
}

// All tokens to all ranks; or each to those that have any of its two of eight experts: of 28 pairs 13 have
// one or both of two given ones.
TEST(Exchanges, OfTheOtherDispatchers) {
  using enum recipe::Dispatcher;
  EXPECT_NEAR(expert_exchange(4, 1, kAllGather), kTokenSeconds * 3, 1e-12);
  EXPECT_NEAR(expert_exchange(4, 2, kAllGather), kTokenSeconds * 7, 1e-12);
  EXPECT_NEAR(expert_exchange(4, 1, kFlex), kTokenSeconds * 3 * 13 / 28, 1e-12);
  EXPECT_NEAR(expert_exchange(4, 2, kFlex), kTokenSeconds * 7 * 13 / 28, 1e-12);
  EXPECT_NEAR(expert_exchange(1, 4, kFlex), kTokenSeconds * 3, 1e-12)
      << "every rank has a part of every expert";
  EXPECT_LT(expert_exchange(4, 1, kFlex), expert_exchange(4, 1));
}

// One thing changed: each change can be, is what it says and is not the plan itself; the fastest plan of a
// search has no better neighbour that fits.
TEST(NextChanges, AreNeighbours) {
  const Work work = planner_gpt_175b();
  const Cluster cluster = planner_a100(1024);
  const SearchResult found = search(work, cluster, {.batch = 1536});
  ASSERT_FALSE(found.best.empty());
  const PlanCandidate& best = found.best.front();
  std::set<std::string> said;
  for (const Change& change : next_changes(work, best, cluster, 1536)) {
    EXPECT_TRUE(said.insert(change.what).second) << change.what;
    EXPECT_EQ(change.fits, change.candidate.memory.total() <= cluster.device.memory_bytes) << change.what;
    if (change.of != Change::Of::kLayout) continue;
    EXPECT_NE(change.candidate.layout, best.layout) << change.what;
    EXPECT_EQ(change.candidate.layout.world(), 1024) << change.what;
    EXPECT_EQ(1536 % (change.candidate.layout.dp * change.candidate.layout.micro_batch), 0) << change.what;
  }
  EXPECT_GT(said.size(), 12u);
  const auto best_neighbour = [&](const PlanCandidate& plan) {
    double least = plan.seconds;
    for (const Change& change : next_changes(work, plan, cluster, 1536)) {
      if (change.of == Change::Of::kLayout && change.fits) least = std::min(least, change.candidate.seconds);
    }
    return least;
  };
  PlanLayout poor = best.layout;
  poor.zero = 0, poor.recompute = recipe::Recompute::kFull;
  const PlanCandidate slow = evaluate(work, poor, cluster, 1536);
  EXPECT_LT(best_neighbour(slow), slow.seconds) << "less recomputation, or shares of the update";
}

// Twelve heads go over four tensor ranks and not over eight.
TEST(NextChanges, DealOutHeads) {
  const Work work = work_of(recipe::preset_model("gpt2-124m"), 1024);
  const Cluster cluster = planner_a100(16);
  int64_t layouts = 0;
  for (const Change& change :
       next_changes(work, evaluate(work, {.dp = 4, .tp = 4}, cluster, 64), cluster, 64)) {
    layouts += change.of == Change::Of::kLayout ? 1 : 0;
    EXPECT_EQ(12 % change.candidate.layout.tp, 0) << change.what;
    EXPECT_LE(change.candidate.layout.cp, 2) << "512 tokens of a sequence at least";
  }
  EXPECT_GT(layouts, 5);
}

TEST(NextChanges, OfTheBatchAndTheCluster) {
  const Work work = planner_gpt_175b();
  const Cluster cluster = planner_a100(1024);
  const PlanCandidate plan = evaluate(work, {.dp = 16, .tp = 8, .pp = 8}, cluster, 256);
  int64_t batches = 0, clusters = 0;
  for (const Change& change : next_changes(work, plan, cluster, 256)) {
    if (change.of == Change::Of::kBatch) {
      ++batches;
      EXPECT_EQ(change.candidate.seconds, evaluate(work, plan.layout, cluster, 512).seconds);
      EXPECT_EQ(change.candidate.layout, plan.layout);
    }
    if (change.of != Change::Of::kCluster) continue;
    ++clusters;
    EXPECT_LT(change.candidate.seconds, plan.seconds + 1e-12) << change.what;
  }
  EXPECT_EQ(batches, 1);
  EXPECT_EQ(clusters, 4);
}

TEST(Calibration, AFactorIsOfEveryPart) {
  const Efficiency one{.products = 0.4,
                       .memory = 0.2,
                       .layer_s = 8,
                       .source = "",
                       .message_s = 6,
                       .attention = 0.3,
                       .recurrence = 0.1,
                       .step_s = 4,
                       .stop_s = 2};
  const Efficiency two = scaled(one, 2);
  EXPECT_EQ(two.products, 0.8);
  EXPECT_EQ(two.memory, 0.4);
  EXPECT_EQ(two.attention, 0.6);
  EXPECT_EQ(two.recurrence, 0.2);
  EXPECT_EQ(two.layer_s, 4);
  EXPECT_EQ(two.message_s, 3);
  EXPECT_EQ(two.step_s, 2);
  EXPECT_EQ(two.stop_s, 1);
}

TEST(Clusters, FilesAndTheirRefusals) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "mine.toml").string();
  const auto message = [&](const std::string& text) -> std::string {
    write_text_atomically(path, text);
    try {
      load_cluster(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(
      message("version = 1\naccelerator = \"h100\"\ngpus = 16\nmemory_gb = 94.5\nprice_per_gpu_hour = 2\n"),
      "");
  const Cluster cluster = load_cluster(path, 32);
  EXPECT_EQ(cluster.gpus, 32);
  EXPECT_EQ(cluster.device.memory_bytes, 94.5e9);
  EXPECT_EQ(cluster.price_per_gpu_hour, 2);
  EXPECT_EQ(cluster.device.bf16_flops, 989.5e12);
  EXPECT_THAT(message("accelerator = \"h100\"\nmemory_gb = -1\n"),
              ::testing::AllOf(HasSubstr("memory_gb"), HasSubstr("GB from"), HasSubstr("mine.toml:2")));
  EXPECT_THAT(message("accelerator = \"h100\"\nmemory = 1\n"), HasSubstr("no such option"));
  EXPECT_THAT(message("accelerator = \"h100\"\nproduct_efficiency = 1.5\n"), HasSubstr("from 0.01 to 1"));
  EXPECT_EQ(
      message(
          "accelerator = \"h100\"\ngpus = 16\ngpus_per_node = 4\nhost_gb_per_s = 30\nfile_gb_per_s = 5\n"),
      "");
  const Cluster disks = load_cluster(path);
  EXPECT_EQ(disks.device.node, 4);
  EXPECT_EQ(disks.nodes(), 4);
  EXPECT_EQ(disks.host_rate, 30e9);
  EXPECT_EQ(disks.file_rate, 5e9);
  EXPECT_THAT(message("gpus = 1\n"), HasSubstr("accelerator = \"h100\""));
  EXPECT_THAT(message("accelerator = \"h1000\"\n"), HasSubstr("no such accelerator"));
}

}  // namespace
}  // namespace longhaul::plan
