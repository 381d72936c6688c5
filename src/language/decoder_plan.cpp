#include "language/decoder_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "language/teacher.h"
#include "model/decoder.h"

namespace longhaul::language {

std::string DecoderPlan::name() const {
  return recipe_.model.preset.empty() ? recipe_.model.family : recipe_.model.preset;
}

std::vector<layout::ParameterSpec> DecoderPlan::parameters() const {
  return layout::parameters(recipe_.model);
}

int64_t DecoderPlan::activated_elements(const layout::ParameterSpec& spec) const {
  return layout::activated_elements(spec, recipe_.model);
}

plan::TokenFlops DecoderPlan::flops() const {
  return plan::training_flops_per_token(recipe_.model, recipe_.train.sequence);
}

double DecoderPlan::flops_again() const {
  const layout::Pipeline pipeline(recipe_.parallel.pp, recipe_.parallel.pipeline);
  return plan::flops_again_per_token(
             recipe_.model, recipe_.train.recompute,
             layout::first_of_stages(pipeline, recipe_.model.layers, recipe_.train.recompute_layers)) +
         teacher_flops_per_token(recipe_);
}

plan::DecodingState DecoderPlan::decoding_state() const {
  return plan::decoding_state(recipe_.model, recipe_.train.dtype);
}

parallel::Arrangement DecoderPlan::arrange(int64_t world) const {
  return parallel::arrangement_of(recipe_.model, recipe_.parallel, world);
}

void DecoderPlan::require_possible(const parallel::Arrangement& arrangement) const {
  parallel::require_possible(recipe_.model, arrangement);
  // The modules know which tensors one product computes with; on a single rank those of all ranks are there.
  if (recipe_.model.freezes()) model::Decoder(recipe_.model, Precision::named("fp32"), at::kMeta);
}

void DecoderPlan::require_batch(const std::string& where, int64_t batch, int64_t replicas) const {
  if (!recipe_.model.takes_batch_at_once() || batch == recipe_.train.micro_batch * replicas) return;
  const bool room = recipe_.model.shares_room();
  const std::string instead = room ? "model.capacity_of=sequence" : "model.auxiliary_loss_of=batch_so_far";
  throw Error({.code = ExitCode::kUsage,
               .what = room ? "an expert's room for all of a step's sequences takes them all at once"
                            : "the balance of experts over all of a step's sequences takes them all at once",
               .expected = fmt::format("a batch of train.micro_batch · replicas = {} · {}",
                                       recipe_.train.micro_batch, replicas),
               .found = std::to_string(batch),
               .where = room ? fmt::format("{} and model.capacity_of = {}", where,
                                           name_of_value(recipe_.model.router.capacity_of))
                             : fmt::format("{} and model.auxiliary_loss_of = batch", where),
               .hint = batch % replicas == 0
                           ? fmt::format("train.micro_batch={}, or {}", batch / replicas, instead)
                           : instead});
}

plan::MemoryPlan DecoderPlan::memory(const plan::MemoryRequest& request,
                                     const plan::RankRequest* rank) const {
  plan::MemoryPlan plan =
      rank == nullptr ? plan::plan_memory(request) : plan::exact_rank_memory(request, *rank);
  add_teacher(recipe_, request, plan);
  return plan;
}

}  // namespace longhaul::language
