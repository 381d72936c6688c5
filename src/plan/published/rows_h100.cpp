// Dense rows of H100s. Only the overlap that their papers describe is assumed.
#include <fmt/format.h>

#include "plan/published/published_build.h"

namespace longhaul::plan {
namespace {

using recipe::Recompute;

// "Fine-grained overlapping of data-parallel, tensor-parallel and pipeline-parallel communication (enabled by
// default)": in a pipeline this holds only for an interleaved schedule (megatron/training/arguments.py
// refuses it otherwise). The number of stages per rank is not given: constants are fitted on the rows without
// a pipeline, and the others are ranges. The value between is one layer per stage, as in the best mappings of
// the same software (core/transformer/moe/README.md).
void add_megatron_readme(PublishedBuild& build) {
  struct Row {
    const char* name;
    int64_t hidden, layers, heads, tp, pp, gpus, batch;
    double seconds;
  };
  for (const Row& r :
       {Row{"1.7B", 2048, 24, 16, 1, 1, 48, 192, .452}, Row{"7.1B", 4096, 30, 32, 2, 1, 96, 192, .800},
        Row{"16B", 6144, 32, 48, 4, 1, 192, 192, .850}, Row{"32B", 7168, 48, 56, 8, 1, 384, 192, .892},
        Row{"70B", 8192, 84, 64, 8, 2, 768, 384, 2.177}, Row{"119B", 10240, 92, 80, 8, 4, 1536, 768, 3.648},
        Row{"177B", 12288, 96, 96, 8, 6, 2304, 1152, 5.259},
        Row{"314B", 16384, 96, 128, 8, 8, 3072, 1536, 8.399},
        Row{"462B", 18432, 112, 144, 8, 16, 6144, 3072, 12.716}}) {
    auto& row = build.add(
        "Megatron-LM, H100", r.name, "github.com/NVIDIA/Megatron-LM README; seconds from its FLOP/s",
        published_gpt(r.layers, r.hidden, r.heads, 131072, false), 4096, "h100",
        published_layout(r.gpus, r.tp, r.pp, r.pp > 1 ? r.layers / r.pp : 1, 1, Recompute::kNone), r.batch);
    row.assumed = "micro-batch 1, gradients summed in bf16, all exchanges beside passes as the README says";
    row.practice = megatron_of_2024(2);
    row.stages = possible_stages(r.layers, r.pp);
    row.seconds = r.seconds;
    if (r.pp == 1) {
      row.use = RowUse::kConstants;
    } else {
      row.apart = "the README does not say how many stages a rank has: a range";
    }
  }
}

// §3.3.2: the first and the last stage have one layer less; their first and last chunks have only the
// embedding and the head, so that a chunk is a layer and (126 + 2) / 16 = 8 of them are on a rank;
// point-to-point messages are asynchronous; gradients are summed in fp32 during passes. No overlap of tensor
// ranks' exchanges is described, and none is assumed.
void add_llama3(PublishedBuild& build) {
  recipe::ModelConfig model{
      .layers = 126, .hidden = 16384, .vocabulary = 128256, .heads = 128, .head_dim = 128};
  model.softmax.kv_heads = 8;
  model.intermediate = 53248;
  for (const auto& [gpus, cp, sequence, batch, tflops] : {std::tuple{8192, 1, 8192, 2048, 430.0},
                                                          {16384, 1, 8192, 2048, 400.0},
                                                          {16384, 16, 131072, 128, 380.0}}) {
    PlanLayout layout = published_layout(gpus / cp, 8, 16, 8, 1, Recompute::kNone);
    layout.cp = cp;
    auto& row = build.add("Llama 3", fmt::format("405B, sequences of {}, {} GPUs", sequence, gpus),
                          "arXiv 2407.21783, table 4", model, sequence, "h100", layout, batch);
    row.assumed =
        "micro-batch 1; exchanges of tensor ranks in sight, messages of the pipeline and sums of gradients "
        "not (§3.3.2)";
    row.in_sight = "that the head stands in place of a layer, and which exchanges show";
    row.practice = {.pipeline_exposed = kOverlapped,
                    .data_beside = true,
                    .update_bytes = kMegatronUpdate,
                    .loss_bytes = kUnfusedLoss};
    row.flops = row.work.flops.causal() * static_cast<double>(batch) * static_cast<double>(sequence);
    row.seconds = row.flops / (gpus * tflops * 1e12);
  }
}

}  // namespace

Practice megatron_of_2024(double gradient_bytes) {
  return {.tensor_exposed = kOverlapped,
          .pipeline_exposed = kOverlapped,
          .backward_tensor = kMegatronVolume,
          .data_beside = true,
          .gradient_bytes = gradient_bytes,
          .update_bytes = kMegatronUpdate,
          .loss_bytes = kUnfusedLoss,
          .attention_again = true};
}

void add_rows_of_h100(PublishedBuild& build) {
  add_megatron_readme(build);
  add_llama3(build);
}

}  // namespace longhaul::plan
