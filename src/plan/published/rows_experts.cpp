// Rows of models with experts (arXiv 2504.14960). One layer per stage: Megatron-LM's own best mapping of
// Mixtral-8x22B for these 128 GPUs, sequences and batch has 7 stages per rank
// (core/transformer/moe/README.md), and its guide recommends several wherever there is a pipeline. For the
// three other models only one number of stages divides their layers, or a few; `stages` has them all.
#include <fmt/format.h>

#include "plan/published/published_build.h"

namespace longhaul::plan {
namespace {

using recipe::Recompute;

struct ExpertModel {
  const char* name;
  int64_t hidden, layers, heads, kv_heads, width, experts, chosen, shared, vocabulary;
};
constexpr ExpertModel kMixtral = {"Mixtral-8x22B", 6144, 56, 48, 8, 16384, 8, 2, 0, 32768};
constexpr ExpertModel kLlama = {"Llama3-8x70B", 8192, 80, 64, 8, 28672, 8, 2, 0, 128256};
constexpr ExpertModel kQwen = {"Qwen2-57B-A14B", 3584, 28, 28, 4, 2560, 64, 8, 20480, 151936};
constexpr ExpertModel kFine = {"Mixtral-8x22B-G8T8", 6144, 56, 48, 8, 2048, 64, 8, 0, 32768};

// The sizes of the attention's mesh and the experts'; etp 0: as tp, the only possibility for software without
// folding.
struct ExpertMapping {
  int64_t tp, ep, pp, etp, cp = 1;
};

recipe::ModelConfig config_of(const ExpertModel& of) {
  recipe::ModelConfig model{.layers = of.layers,
                            .hidden = of.hidden,
                            .vocabulary = of.vocabulary,
                            .heads = of.heads,
                            .head_dim = 128};
  model.softmax.kv_heads = of.kv_heads;
  model.intermediate = of.width;
  model.experts = of.experts;
  model.experts_per_token = of.chosen;
  if (of.shared > 0)
    model.shared_experts = 1, model.shared_intermediate = of.shared, model.shared_gate = true;
  return model;
}

PublishedRow& add_experts(PublishedBuild& build, const char* family, const std::string& name,
                          const ExpertModel& of, const ExpertMapping& at, int64_t gpus, int64_t batch,
                          int64_t sequence, double mfu) {
  PlanLayout layout = published_layout(gpus / at.cp, at.tp, at.pp, of.layers / at.pp, 1, Recompute::kNone);
  layout.cp = at.cp;
  layout.ep = at.ep;
  layout.etp = at.etp > 0 ? at.etp : at.tp;
  auto& row = build.add(family, fmt::format("{}, {}", of.name, name), "arXiv 2504.14960", config_of(of),
                        sequence, "h100", layout, batch);
  row.assumed = "micro-batch 1, one layer a stage; sizes of Qwen2 and vocabularies from their model cards";
  if (at.pp > 1) row.in_sight = "one layer a stage";
  row.practice = megatron_of_2024(2);
  row.stages = possible_stages(of.layers, at.pp);
  row.dense = false;
  row.seconds = row.mfu(0.01 * mfu);
  return row;
}

constexpr ExpertMapping kFoldedMixtral = {2, 8, 8, 1}, kFoldedLlama = {8, 8, 16, 1},
                        kFoldedQwen = {2, 4, 4, 1}, kFoldedFine = {4, 8, 8, 1};
constexpr ExpertMapping kPlainMixtral = {2, 4, 8, 0}, kPlainLlama = {8, 4, 8, 0}, kPlainQwen = {2, 4, 4, 0},
                        kPlainFine = {2, 8, 8, 0};

void add_table_of_methods(PublishedBuild& build) {
  constexpr const char* kFamily = "Parallel folding";
  struct Row {
    const ExpertModel& model;
    int64_t gpus;
    ExpertMapping folded, plain;
    double of_folded, of_plain;
  };
  for (const Row& r : {Row{kMixtral, 128, kFoldedMixtral, kPlainMixtral, 49.3, 46.3},
                       Row{kLlama, 256, kFoldedLlama, kPlainLlama, 41.6, 38.8},
                       Row{kQwen, 64, kFoldedQwen, kPlainQwen, 39.0, 35.3},
                       Row{kFine, 128, kFoldedFine, kPlainFine, 28.8, 17.1}}) {
    add_experts(build, kFamily, "folded", r.model, r.folded, r.gpus, 256, 4096, r.of_folded);
    add_experts(build, kFamily, "MCore", r.model, r.plain, r.gpus, 256, 4096, r.of_plain);
  }
}

// A batch of 1,024 over an increasing number of devices, with the mappings of the previous table.
void add_strong_scaling(PublishedBuild& build) {
  constexpr const char* kFamily = "Parallel folding, batch 1,024";
  struct Row {
    const ExpertModel& model;
    int64_t least;
    ExpertMapping folded, plain;
    std::vector<double> of_folded, of_plain;
  };
  for (const Row& r :
       {Row{kMixtral, 128, kFoldedMixtral, kPlainMixtral, {52.2, 50.7, 48.9, 44.9}, {49.4, 48.0, 45.5, 42.3}},
        Row{kLlama, 256, kFoldedLlama, kPlainLlama, {43.7, 42.7, 41.5}, {40.1, 39.5, 39.1}},
        Row{kFine, 128, kFoldedFine, kPlainFine, {30.0, 29.3, 26.7, 25.5}, {19.8, 18.4, 16.3, 13.4}},
        Row{kQwen,
            64,
            kFoldedQwen,
            kPlainQwen,
            {39.9, 39.7, 38.1, 36.6, 33.4},
            {36.2, 36.0, 34.8, 32.5, 29.8}}}) {
    for (size_t i = 0; i < r.of_folded.size(); ++i) {
      const int64_t gpus = r.least << i;
      add_experts(build, kFamily, fmt::format("folded, {} GPUs", gpus), r.model, r.folded, gpus, 1024, 4096,
                  r.of_folded[i]);
      add_experts(build, kFamily, fmt::format("MCore, {} GPUs", gpus), r.model, r.plain, gpus, 1024, 4096,
                  r.of_plain[i]);
    }
  }
}

// As many tokens per step as 1,024 sequences of 4,096, in longer sequences.
void add_context_scaling(PublishedBuild& build) {
  struct Row {
    int64_t sequence, gpus, cp, tp;
    double mfu;
  };
  for (const Row& r : {Row{16384, 128, 4, 2, 47.6}, Row{32768, 256, 8, 2, 45.1}, Row{65536, 512, 8, 4, 44.5},
                       Row{131072, 1024, 8, 8, 42.9}}) {
    auto& row =
        add_experts(build, "Parallel folding, long sequences", fmt::format("folded, {} tokens", r.sequence),
                    kMixtral, {r.tp, 8, 8, 1, r.cp}, r.gpus, 1024 * 4096 / r.sequence, r.sequence, r.mfu);
    row.assumed += "; a step of 4 Mi tokens";
  }
}

// Without a pipeline: one stage per rank. Mappings are printed (tables 1 and 3); the experts' tensor ranks
// are the attention's.
PublishedRow& add_flat(PublishedBuild& build, const char* family, const std::string& name,
                       const ExpertModel& of, int64_t tp, int64_t ep, int64_t gpus, int64_t batch,
                       double mfu) {
  auto& row = add_experts(build, family, name, of, {tp, ep, 1, 0}, gpus, batch, 4096, mfu);
  row.layout.chunks = 1;
  row.layout.schedule = recipe::PipelineSchedule::k1F1B;
  return row;
}

// All weights are cut over data ranks, in addition to tensor ranks.
PublishedRow& add_sharded(PublishedBuild& build, const char* family, const std::string& name,
                          const ExpertModel& of, int64_t tp, int64_t ep, int64_t gpus, int64_t batch,
                          double mfu) {
  auto& row = add_flat(build, family, name, of, tp, ep, gpus, batch, mfu);
  row.layout.zero = 3;
  row.practice.layer_exposed = kLayerExposed;
  row.in_sight = "that rings of layers get no slower by size with more nodes";
  row.assumed = "micro-batch 1; values gathered for each pass of each micro-batch, sums after each";
  return row;
}

void add_tables_without_pipelines(PublishedBuild& build) {
  struct Row {
    const ExpertModel& model;
    int64_t gpus, tp, ep;
    double mfu;
  };
  constexpr const char *kShards = "Parallel folding: FSDP",
                       *kTensor = "Parallel folding: tensor ranks and experts";
  for (const Row& r : {Row{kMixtral, 128, 8, 1, 4.3}, Row{kQwen, 64, 2, 1, 9.9}, Row{kFine, 128, 8, 1, 2.2}})
    add_sharded(build, kShards, "FSDP", r.model, r.tp, r.ep, r.gpus, 256, r.mfu);
  for (const Row& r : {Row{kMixtral, 128, 2, 8, 23.4}, Row{kLlama, 256, 8, 8, 19.6},
                       Row{kQwen, 64, 1, 8, 25.4}, Row{kFine, 128, 4, 8, 9.0}})
    add_sharded(build, kShards, "FSDP and experts over 8", r.model, r.tp, r.ep, r.gpus, 256, r.mfu);
  for (const Row& r :
       {Row{kMixtral, 128, 4, 8, 36.6}, Row{kQwen, 64, 4, 4, 23.1}, Row{kFine, 128, 8, 8, 8.7}})
    add_flat(build, kTensor, "no pipeline", r.model, r.tp, r.ep, r.gpus, 256, r.mfu);
}

// A batch of 1,024 over an increasing number of devices.
void add_strong_scaling_without_pipelines(PublishedBuild& build) {
  struct Row {
    const ExpertModel& model;
    int64_t least, tp, ep;
    std::vector<double> mfu;
  };
  for (const Row& r :
       {Row{kMixtral, 128, 2, 8, {23.9, 25.5, 24.4, 23.8}}, Row{kLlama, 256, 8, 8, {18.9, 17.3, 17.1}},
        Row{kFine, 128, 4, 8, {9.0, 8.5, 8.9, 8.6}}, Row{kQwen, 64, 1, 8, {26.3, 25.6, 23.4, 22.8, 21.6}}}) {
    for (size_t i = 0; i < r.mfu.size(); ++i) {
      const int64_t gpus = r.least << i;
      add_sharded(build, "Parallel folding: FSDP, batch 1,024",
                  fmt::format("FSDP and experts over 8, {} GPUs", gpus), r.model, r.tp, r.ep, gpus, 1024,
                  r.mfu[i]);
    }
  }
  for (const Row& r :
       {Row{kMixtral, 128, 4, 8, {40.4, 39.1, 36.0, 36.2}}, Row{kFine, 128, 8, 8, {8.6, 8.5, 8.5, 8.1}},
        Row{kQwen, 64, 4, 4, {22.4, 20.9, 19.8, 19.7, 17.9}}}) {
    for (size_t i = 0; i < r.mfu.size(); ++i) {
      const int64_t gpus = r.least << i;
      add_flat(build, "Parallel folding: tensor ranks and experts, batch 1,024",
               fmt::format("no pipeline, {} GPUs", gpus), r.model, r.tp, r.ep, gpus, 1024, r.mfu[i]);
    }
  }
}

}  // namespace

void add_rows_of_experts(PublishedBuild& build) {
  add_table_of_methods(build);
  add_strong_scaling(build);
  add_context_scaling(build);
  add_tables_without_pipelines(build);
  add_strong_scaling_without_pipelines(build);
}

}  // namespace longhaul::plan
