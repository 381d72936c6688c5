#include "plan/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/calibration.h"

namespace longhaul::plan {
namespace {

constexpr double kOverlapped = 0.15;      // of an exchange that is hidden behind computing, what still shows: ours, of no row
constexpr double kMegascaleReach = 0.85;  // calibration's fitted_reach() of its eight rows of Megatron-LM with 175B
constexpr double kOldAttention = 0.33;    // FlashAttention's share of the peak: 25 to 40 % (arXiv 2307.08691, abstract)
constexpr double kWindow = 1024;          // MegaScale's, not published: the one with which its printed shares and seconds agree

// Bytes of a parameter in Megatron-LM's update: unscaling, norm and clipping read and write the gradient (4 + 4, 4, 4 + 4), Adam reads four numbers and
// writes three (16 + 12), copy (4 + 2), clearing (4). Of a logit: to fp32, greatest, difference, exponential, sum, quotient, gradient, to bf16.
constexpr double kUpdate = 58, kLoss = 44;

recipe::ModelConfig gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary, bool tied = true) {
  recipe::ModelConfig model{.layers = layers, .hidden = hidden, .vocabulary = vocabulary, .heads = heads, .head_dim = hidden / heads};
  model.softmax.kv_heads = heads;
  model.channel = recipe::Channel::kGelu;
  model.intermediate = 4 * hidden;
  model.norm = recipe::Norm::kLayer;
  model.position = recipe::Position::kNone;
  model.tie_embeddings = tied;
  return model;
}

struct Build {
  std::vector<PublishedRow> rows;

  PublishedRow& add(const char* family, std::string name, const char* source, const recipe::ModelConfig& model, int64_t sequence,
                    const char* device, const PlanLayout& layout, int64_t batch) {
    PublishedRow row{
        .family = family, .name = std::move(name), .source = source, .work = work_of(model, sequence), .layout = layout, .batch = batch};
    row.cluster.device = accelerator(device);
    row.cluster.name = device;
    row.cluster.gpus = layout.world();
    row.cluster.efficiency = efficiency_of(row.cluster.device);
    row.practice = {.fused = false, .flash = false, .causal = false, .update_bytes = kUpdate, .loss_bytes = kLoss};
    row.flops = row.work.flops.full() * static_cast<double>(batch * sequence);
    rows.push_back(std::move(row));
    return rows.back();
  }
};

using recipe::PipelineSchedule;
using recipe::Recompute;

PlanLayout layout_of(int64_t gpus, int64_t tp, int64_t pp, int64_t chunks, int64_t micro_batch, Recompute recompute) {
  PlanLayout layout{.dp = gpus / (tp * pp), .tp = tp, .pp = pp, .chunks = chunks, .micro_batch = micro_batch, .recompute = recompute};
  if (chunks > 1) layout.schedule = PipelineSchedule::kInterleaved;
  return layout;
}

void add_korthikanti(Build& build) {
  struct Row {
    const char* name;
    int64_t layers, hidden, heads, gpus, pp, chunks, batch, micro_batch;
    double full, selective;
  };
  for (const Row& r :
       {Row{"22B", 48, 6144, 64, 8, 1, 1, 4, 4, 1.42, 1.10}, Row{"175B", 96, 12288, 96, 64, 8, 3, 64, 1, 18.13, 13.75},
        Row{"530B", 105, 20480, 128, 280, 35, 3, 280, 1, 49.05, 37.83}, Row{"1T", 128, 25600, 160, 512, 64, 1, 512, 1, 94.42, 71.49}}) {
    for (const bool full : {true, false}) {
      const auto layout = layout_of(r.gpus, 8, r.pp, r.chunks, r.micro_batch, full ? Recompute::kFull : Recompute::kSelective);
      auto& row = build.add("Korthikanti", fmt::format("{}, {} recomputation", r.name, full ? "full" : "selective"),
                            "arXiv 2205.05198, table 5", gpt(r.layers, r.hidden, r.heads, 51200), 2048, "a100", layout, r.batch);
      row.seconds = full ? r.full : r.selective;
      row.use = RowUse::kConstants;
      row.practice.sequence_parallel = !full;
      row.layout.zero = 0;
      row.assumed = "full recomputation without sequence parallelism, as its baseline is";
    }
  }
  for (const bool full : {true, false}) {
    const auto layout = layout_of(2240, 8, 35, 3, 1, full ? Recompute::kFull : Recompute::kSelective);
    auto& row =
        build.add("Korthikanti", fmt::format("530B on 2,240, {} recomputation", full ? "full" : "selective"),
                  "arXiv 2205.05198, abstract: 42.1 and 54.2 % of the peak", gpt(105, 20480, 128, 51200), 2048, "a100", layout, 2240);
    row.seconds = row.mfu(full ? 0.421 : 0.542);
    row.use = RowUse::kConstants;
    row.practice.sequence_parallel = !full;
    row.layout.zero = 0;
    row.assumed = "eight times the batch of 280; sums of gradients that nothing hides";
  }
}

void add_narayanan(Build& build) {
  struct Row {
    const char* name;
    int64_t heads, hidden, layers, pp, gpus, batch, micro_batch;
    double seconds;
  };
  for (const Row& r : {Row{"18.4B", 48, 6144, 40, 1, 256, 1024, 4, 9.40}, Row{"39.1B", 64, 8192, 48, 2, 512, 1536, 4, 14.45},
                       Row{"76.1B", 80, 10240, 60, 4, 1024, 1792, 2, 16.06}, Row{"145.6B", 96, 12288, 80, 8, 1536, 2304, 2, 24.82},
                       Row{"310.1B", 128, 16384, 96, 16, 1920, 2160, 1, 37.61}, Row{"529.6B", 128, 20480, 105, 35, 2520, 2520, 1, 54.08},
                       Row{"1008B", 160, 25600, 128, 64, 3072, 3072, 1, 102.63}}) {
    auto& row =
        build.add("Narayanan", r.name, "arXiv 2104.04473, table 1; seconds from its FLOP/s", gpt(r.layers, r.hidden, r.heads, 51200), 2048,
                  "a100", layout_of(r.gpus, 8, r.pp, 1, r.micro_batch, Recompute::kFull), r.batch);
    row.assumed = "micro-batches 4, 4, 2, 2, 1, 1, 1; one stage a rank; no sequence parallelism yet";
    row.seconds = r.seconds;
    row.practice.sequence_parallel = false;
    row.layout.zero = 0;
    row.use = RowUse::kConstants;
  }
}

recipe::ModelConfig megascale_model(bool large) { return large ? gpt(105, 20480, 160, 64000) : gpt(96, 12288, 128, 64000); }

// What MegaScale changed, one after the other.
struct MegascaleTechniques {
  bool parallel_block = false, window = false, tensor = false, pipeline = false, data = false, operators = false;
};

PublishedRow& add_megascale(Build& build, const char* family, const std::string& name, bool large, int64_t gpus, int64_t batch,
                            const MegascaleTechniques& t) {
  recipe::ModelConfig model = megascale_model(large);
  if (t.parallel_block) model.wiring = recipe::Wiring::kParallel;
  auto& row = build.add(family, name, "MegaScale (NSDI 2024), tables 2 and 3", model, 2048, "a100",
                        layout_of(gpus, 8, large ? 35 : 8, large ? 3 : 6, 1, Recompute::kNone), batch);
  row.assumed = "micro-batch 1; FlashAttention, whose merge the baseline's commit 285068c8 is, so nothing is made again";
  row.layout.zero = 2;
  row.reach = kMegascaleReach;
  Practice& practice = row.practice;
  if (t.window) practice.window = kWindow;
  if (t.tensor) practice.tensor_exposed = kOverlapped;
  if (t.pipeline) practice.pipeline_exposed = kOverlapped;
  if (t.data) practice.data_exposed = 1 / static_cast<double>(row.layout.chunks);
  practice.flash = practice.causal = true;
  practice.fused = t.operators;
  if (!t.operators) practice.attention = kOldAttention;
  if (t.window) {  // their own count has windowed attention in it
    row.flops -= row.work.flops.attention_full * (1 - kWindow / 2048) * static_cast<double>(batch * 2048);
    row.assumed += ", windows of 1,024";
  }
  return row;
}

constexpr MegascaleTechniques kAllTechniques = {true, true, true, true, true, true};

void add_megascale_tables(Build& build) {
  struct Row {
    int64_t batch, gpus;
    double megatron, megascale;
  };
  for (const Row& r :
       {Row{768, 256, 40.0, 32.0}, Row{768, 512, 21.2, 16.5}, Row{768, 768, 15.2, 11.5}, Row{768, 1024, 11.9, 8.9},
        Row{6144, 3072, 29.02, 23.66}, Row{6144, 6144, 14.78, 12.21}, Row{6144, 8192, 12.24, 9.56}, Row{6144, 12288, 8.57, 6.34}}) {
    auto& baseline =
        add_megascale(build, "MegaScale: Megatron-LM", fmt::format("175B, batch {}, {} GPUs", r.batch, r.gpus), false, r.gpus, r.batch, {});
    baseline.seconds = r.megatron;
    baseline.use = RowUse::kReach;
    add_megascale(build, "MegaScale", fmt::format("175B, batch {}, {} GPUs", r.batch, r.gpus), false, r.gpus, r.batch, kAllTechniques)
        .seconds = r.megascale;
  }
  for (const auto& [gpus, megatron, megascale] : {std::tuple{2240, 0.492, 0.543}, {4480, 0.488, 0.541}, {11200, 0.482, 0.543}}) {
    auto& first = add_megascale(build, "MegaScale: Megatron-LM", fmt::format("530B, {} GPUs", gpus), true, gpus, gpus, {});
    first.seconds = first.mfu(megatron);
    auto& second = add_megascale(build, "MegaScale", fmt::format("530B, {} GPUs", gpus), true, gpus, gpus, kAllTechniques);
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

Practice modern(double gradient_bytes) {
  return {
      .tensor_exposed = kOverlapped, .data_beside = true, .gradient_bytes = gradient_bytes, .update_bytes = kUpdate, .loss_bytes = kLoss};
}

void add_megatron_h100(Build& build) {
  struct Row {
    const char* name;
    int64_t hidden, layers, heads, tp, pp, gpus, batch;
    double seconds;
  };
  for (const Row& r : {Row{"1.7B", 2048, 24, 16, 1, 1, 48, 192, .452}, Row{"7.1B", 4096, 30, 32, 2, 1, 96, 192, .800},
                       Row{"16B", 6144, 32, 48, 4, 1, 192, 192, .850}, Row{"32B", 7168, 48, 56, 8, 1, 384, 192, .892},
                       Row{"70B", 8192, 84, 64, 8, 2, 768, 384, 2.177}, Row{"119B", 10240, 92, 80, 8, 4, 1536, 768, 3.648},
                       Row{"177B", 12288, 96, 96, 8, 6, 2304, 1152, 5.259}, Row{"314B", 16384, 96, 128, 8, 8, 3072, 1536, 8.399},
                       Row{"462B", 18432, 112, 144, 8, 16, 6144, 3072, 12.716}}) {
    auto& row = build.add("Megatron-LM, H100", r.name, "github.com/NVIDIA/Megatron-LM README; seconds from its FLOP/s",
                          gpt(r.layers, r.hidden, r.heads, 131072, false), 4096, "h100",
                          layout_of(r.gpus, r.tp, r.pp, 1, 1, Recompute::kNone), r.batch);
    row.assumed = "micro-batch 1, one stage a rank, gradients summed in bf16, all exchanges beside passes as the README says";
    row.practice = modern(2);
    row.seconds = r.seconds;
    row.use = RowUse::kConstants;
  }
}

void add_llama3(Build& build) {
  recipe::ModelConfig model{.layers = 126, .hidden = 16384, .vocabulary = 128256, .heads = 128, .head_dim = 128};
  model.softmax.kv_heads = 8;
  model.intermediate = 53248;
  for (const auto& [gpus, cp, sequence, batch, tflops] :
       {std::tuple{8192, 1, 8192, 2048, 430.0}, {16384, 1, 8192, 2048, 400.0}, {16384, 16, 131072, 128, 380.0}}) {
    PlanLayout layout = layout_of(gpus / cp, 8, 16, 8, 1, Recompute::kNone);
    layout.cp = cp;
    auto& row = build.add("Llama 3", fmt::format("405B, sequences of {}, {} GPUs", sequence, gpus), "arXiv 2407.21783, table 4", model,
                          sequence, "h100", layout, batch);
    row.assumed = "micro-batch 1, eight stages a rank, of one layer (interleaved as the paper says, its number not)";
    row.practice = modern(4);
    row.flops = row.work.flops.causal() * static_cast<double>(batch) * static_cast<double>(sequence);
    row.seconds = row.flops / (gpus * tflops * 1e12);
  }
}

void add_folding(Build& build) {
  struct Row {
    const char* name;
    int64_t hidden, layers, heads, kv_heads, width, experts, chosen, shared, vocabulary, gpus, tp, ep, pp;
    double mfu;
  };
  for (const Row& r : {Row{"Mixtral-8x22B, folded", 6144, 56, 48, 8, 16384, 8, 2, 0, 32768, 128, 2, 8, 8, .493},
                       Row{"Mixtral-8x22B, MCore", 6144, 56, 48, 8, 16384, 8, 2, 0, 32768, 128, 2, 4, 8, .463},
                       Row{"Llama3-8x70B, folded", 8192, 80, 64, 8, 28672, 8, 2, 0, 128256, 256, 8, 8, 16, .416},
                       Row{"Qwen2-57B-A14B, folded", 3584, 28, 28, 4, 2560, 64, 8, 20480, 151936, 64, 2, 4, 4, .390},
                       Row{"Mixtral-8x22B-G8T8, folded", 6144, 56, 48, 8, 2048, 64, 8, 0, 32768, 128, 4, 8, 8, .288}}) {
    recipe::ModelConfig model{.layers = r.layers, .hidden = r.hidden, .vocabulary = r.vocabulary, .heads = r.heads, .head_dim = 128};
    model.softmax.kv_heads = r.kv_heads;
    model.intermediate = r.width;
    model.experts = r.experts;
    model.experts_per_token = r.chosen;
    if (r.shared > 0) model.shared_experts = 1, model.shared_intermediate = r.shared, model.shared_gate = true;
    PlanLayout layout = layout_of(r.gpus, r.tp, r.pp, 1, 1, Recompute::kNone);
    layout.ep = r.ep;
    auto& row = build.add("Parallel folding", r.name, "arXiv 2504.14960, table 1", model, 4096, "h100", layout, 256);
    row.assumed = "micro-batch 1, one stage a rank; sizes of Qwen2 and vocabularies from their model cards";
    row.practice = modern(2);
    row.dense = false;
    row.seconds = row.mfu(r.mfu);
  }
}

}  // namespace

const std::vector<PublishedRow>& published_rows() {
  static const std::vector<PublishedRow> all = [] {
    Build build;
    add_korthikanti(build);
    add_narayanan(build);
    add_megascale_tables(build);
    add_megatron_h100(build);
    add_llama3(build);
    add_folding(build);
    return build.rows;
  }();
  return all;
}

std::vector<PublishedRow> published_rows(RowUse use, const std::string& device) {
  std::vector<PublishedRow> rows;
  for (const PublishedRow& row : published_rows()) {
    if (row.use == use && row.cluster.device.name == device) rows.push_back(row);
  }
  return rows;
}

Efficiency scaled(Efficiency efficiency, double factor) {
  efficiency.products *= factor, efficiency.memory *= factor, efficiency.attention *= factor, efficiency.recurrence *= factor;
  efficiency.layer_s /= factor, efficiency.message_s /= factor, efficiency.stop_s /= factor, efficiency.step_s /= factor;
  return efficiency;
}

double predicted(const PublishedRow& row, const Efficiency& efficiency) {
  Cluster cluster = row.cluster;
  cluster.efficiency = scaled(efficiency, row.reach);
  return step_parts(row.work, row.layout, row.batch, cluster, row.practice).total();
}

double predicted(const PublishedRow& row) { return predicted(row, row.cluster.efficiency); }

Errors errors_of(const std::vector<PublishedRow>& rows) {
  Errors errors;
  for (const PublishedRow& row : rows) {
    const double error = std::abs(predicted(row) / row.seconds - 1);
    ++errors.rows;
    errors.mean += error;
    errors.worst = std::max(errors.worst, error);
  }
  if (errors.rows > 0) errors.mean /= static_cast<double>(errors.rows);
  return errors;
}

}  // namespace longhaul::plan
