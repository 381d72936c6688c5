// The formulas beside a reference model that was worked out on paper (specs docs/sources/planner.md §8, 23
// published steps with their errors to a tenth of a percent), and memory beside Korthikanti's figures. It
// tests the implementation; published_test.cpp has how far plans can be trusted.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/memory/search_memory.h"
#include "plan/published/published_build.h"

namespace longhaul::plan {
namespace {

using recipe::Recompute;

struct Seed {
  std::string name;
  int64_t layers, hidden, heads, vocabulary, gpus, pp, chunks, micro_batch, batch;
  Recompute recompute;
  double seconds, error;  // published; of the reference model, percent
};

std::vector<Seed> seeds() {
  std::vector<Seed> all;
  struct Pair {
    int64_t layers, hidden, heads, gpus, pp, chunks, micro_batch, batch;
    double full, selective, full_error, selective_error;
  };
  for (const Pair& r : {Pair{48, 6144, 64, 8, 1, 1, 4, 4, 1.42, 1.10, 0.0, 3.0},
                        Pair{96, 12288, 96, 64, 8, 3, 1, 64, 18.13, 13.75, -0.3, 1.7},
                        Pair{105, 20480, 128, 280, 35, 3, 1, 280, 49.05, 37.83, 2.6, 2.9},
                        Pair{128, 25600, 160, 512, 64, 1, 1, 512, 94.42, 71.49, 5.6, 7.6}}) {
    all.push_back({"Korthikanti, full", r.layers, r.hidden, r.heads, 51200, r.gpus, r.pp, r.chunks,
                   r.micro_batch, r.batch, Recompute::kFull, r.full, r.full_error});
    all.push_back({"Korthikanti, selective", r.layers, r.hidden, r.heads, 51200, r.gpus, r.pp, r.chunks,
                   r.micro_batch, r.batch, Recompute::kSelective, r.selective, r.selective_error});
  }
  struct Row {
    int64_t heads, hidden, layers, pp, gpus, batch, micro_batch;
    double seconds, error;
  };
  for (const Row& r :
       {Row{48, 6144, 40, 1, 256, 1024, 4, 9.40, 0.2}, Row{64, 8192, 48, 2, 512, 1536, 4, 14.45, -0.2},
        Row{80, 10240, 60, 4, 1024, 1792, 2, 16.06, -1.9}, Row{96, 12288, 80, 8, 1536, 2304, 2, 24.82, 1.6},
        Row{128, 16384, 96, 16, 1920, 2160, 1, 37.61, -2.6},
        Row{128, 20480, 105, 35, 2520, 2520, 1, 54.08, -0.3},
        Row{160, 25600, 128, 64, 3072, 3072, 1, 102.63, -2.4}}) {
    all.push_back({"Narayanan", r.layers, r.hidden, r.heads, 51200, r.gpus, r.pp, 1, r.micro_batch, r.batch,
                   Recompute::kFull, r.seconds, r.error});
  }
  struct Scale {
    int64_t batch, gpus;
    double seconds, error;
  };
  for (const Scale& r :
       {Scale{768, 256, 40.0, 8.5}, Scale{768, 512, 21.2, 4.7}, Scale{768, 768, 15.2, -0.5},
        Scale{768, 1024, 11.9, -2.7}, Scale{6144, 3072, 29.02, 1.2}, Scale{6144, 6144, 14.78, 2.7},
        Scale{6144, 8192, 12.24, -5.0}, Scale{6144, 12288, 8.57, -5.8}}) {
    all.push_back({"MegaScale's baseline", 96, 12288, 128, 64000, r.gpus, 8, 6, 1, r.batch,
                   Recompute::kSelective, r.seconds, r.error});
  }
  return all;
}

// With the constants of §8: 0.72 of the peak, half of the memory's rate, 100 µs a layer, links at their whole
// rate. Its update is of sixteen bytes, cut over eight at most.
double reference_seconds(const Seed& seed) {
  PublishedBuild build;  // operators neither joined nor causal, and scores that are kept
  PublishedRow& row = build.add(
      "", seed.name, "", published_gpt(seed.layers, seed.hidden, seed.heads, seed.vocabulary), 2048, "a100",
      published_layout(seed.gpus, 8, seed.pp, seed.chunks, seed.micro_batch, seed.recompute), seed.batch);
  row.layout.zero = 1;
  row.cluster.efficiency = {
      .products = 0.72, .memory = 0.5, .layer_s = 100e-6, .source = "", .by_size = false};
  row.practice.loss_bytes = 0;
  const StepParts parts = step_parts(row.work, row.layout, seed.batch, row.cluster, row.practice);
  const auto real = [](int64_t x) { return static_cast<double>(x); };
  const double parameters =
      12 * real(seed.layers) / real(seed.pp) * real(seed.hidden) * real(seed.hidden) / 8 +
      real(seed.vocabulary * seed.hidden) / 8;
  const double update = 16 * parameters / (0.8 * 2039e9 * std::min(8.0, real(row.layout.dp)));
  return parts.total() - parts.update + update;
}

TEST(ReferenceModel, TwentyThreeRowsToATenthOfAPercent) {
  const std::vector<Seed> all = seeds();
  ASSERT_EQ(all.size(), 23u);
  for (const Seed& seed : all)
    EXPECT_NEAR(100 * (reference_seconds(seed) / seed.seconds - 1), seed.error, 0.1)
        << seed.name << ", " << seed.gpus << " GPUs";
}

// Ranks in a ring: in each of n − 1 turns every one sends a piece on and waits for its neighbour's; a turn
// begins when both are done with the last one.
double simulated_ring(int64_t ranks, double bytes, double rate, double latency) {
  const auto n = static_cast<size_t>(ranks);
  std::vector<double> ready(n, 0);
  for (size_t turn = 1; turn < n; ++turn) {
    std::vector<double> arrived(n);
    for (size_t r = 0; r < n; ++r)
      arrived[(r + 1) % n] =
          std::max(ready[r], ready[(r + 1) % n]) + latency + bytes / static_cast<double>(n) / rate;
    ready = arrived;
  }
  return *std::ranges::max_element(ready);
}

// Keys and values over context ranks are gathered by such a ring, in the forward pass and twice in the
// backward pass.
TEST(ReferenceModel, RingsOfChunks) {
  recipe::ModelConfig model = published_gpt(1, 1024, 8, 4096);
  const Work work = work_of(model, 4096);
  Cluster cluster = load_cluster("a100", 8);
  cluster.efficiency.by_size = false;
  for (const int64_t cp : {2, 4, 8}) {
    const double bytes = 4096 * 2 * 2 * 1024.0;  // keys and values of all tokens, bf16
    const double once = simulated_ring(cp, bytes, cluster.device.link_rate, cluster.efficiency.message_s);
    EXPECT_NEAR(step_parts(work, {.cp = cp}, 1, cluster, {}).context_exchange, 3 * once, 1e-12) << cp;
  }
  // sums of gradients: the latency is in SimAI's tables, so none beside them
  for (const int64_t dp : {2, 8}) {
    const StepParts parts = step_parts(work, {.dp = dp, .zero = 1}, 8, cluster, {});
    const double parameters = work.dense_parameters + work.embedding_parameters + work.head_parameters;
    EXPECT_NEAR(parts.gradients, simulated_ring(dp, 6 * parameters, cluster.device.link_rate, 0), 1e-12)
        << dp;
  }
}

// GiB a device of arXiv 2205.05198, figure 1: parameters with the optimizer's state; activations with
// sequence parallelism and selective recomputation.
struct MemoryRow {
  int64_t layers, hidden, heads, gpus, pp, chunks, micro_batch, batch;
  double state, activations;
};
constexpr MemoryRow kMemoryRows[] = {{48, 6144, 64, 8, 1, 1, 4, 4, 45.56, 9.56},
                                     {96, 12288, 96, 64, 8, 3, 1, 64, 45.56, 12.35},
                                     {105, 20480, 128, 280, 35, 3, 1, 280, 31.64, 23.08},
                                     {128, 25600, 160, 512, 64, 1, 1, 512, 32.96, 26.56}};

TEST(ReferenceModel, MemoryOfKorthikanti) {
  constexpr double kGib = 1 << 30;
  for (const MemoryRow& r : kMemoryRows) {
    const Work work = work_of(published_gpt(r.layers, r.hidden, r.heads, 51200), 2048);
    const PlanLayout layout = published_layout(r.gpus, 8, r.pp, r.chunks, r.micro_batch, Recompute::kNone);
    PlanLayout whole = layout;
    whole.zero = 0;
    const SearchMemory memory = search_memory(work, whole, r.batch, load_cluster("a100", r.gpus));
    const double embedding = 18 * 51200.0 * static_cast<double>(r.hidden) / 8;  // which they leave out
    EXPECT_NEAR((memory.weights + memory.gradients + memory.optimizer - embedding) / kGib / r.state, 1, 0.005)
        << r.layers;
    // Their 34 bytes of a token and channel, over as many layers and micro-batches as wait here.
    const double waiting = layers_of_rank(work, layout) * in_flight(layout, layout.micro_batches(r.batch));
    const double tokens = 2048.0 * static_cast<double>(r.micro_batch);
    EXPECT_NEAR(34 * tokens * static_cast<double>(r.hidden) / 8 * waiting / kGib, r.activations, 0.01)
        << r.layers;
    // Of ours the layer that is whole while its gradients are made stands beside them, and no mask of dropout
    // (2 of the 34 bytes).
    const double kept = tokens * work.kept_of(Recompute::kNone, 8);
    EXPECT_NEAR(memory.activations, kept * (waiting + 1), 1) << r.layers;
    EXPECT_NEAR(kept * waiting / kGib / r.activations, 32.0 / 34, 0.03) << r.layers;
  }
}

}  // namespace
}  // namespace longhaul::plan
