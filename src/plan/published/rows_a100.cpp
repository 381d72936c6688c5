// Rows of A100s: Selene, on which constants are fitted, and MegaScale's cluster.
#include <fmt/format.h>

#include "plan/published/published_build.h"

namespace longhaul::plan {
namespace {

using recipe::Recompute;

// Calibration's fitted_reach() of its eight rows of Megatron-LM with 175B.
constexpr double kMegascaleReach = 0.83;
// MegaScale's, not published: the one with which its printed shares and seconds agree.
constexpr double kWindow = 1024;

void add_korthikanti(PublishedBuild& build) {
  struct Row {
    const char* name;
    int64_t layers, hidden, heads, gpus, pp, chunks, batch, micro_batch;
    double full, selective;
  };
  for (const Row& r : {Row{"22B", 48, 6144, 64, 8, 1, 1, 4, 4, 1.42, 1.10},
                       Row{"175B", 96, 12288, 96, 64, 8, 3, 64, 1, 18.13, 13.75},
                       Row{"530B", 105, 20480, 128, 280, 35, 3, 280, 1, 49.05, 37.83},
                       Row{"1T", 128, 25600, 160, 512, 64, 1, 512, 1, 94.42, 71.49}}) {
    for (const bool full : {true, false}) {
      const auto layout = published_layout(r.gpus, 8, r.pp, r.chunks, r.micro_batch,
                                           full ? Recompute::kFull : Recompute::kSelective);
      auto& row =
          build.add("Korthikanti", fmt::format("{}, {} recomputation", r.name, full ? "full" : "selective"),
                    "arXiv 2205.05198, table 5", published_gpt(r.layers, r.hidden, r.heads, 51200), 2048,
                    "a100", layout, r.batch);
      row.seconds = full ? r.full : r.selective;
      row.use = RowUse::kConstants;
      row.practice.sequence_parallel = !full;
      if (!full) row.practice.backward_tensor = kMegatronBackward;
      row.layout.zero = 0;
      row.assumed = "full recomputation without sequence parallelism, as its baseline is";
    }
  }
  for (const bool full : {true, false}) {
    const auto layout = published_layout(2240, 8, 35, 3, 1, full ? Recompute::kFull : Recompute::kSelective);
    auto& row =
        build.add("Korthikanti", fmt::format("530B on 2,240, {} recomputation", full ? "full" : "selective"),
                  "arXiv 2205.05198, abstract: 42.1 and 54.2 % of the peak",
                  published_gpt(105, 20480, 128, 51200), 2048, "a100", layout, 2240);
    row.seconds = row.mfu(full ? 0.421 : 0.542);
    row.use = RowUse::kConstants;
    row.practice.sequence_parallel = !full;
    if (!full) row.practice.backward_tensor = kMegatronBackward;
    row.layout.zero = 0;
    row.assumed = "eight times the batch of 280; sums of gradients that nothing hides";
  }
}

void add_narayanan(PublishedBuild& build) {
  struct Row {
    const char* name;
    int64_t heads, hidden, layers, pp, gpus, batch, micro_batch;
    double seconds;
  };
  for (const Row& r :
       {Row{"18.4B", 48, 6144, 40, 1, 256, 1024, 4, 9.40}, Row{"39.1B", 64, 8192, 48, 2, 512, 1536, 4, 14.45},
        Row{"76.1B", 80, 10240, 60, 4, 1024, 1792, 2, 16.06},
        Row{"145.6B", 96, 12288, 80, 8, 1536, 2304, 2, 24.82},
        Row{"310.1B", 128, 16384, 96, 16, 1920, 2160, 1, 37.61},
        Row{"529.6B", 128, 20480, 105, 35, 2520, 2520, 1, 54.08},
        Row{"1008B", 160, 25600, 128, 64, 3072, 3072, 1, 102.63}}) {
    auto& row = build.add("Narayanan", r.name, "arXiv 2104.04473, table 1; seconds from its FLOP/s",
                          published_gpt(r.layers, r.hidden, r.heads, 51200), 2048, "a100",
                          published_layout(r.gpus, 8, r.pp, 1, r.micro_batch, Recompute::kFull), r.batch);
    row.assumed =
        "micro-batches 4, 4, 2, 2, 1, 1, 1, which the paper does not print: row by row; one stage a rank; no "
        "sequence parallelism yet";
    row.seconds = r.seconds;
    row.practice.sequence_parallel = false;
    row.layout.zero = 0;
    row.use = RowUse::kConstants;
  }
}

// 530B of Microsoft and NVIDIA, on Selene.
void add_mt_nlg(PublishedBuild& build) {
  for (const auto& [gpus, seconds] : {std::pair{2240, 60.1}, {2800, 50.2}, {3360, 44.4}}) {
    auto& row = build.add("MT-NLG", fmt::format("530B, {} GPUs", gpus), "arXiv 2201.11990, §2.3",
                          published_gpt(105, 20480, 128, 51200), 2048, "a100",
                          published_layout(gpus, 8, 35, 1, 1, Recompute::kFull), 1920);
    row.assumed = "micro-batch 1, one stage a rank; full recomputation; no sequence parallelism yet";
    row.seconds = seconds;
    row.practice.sequence_parallel = false;
    row.layout.zero = 0;
    row.apart = "the same layout takes 21 % less a sequence on the same cluster in arXiv 2104.04473, table 2";
  }
}

recipe::ModelConfig megascale_model(bool large) {
  return large ? published_gpt(105, 20480, 160, 64000) : published_gpt(96, 12288, 128, 64000);
}

// MegaScale's changes, one after the other.
struct MegascaleTechniques {
  bool parallel_block = false, window = false, tensor = false, pipeline = false, data = false,
       operators = false;
};

PublishedRow& add_megascale(PublishedBuild& build, const char* family, const std::string& name, bool large,
                            int64_t gpus, int64_t batch, const MegascaleTechniques& t) {
  recipe::ModelConfig model = megascale_model(large);
  if (t.parallel_block) model.wiring = recipe::Wiring::kParallel;
  auto& row = build.add(family, name, "MegaScale (NSDI 2024), tables 2 and 3", model, 2048, "a100",
                        published_layout(gpus, 8, large ? 35 : 8, large ? 3 : 6, 1, Recompute::kNone), batch);
  row.assumed =
      "micro-batch 1; FlashAttention, whose merge the baseline's commit 285068c8 is, so nothing is made "
      "again";
  row.layout.zero = 1;  // its stage 2 sums once per step, and keeps shares of the sums
  row.reach = kMegascaleReach;
  Practice& practice = row.practice;
  if (t.window) practice.window = kWindow;
  practice.backward_tensor = t.tensor ? kMegatronVolume : kMegatronBackward;
  if (t.tensor) practice.tensor_exposed = kOverlapped;
  if (t.pipeline) practice.pipeline_exposed = kOverlapped;
  if (t.data) practice.data_exposed = 1 / static_cast<double>(row.layout.chunks);
  practice.flash = practice.causal = true;
  practice.fused = t.operators;
  if (!t.operators) practice.attention = kFirstFlashAttention;
  if (t.window) {  // their own FLOP count includes windowed attention
    row.flops -= row.work.flops.attention_full * (1 - kWindow / 2048) * static_cast<double>(batch * 2048);
    row.assumed += ", windows of 1,024";
    row.in_sight = "the size of its window";
  }
  return row;
}

constexpr MegascaleTechniques kAllTechniques = {true, true, true, true, true, true};

void add_megascale_tables(PublishedBuild& build) {
  struct Row {
    int64_t batch, gpus;
    double megatron, megascale;
  };
  for (const Row& r :
       {Row{768, 256, 40.0, 32.0}, Row{768, 512, 21.2, 16.5}, Row{768, 768, 15.2, 11.5},
        Row{768, 1024, 11.9, 8.9}, Row{6144, 3072, 29.02, 23.66}, Row{6144, 6144, 14.78, 12.21},
        Row{6144, 8192, 12.24, 9.56}, Row{6144, 12288, 8.57, 6.34}}) {
    auto& baseline =
        add_megascale(build, "MegaScale: Megatron-LM",
                      fmt::format("175B, batch {}, {} GPUs", r.batch, r.gpus), false, r.gpus, r.batch, {});
    baseline.seconds = r.megatron;
    baseline.use = RowUse::kReach;
    add_megascale(build, "MegaScale", fmt::format("175B, batch {}, {} GPUs", r.batch, r.gpus), false, r.gpus,
                  r.batch, kAllTechniques)
        .seconds = r.megascale;
  }
  for (const auto& [gpus, megatron, megascale] :
       {std::tuple{2240, 0.492, 0.543}, {4480, 0.488, 0.541}, {11200, 0.482, 0.543}}) {
    auto& first = add_megascale(build, "MegaScale: Megatron-LM", fmt::format("530B, {} GPUs", gpus), true,
                                gpus, gpus, {});
    first.seconds = first.mfu(megatron);
    auto& second = add_megascale(build, "MegaScale", fmt::format("530B, {} GPUs", gpus), true, gpus, gpus,
                                 kAllTechniques);
    second.seconds = second.mfu(megascale);
  }
  MegascaleTechniques t;
  const auto step = [&](const char* name, double mfu, bool MegascaleTechniques::*more, int64_t batch = 256) {
    if (more != nullptr) t.*more = true;
    auto& row = add_megascale(build, "MegaScale: ablation", name, false, 256, batch, t);
    row.seconds = row.mfu(mfu);
  };
  step("Megatron-LM", 0.477, nullptr);
  step("+ parallel block", 0.523, &MegascaleTechniques::parallel_block);
  step("+ sliding windows", 0.533, &MegascaleTechniques::window);
  step("+ tensor overlap", 0.555, &MegascaleTechniques::tensor);
  step("+ pipeline overlap", 0.580, &MegascaleTechniques::pipeline);
  step("+ data overlap", 0.595, &MegascaleTechniques::data);
  step("+ operators", 0.612, &MegascaleTechniques::operators);
  step("+ all else (nothing is modelled)", 0.623, nullptr);
  step("+ LAMB, three times the batch", 0.653, nullptr, 768);
}

}  // namespace

void add_rows_of_a100(PublishedBuild& build) {
  add_korthikanti(build);
  add_narayanan(build);
  add_mt_nlg(build);
  add_megascale_tables(build);
}

}  // namespace longhaul::plan
