#include "plan/published/published_build.h"

#include "plan/calibration.h"

namespace longhaul::plan {

PublishedRow& PublishedBuild::add(const char* family, std::string name, const char* source,
                                  const recipe::ModelConfig& model, int64_t sequence, const char* device,
                                  const PlanLayout& layout, int64_t batch) {
  PublishedRow row{.family = family,
                   .name = std::move(name),
                   .source = source,
                   .work = work_of(model, sequence),
                   .layout = layout,
                   .batch = batch};
  row.cluster.device = accelerator(device);
  row.cluster.name = device;
  row.cluster.gpus = layout.world();
  row.cluster.efficiency = efficiency_of(row.cluster.device);
  row.practice = {.fused = false,
                  .flash = false,
                  .causal = false,
                  .update_bytes = kMegatronUpdate,
                  .loss_bytes = kUnfusedLoss,
                  .attention_again = true};
  row.flops = row.work.flops.full() * static_cast<double>(batch * sequence);
  rows.push_back(std::move(row));
  return rows.back();
}

recipe::ModelConfig published_gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary,
                                  bool tied) {
  recipe::ModelConfig model{.layers = layers,
                            .hidden = hidden,
                            .vocabulary = vocabulary,
                            .heads = heads,
                            .head_dim = hidden / heads};
  model.softmax.kv_heads = heads;
  model.channel = recipe::Channel::kGelu;
  model.intermediate = 4 * hidden;
  model.norm = recipe::Norm::kLayer;
  model.position = recipe::Position::kNone;
  model.tie_embeddings = tied;
  return model;
}

PlanLayout published_layout(int64_t gpus, int64_t tp, int64_t pp, int64_t chunks, int64_t micro_batch,
                            recipe::Recompute recompute) {
  PlanLayout layout{.dp = gpus / (tp * pp),
                    .tp = tp,
                    .pp = pp,
                    .chunks = chunks,
                    .micro_batch = micro_batch,
                    .recompute = recompute};
  if (chunks > 1) layout.schedule = recipe::PipelineSchedule::kInterleaved;
  return layout;
}

std::vector<int64_t> possible_stages(int64_t layers, int64_t pp) {
  std::vector<int64_t> stages;
  for (int64_t chunks = 1; pp > 1 && chunks <= layers / pp; ++chunks) {
    if (layers % (pp * chunks) == 0) stages.push_back(chunks);
  }
  return stages;
}

double flops_with_recomputation(int64_t layers, int64_t hidden, int64_t vocabulary, int64_t sequence,
                                int64_t batch) {
  const auto l = static_cast<double>(layers), h = static_cast<double>(hidden),
             v = static_cast<double>(vocabulary);
  const auto s = static_cast<double>(sequence), b = static_cast<double>(batch);
  return 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

}  // namespace longhaul::plan
