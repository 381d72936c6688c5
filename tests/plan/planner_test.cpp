// The planner's formulas against sums by hand, published identities, the event engine, and the exact state of a mesh's rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "observe/event.h"
#include "plan/calibration.h"
#include "plan/goodput.h"
#include "plan/plan_report.h"
#include "plan/rank_state.h"
#include "plan/simulated.h"
#include "recipe/load.h"
#include "recipe/presets.h"

namespace longhaul::plan {
namespace {

using recipe::PipelineSchedule;
using ::testing::HasSubstr;

Cluster a100(int64_t gpus) { return load_cluster("a100", gpus); }
Work gpt_175b() { return work_of(recipe::preset_model("megascale-175b"), 2048); }

// Equation 3 of arXiv 2104.04473: 72·B·s·l·h²(1 + s/6h + V/12lh). Biases, norms and positions are in no product.
TEST(Work, ProductsOfAGpt) {
  const Work work = gpt_175b();
  const double h = 12288, s = 2048, l = 96, v = 64000;
  EXPECT_NEAR(work.flops.full() / (72 * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))), 1, 1e-9);
  EXPECT_NEAR(work.dense_products, 12 * h * h, 1);
  EXPECT_EQ(work.attention_channels, h);
  EXPECT_EQ(work.key_value_channels, 2 * h);
  EXPECT_EQ(work.head_rows, v * h);
}

// Parts of a layer by hand, as the reference model of specs planner.md §8 has them.
TEST(StepTime, OfOneLayerByHand) {
  const Work work = gpt_175b();
  Cluster cluster = a100(64);
  cluster.efficiency = {.products = 0.72, .memory = 0.5, .layer_s = 100e-6, .source = "", .by_size = false};
  const PlanLayout layout{
      .dp = 1, .tp = 8, .pp = 8, .schedule = PipelineSchedule::kInterleaved, .chunks = 6, .recompute = recipe::Recompute::kSelective};
  const Practice practice{.fused = false, .flash = false, .causal = false, .loss_bytes = 0};
  const StepParts parts = step_parts(work, layout, 16, cluster, practice);
  const double tok = 2048, h = 12288, pk = 312e12 * 0.72, memory = 2039e9 * 0.5, layers = 12, m = 16;
  const double gemm = 24 * tok * h * h / 8 / pk, attention = 4 * tok * 2048 * h / 8 / pk, elementwise = 40 * tok * h / 8 / memory;
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
              parts.products + parts.attention + parts.elementwise + parts.tensor_exchange + parts.recomputation + parts.layer_overhead,
              1e-9)
      << "passes hold the same time as the parts";
  EXPECT_NEAR(parts.bubble, 7 * (stage + 2 * transfer) / 6, 1e-9);
  EXPECT_EQ(parts.gradients, 0) << "one replica sums with nobody";
}

TEST(StepTime, SumsAndMonotonies) {
  const Work work = gpt_175b();
  const PlanLayout layout{.dp = 16, .tp = 8, .pp = 8, .chunks = 1};
  const Cluster cluster = a100(1024);
  const StepParts parts = step_parts(work, layout, 768, cluster, default_practice(layout));
  double sum = 0;
  for (const auto& [name, seconds] : parts.rows()) {
    EXPECT_GE(seconds, 0) << name;
    sum += seconds;
  }
  EXPECT_DOUBLE_EQ(sum, parts.total());
  for (double Accelerator::*rate : {&Accelerator::bf16_flops, &Accelerator::memory_rate, &Accelerator::link_rate, &Accelerator::nic_rate}) {
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
  for (const double bytes : {1e3, 1e6, 1e7}) EXPECT_NEAR(bytes / link_share(bytes) - bytes, latency, 1e-6) << bytes;
}

// Neighbours of a group that share a node share its network cards: of tensor ranks by 2 four of a group do, of 8 one.
TEST(StepTime, SumsOverNodesUseTheCardsOfAllMembersOfANode) {
  const Work work = gpt_175b();
  Cluster cluster = a100(64);
  cluster.efficiency.by_size = false;
  const auto parameters = [&](int64_t tp) { return (96 * work.dense_parameters + work.embedding_parameters) / static_cast<double>(tp); };
  for (const auto& [tp, cards] : {std::pair<int64_t, double>{1, 8}, {2, 4}, {4, 2}, {8, 1}}) {
    const PlanLayout layout{.dp = 64 / tp, .tp = tp};
    const double share = 1 - 1 / static_cast<double>(layout.dp);
    EXPECT_NEAR(step_parts(work, layout, 64, cluster, {}).gradients, 6 * parameters(tp) * share / (cards * 23.5e9), 1e-6) << tp;
    PlanLayout whole = layout;
    whole.zero = 0;
    EXPECT_NEAR(step_parts(work, whole, 64, cluster, {}).gradients, 8 * parameters(tp) * share / (cards * 23.5e9), 1e-6)
        << "all gradients come back, in fp32";
  }
}

TEST(StepTime, SumsBesideThePasses) {
  const Work work = gpt_175b();
  Cluster cluster = a100(64);
  cluster.efficiency.by_size = false;
  const PlanLayout layout{.dp = 8, .tp = 8};
  const StepParts seen = step_parts(work, layout, 64, cluster, {}), beside = step_parts(work, layout, 64, cluster, {.data_beside = true});
  const double sums = seen.gradients * 4 / 6, values = seen.gradients * 2 / 6, backward = seen.backward_input + seen.backward_weight;
  EXPECT_NEAR(beside.gradients, std::max(sums / 96, sums - backward) + std::max(values / 96, values - seen.forward), 1e-9);
  EXPECT_GT(beside.gradients, 0);
}

TEST(StepTime, WhatTensorRanksDoAllOfWithoutSequenceParallelism) {
  const Work work = gpt_175b();
  const Cluster cluster = a100(8);
  const double rate = cluster.device.memory_rate * cluster.efficiency.memory, tokens = 2048, h = 12288;
  const auto elementwise = [&](const Practice& practice) { return step_parts(work, {.tp = 8}, 1, cluster, practice).elementwise; };
  EXPECT_NEAR(elementwise({}), 2.6 * 96 * tokens * (10 * h + 16 * h) / 8 / rate, 1e-9);
  EXPECT_NEAR(elementwise({.sequence_parallel = false}), 2.6 * 96 * tokens * (10 * h + 16 * h / 8) / rate, 1e-9);
}

// A recurrence, attention and a step have constants of their own where a machine was measured.
TEST(StepTime, ConstantsOfTheirOwn) {
  recipe::ModelConfig model = recipe::preset_model("gpt2-124m");
  const Work work = work_of(model, 1024);
  Cluster cluster = a100(1);
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

// Of Qwen2-57B-A14B: 8 of 64 experts of 2,560 and a shared one of 20,480, two numbers in and one out of two bytes; rows go to experts and back.
TEST(Work, ElementsOfExperts) {
  for (const PublishedRow& row : published_rows()) {
    if (!row.name.starts_with("Qwen2")) continue;
    EXPECT_NEAR(row.work.activation_bytes, 6 * (8 * 2560 + 20480), 1e-6);
    EXPECT_NEAR(row.work.dispatch_bytes, 4 * 9 * 3584, 1e-6);
    const double active = 28 * (3.0 * 3584 * (8 * 2560 + 20480) + 2 * 3584 * 3584 + 2 * 3584 * 512) + 2.0 * 3584 * 151936;
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
                        Case{PipelineSchedule::kInterleaved, 2, 2, 6}, Case{PipelineSchedule::kZbH1, 4, 1, 8}}) {
    const PlanLayout layout{.pp = c.pp, .schedule = c.schedule, .chunks = c.chunks};
    StepParts parts;
    parts.forward = 1.0;
    parts.backward_input = parts.backward_weight = c.schedule == PipelineSchedule::kZbH1 ? 1.0 : 1.25;
    const double ideal = static_cast<double>(c.m) * (parts.forward + parts.backward_input + parts.backward_weight);
    const auto timeline = simulated(layout, c.m, parts);
    ASSERT_TRUE(timeline);
    EXPECT_NEAR(timeline->makespan, ideal + bubble_seconds(layout, c.m, parts), 1e-9)
        << recipe::names_of(c.schedule)[static_cast<size_t>(c.schedule)] << " pp " << c.pp << " m " << c.m;
    for (const double busy : timeline->busy) EXPECT_NEAR(busy, ideal, 1e-9);
  }
}

TEST(Engines, RefuseListsThatAreTooLong) {
  EXPECT_FALSE(simulated({.pp = 64}, 1024, {}));
  EXPECT_FALSE(simulated({.pp = 1}, 8, {}));
}

// The exact state of the fullest rank, counted tensor by tensor.
TEST(RankMemory, AgreesWithTheStateOfAMesh) {
  recipe::ModelConfig model = recipe::preset_model("llama-3-8b");
  model.tie_embeddings = false;
  const Work work = work_of(model, 4096);
  for (const auto& [zero, copies] : {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {2, 1}, {3, 1}, {1, 2}, {3, 2}, {3, 4}}) {
    const PlanLayout layout{.dp = 4, .tp = 2, .pp = 2, .zero = zero, .zero_copies = copies};
    const RankMemory memory = rank_memory(work, layout, 64, a100(16));
    const layout::Mesh mesh(16, {.pp = 2, .tp = 2, .copies = copies});
    double exact = 0;
    for (int64_t rank = 0; rank < 16; ++rank) {
      const RankState state = rank_state(model, recipe::Dtype::kBf16, {}, {.mesh = mesh, .rank = rank, .zero = zero});
      exact = std::max(exact, state.weights + state.gradients + state.optimizer + state.passing_weights + state.passing_gradients);
    }
    EXPECT_NEAR((memory.weights + memory.gradients + memory.optimizer) / exact, 1, 0.05) << "zero " << zero << ", copies " << copies;
  }
}

TEST(RankMemory, InFlight) {
  EXPECT_EQ(in_flight({.pp = 4}, 16), 4);
  EXPECT_EQ(in_flight({.pp = 4}, 2), 2);
  EXPECT_EQ(in_flight({.pp = 4, .schedule = PipelineSchedule::kGpipe}, 16), 16);
  EXPECT_DOUBLE_EQ(in_flight({.pp = 4, .schedule = PipelineSchedule::kInterleaved, .chunks = 3}, 16), 4 * (1 + 3.0 / 12));
}

// 34·s·b·h/t bytes a layer (arXiv 2205.05198) is of a GPT with dropout masks, 2 · s·b·h of them; ours has none and keeps its norms' statistics.
TEST(RankMemory, ActivationsNearThePublishedFormula) {
  const Work work = gpt_175b();
  const double published = 34 * 12288.0;
  EXPECT_NEAR(work.kept_bytes / published, 1, 0.15);
}

TEST(Search, TenThousandDevicesInASecond) {
  const Work work = gpt_175b();
  const SearchResult found = search(work, a100(10240), {.batch = 5120});
  ASSERT_FALSE(found.best.empty());
  EXPECT_LT(found.seconds, 5) << "one second on a quiet machine; this one may be busy";
  double before = 0;
  for (const PlanCandidate& plan : found.best) {
    EXPECT_EQ(plan.layout.world(), 10240);
    EXPECT_LE(plan.memory.total(), 80e9);
    EXPECT_GE(plan.seconds, before);
    before = plan.seconds;
    const PlanCandidate again = evaluate(work, plan.layout, a100(10240), 5120);
    EXPECT_DOUBLE_EQ(again.seconds, plan.seconds);
  }
  std::set<std::string> reasons;
  for (const Rejected& row : found.rejected) reasons.insert(row.reason);
  EXPECT_TRUE(reasons.contains("it does not fit into memory"));
  EXPECT_TRUE(reasons.contains("the devices cannot be dealt out"));
  EXPECT_TRUE(reasons.contains("a faster layout exists"));
}

// Every layout of a small cluster tried one by one: the search misses none that is faster.
TEST(Search, FindsTheFastest) {
  const Work work = work_of(recipe::preset_model("gpt2-124m"), 1024);
  const Cluster cluster = a100(8);
  const SearchResult found = search(work, cluster, {.batch = 64});
  ASSERT_FALSE(found.best.empty());
  for (const int64_t tp : {1, 2, 4}) {
    for (const int64_t pp : {1, 2, 4}) {
      if (8 % (tp * pp) != 0) continue;
      for (const int64_t micro_batch : {1, 2, 4, 8}) {
        const PlanLayout layout{.dp = 8 / (tp * pp), .tp = tp, .pp = pp, .zero = 0, .micro_batch = micro_batch};
        if (64 % (layout.dp * micro_batch) != 0 || rank_memory(work, layout, 64, cluster).total() > cluster.device.memory_bytes) continue;
        EXPECT_GE(evaluate(work, layout, cluster, 64).seconds, found.best.front().seconds - 1e-12) << layout.text();
      }
    }
  }
}

TEST(Goodput, PublishedFailureRates) {
  Cluster cluster = a100(16384);
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
    ASSERT_GE(rows.size(), 9u);
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
  write_text_atomically(
      folder.path() / "recipe.toml",
      "version = 1\n[model]\nlayers = 4\nhidden = 256\nheads = 4\nkv_heads = 4\nhead_dim = 64\nvocabulary = 8192\nintermediate = 512\n"
      "[train]\nbatch = 8\nmicro_batch = 4\nsequence = 128\n");
  std::string events;
  int64_t number = 0;
  for (const double milliseconds : {9000.0, 3000.0, 1000.0}) {
    events +=
        observe::to_json({.common = {.run = "r"}, .body = observe::StepReport{.step = ++number, .milliseconds = milliseconds}}) + "\n";
  }
  write_text_atomically(folder.path() / "events.jsonl", events);
  Cluster cluster = a100(1);
  cluster.efficiency = calibrated(folder.path(), cluster);
  const recipe::Recipe recipe = recipe::load(folder.path() / "recipe.toml").recipe;
  const PlanLayout layout = layout_of_recipe(recipe);
  EXPECT_EQ(layout.micro_batches(recipe.train.batch), 2);
  // The factor does not change what the table of hardware says of the update.
  EXPECT_NEAR(step_parts(work_of(recipe.model, 128), layout, 8, cluster, default_practice(layout)).total(), 3, 1e-6);
}

TEST(Published, HeldOutRowsThatPlansAreTrustedBy) {
  const Errors errors = errors_of(published_rows(RowUse::kHeldOut, "a100"));
  EXPECT_EQ(errors.rows, 23);
  EXPECT_LE(errors.mean, 0.04);
  EXPECT_LE(errors.worst, 0.10);
  const auto json = validation_json();
  EXPECT_EQ(json["rows"].size(), published_rows().size());
  for (const auto& row : json["rows"])
    EXPECT_TRUE(row.contains("name") && row.contains("published") && row.contains("predicted") && row.contains("error") &&
                row.contains("held_out"));
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
  EXPECT_EQ(message("version = 1\naccelerator = \"h100\"\ngpus = 16\nmemory_gb = 94.5\nprice_per_gpu_hour = 2\n"), "");
  const Cluster cluster = load_cluster(path, 32);
  EXPECT_EQ(cluster.gpus, 32);
  EXPECT_EQ(cluster.device.memory_bytes, 94.5e9);
  EXPECT_EQ(cluster.price_per_gpu_hour, 2);
  EXPECT_EQ(cluster.device.bf16_flops, 989.5e12);
  EXPECT_THAT(message("accelerator = \"h100\"\nmemory_gb = -1\n"),
              ::testing::AllOf(HasSubstr("memory_gb"), HasSubstr("GB from"), HasSubstr("mine.toml:2")));
  EXPECT_THAT(message("accelerator = \"h100\"\nmemory = 1\n"), HasSubstr("no such option"));
  EXPECT_THAT(message("gpus = 1\n"), HasSubstr("accelerator = \"h100\""));
  EXPECT_THAT(message("accelerator = \"h1000\"\n"), HasSubstr("no such accelerator"));
}

}  // namespace
}  // namespace longhaul::plan
