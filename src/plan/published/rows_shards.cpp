// Rows of trainings whose weights are cut over all ranks (ZeRO-3, FSDP), and the rows that Narayanan compared
// with them.
#include <fmt/format.h>

#include "plan/published/published_build.h"

namespace longhaul::plan {
namespace {

using recipe::Recompute;

// Table 2: DeepSpeed's ZeRO-3 without other parallelism, compared with Megatron-LM's own, on the same
// cluster.
void add_narayanan_shards(PublishedBuild& build) {
  struct Row {
    bool large, sharded;
    int64_t gpus, batch, micro_batch;
    double tflops;
  };
  for (const Row& r : {Row{false, true, 384, 1536, 4, 144}, Row{false, true, 768, 1536, 2, 88},
                       Row{false, true, 1536, 1536, 1, 44}, Row{true, true, 640, 2560, 4, 138},
                       Row{true, true, 1120, 2240, 2, 98}, Row{true, true, 2240, 2240, 1, 48},
                       Row{false, false, 384, 1536, 1, 153}, Row{false, false, 768, 1536, 1, 149},
                       Row{false, false, 1536, 1536, 1, 141}, Row{true, false, 560, 2240, 1, 171},
                       Row{true, false, 1120, 2240, 1, 167}, Row{true, false, 2240, 2240, 1, 159}}) {
    const int64_t layers = r.large ? 105 : 96, hidden = r.large ? 20480 : 12288;
    const auto layout = r.sharded ? published_layout(r.gpus, 1, 1, 1, r.micro_batch, Recompute::kFull)
                                  : published_layout(r.gpus, 8, r.large ? 35 : 12, 1, 1, Recompute::kFull);
    auto& row =
        build.add(r.sharded ? "Narayanan: ZeRO-3" : "Narayanan: beside ZeRO-3",
                  fmt::format("{}, {} GPUs", r.large ? "529.6B" : "174.6B", r.gpus),
                  "arXiv 2104.04473, table 2; seconds from its FLOP/s",
                  published_gpt(layers, hidden, r.large ? 128 : 96, 51200), 2048, "a100", layout, r.batch);
    row.seconds = flops_with_recomputation(layers, hidden, 51200, 2048, r.batch) /
                  (static_cast<double>(r.gpus) * r.tflops * 1e12);
    row.layout.zero = r.sharded ? 3 : 0;
    row.practice.sequence_parallel = false;
    if (r.sharded) row.in_sight = "that rings over 48 and more nodes reach one card's rate a rank";
    if (r.sharded)
      row.practice.data_beside = true, row.practice.gradient_bytes = 2,
      row.practice.layer_exposed = kLayerExposed;
    row.assumed = r.sharded ? "gathers and sums of fp16 beside passes, a layer at a time"
                            : "micro-batch 1, one stage a rank; no sequence parallelism yet";
  }
}

// The values that the tables give for a row: micro-batch, micro-batches per step, recomputation, dtype of
// sums.
void add_llm_foundry(PublishedBuild& build) {
  struct Row {
    const char *name, *device;
    int64_t layers, hidden, heads, sequence, gpus, micro_batch, rounds;
    bool recompute, pure;
    double mfu;
  };
  for (const Row& r : {Row{"70B", "h100", 80, 8192, 64, 2048, 64, 8, 4, true, false, 42.57},
                       Row{"70B", "h100", 80, 8192, 64, 2048, 32, 2, 16, true, false, 36.15},
                       Row{"30B", "h100", 48, 7168, 56, 2048, 32, 14, 3, true, false, 43.92},
                       Row{"30B", "h100", 48, 7168, 56, 2048, 16, 10, 3, true, false, 43.07},
                       Row{"30B", "h100", 48, 7168, 56, 2048, 8, 3, 21, true, false, 38.11},
                       Row{"13B", "h100", 40, 5120, 40, 2048, 64, 2, 1, false, false, 39.86},
                       Row{"13B", "h100", 40, 5120, 40, 2048, 32, 2, 1, false, false, 39.95},
                       Row{"13B", "h100", 40, 5120, 40, 2048, 16, 2, 1, false, false, 39.58},
                       Row{"13B", "h100", 40, 5120, 40, 2048, 8, 2, 1, false, false, 39.79},
                       Row{"7B", "h100", 32, 4096, 32, 2048, 8, 6, 1, false, false, 46.44},
                       Row{"7B", "h100", 32, 4096, 32, 65536, 8, 1, 2, true, false, 28.59},
                       Row{"70B", "a100", 80, 8192, 64, 2048, 64, 8, 4, true, true, 53.33},
                       Row{"70B", "a100", 80, 8192, 64, 2048, 32, 2, 16, true, true, 48.56},
                       Row{"30B", "a100", 48, 7168, 56, 2048, 8, 3, 21, true, false, 55.30},
                       Row{"13B", "a100", 40, 5120, 40, 2048, 8, 2, 3, false, false, 59.57},
                       Row{"7B", "a100", 32, 4096, 32, 2048, 8, 6, 2, false, false, 64.23},
                       Row{"7B", "a100", 32, 4096, 32, 65536, 8, 1, 2, true, false, 46.97}}) {
    const auto layout =
        published_layout(r.gpus, 1, 1, 1, r.micro_batch, r.recompute ? Recompute::kFull : Recompute::kNone);
    const bool a100 = std::string_view(r.device) == "a100";
    auto& row = build.add(a100 ? "LLM Foundry, A100" : "LLM Foundry, H100",
                          fmt::format("{}, sequences of {}, {} GPUs", r.name, r.sequence, r.gpus),
                          "github.com/mosaicml/llm-foundry, scripts/train/benchmarking",
                          published_gpt(r.layers, r.hidden, r.heads, 50368), r.sequence, r.device, layout,
                          r.gpus * r.micro_batch * r.rounds);
    row.layout.zero = 3;
    row.practice.flash = row.practice.causal = row.practice.data_beside = true;
    row.practice.layer_exposed = kLayerExposed;
    row.use = RowUse::kOverlap;
    row.practice.gradient_bytes = r.pure ? 2 : 4;
    row.practice.attention = kFirstFlashAttention;
    row.seconds = row.mfu(0.01 * r.mfu);
    row.assumed =
        "gathers and sums beside passes, a layer at a time; operators not joined; FlashAttention as its "
        "first form";
  }
}

}  // namespace

void add_rows_of_shards(PublishedBuild& build) {
  add_narayanan_shards(build);
  add_llm_foundry(build);
}

}  // namespace longhaul::plan
