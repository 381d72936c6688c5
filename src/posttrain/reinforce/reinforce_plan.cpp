#include "posttrain/reinforce/reinforce_plan.h"

#include <algorithm>

#include "base/error.h"
#include "plan/memory/exact_memory.h"
#include "plan/memory/generation_memory.h"
#include "posttrain/reinforce/critic.h"
#include "posttrain/reinforce/prompts.h"
#include "posttrain/reinforce/rollout_state.h"

namespace longhaul::posttrain {
namespace {

using enum MemoryPurpose;

// As many sequences as the engine writes at once (Engine::admit): whole groups.
int64_t sequences_at_once(const ReinforceOptions& options, int64_t group, int64_t prompts) {
  return group * std::clamp<int64_t>(options.sequences / group, 1, prompts);
}

// The frozen copy of the model that reinforce.kl compares with.
plan::PurposeBytes reference_bytes(plan::MemoryRequest request) {
  request.model.frozen = {"*"};
  const plan::PurposeBytes frozen = plan::plan_memory(request).peaks();
  plan::PurposeBytes bytes;
  bytes[kParameters] = frozen[kParameters];
  bytes[kPackedWeights] = frozen[kPackedWeights];
  bytes[kCheckpoint] = frozen[kParameters];
  return bytes;
}

// A model beside the policy, with gradients and an optimizer.
plan::PurposeBytes critic_bytes(plan::MemoryRequest request) {
  request.model = critic_model(request.model);
  request.saves_between = true;
  request.checkpoint_copies = 1;
  plan::PurposeBytes bytes = plan::plan_memory(request).peaks();
  for (const MemoryPurpose purpose : {kActivations, kWorkspace, kData, kOther}) bytes[purpose] = 0;
  return bytes;
}

void add(const plan::PurposeBytes& more, plan::PurposeBytes& to) {
  for (size_t i = 0; i < kMemoryPurposes; ++i)
    to[static_cast<MemoryPurpose>(i)] += more[static_cast<MemoryPurpose>(i)];
}

}  // namespace

void ReinforcePlan::require_possible(const parallel::Arrangement& arrangement) const {
  DecoderPlan::require_possible(arrangement);
  const bool whole =
      arrangement.mesh.size(layout::Axis::kDp) == arrangement.mesh.world() && arrangement.zero < 3;
  if (whole && arrangement.workers == 1) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "reinforcement learning generates with the trainer's own weights, so a rank must hold the "
               "whole model",
       .expected = "data-parallel ranks (tp, pp, cp and ep of 1), parallel.zero up to 2, and no outer loop",
       .found = arrangement.mesh.text() + (arrangement.zero == 3 ? ", zero 3" : "") +
                (arrangement.workers > 1 ? ", several workers" : ""),
       .where = "[parallel]",
       .hint = "parallel.tp=1 parallel.zero=2"});
}

void ReinforcePlan::require_batch(const std::string& /*where*/, int64_t /*batch*/,
                                  int64_t /*replicas*/) const {}

plan::MemoryPlan ReinforcePlan::memory(const plan::MemoryRequest& asked,
                                       const plan::RankRequest* rank) const {
  const ReinforceOptions options = reinforce_options(recipe_);
  const int64_t fits = recipe_.train.sequence + 1 - options.tokens;
  const Prompts::Sizes prompts = Prompts::sizes_of(options).value_or(
      Prompts::Sizes{.most_tokens = fits, .held_out = options.evaluate_prompts});
  const int64_t prompt = std::min(fits, prompts.most_tokens);
  plan::MemoryRequest request = asked;
  request.evaluates = false;  // no evaluation of the decoder: it answers prompts
  const int64_t answers_of_row = std::max<int64_t>(1, request.sequence / (prompt + options.tokens - 1));
  request.documents = request.micro_batch * answers_of_row;
  plan::MemoryPlan plan = DecoderPlan::memory(request, rank);
  const int64_t replicas = rank != nullptr ? rank->place.mesh.size(layout::Axis::kDp) : 1;
  const auto generates = [&](int64_t group, int64_t count) {
    const int64_t own = (count + replicas - 1) / replicas;
    return plan::generation_bytes(request, {.sequences = sequences_at_once(options, group, own),
                                            .group = group,
                                            .prompts = own,
                                            .prompt = prompt,
                                            .tokens = options.tokens});
  };
  plan::add_generation("rollouts", generates(options.group, options.prompts), request.saves_between, plan);
  if (asked.evaluates)
    plan::add_generation("last save, evaluation",
                         generates(1, std::min(options.evaluate_prompts, prompts.held_out)), true, plan);
  plan::PurposeBytes beside;
  if (options.kl > 0) add(reference_bytes(request), beside);
  if (options.has_critic) add(critic_bytes(request), beside);
  beside[kData] += RolloutState::kept_bytes(options);
  beside[kCheckpoint] += RolloutState::kept_bytes(options);
  for (plan::MemoryMoment& moment : plan.moments) {
    for (const MemoryPurpose purpose : {kParameters, kGradients, kOptimizer, kPackedWeights, kData})
      moment.bytes[purpose] += beside[purpose];
    if (moment.bytes[kCheckpoint] > 0)
      moment.bytes[kCheckpoint] += static_cast<double>(request.checkpoint_copies) * beside[kCheckpoint];
  }
  return plan;
}

}  // namespace longhaul::posttrain
