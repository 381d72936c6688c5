#include "posttrain/reinforce/rollout_state.h"

#include "model/experts/routes.h"

namespace longhaul::posttrain {
namespace {

constexpr const char* kFact = "reinforce";

KeptBatch::Sizes sizes_of(const recipe::Recipe& recipe, const ReinforceOptions& options, bool ahead) {
  KeptBatch::Sizes sizes{.answers = options.prompts * options.group, .tokens = options.tokens};
  sizes.scores = !ahead;
  sizes.values = !ahead && options.has_critic;
  if (!options.replays_routes) return sizes;
  sizes.routers = model::blocks_with_routers(recipe.model);
  sizes.read = recipe.train.sequence;
  sizes.experts = recipe.model.experts_per_token;
  return sizes;
}

bool keeps(const ReinforceOptions& options) { return options.updates > 1; }

}  // namespace

RolloutState::RolloutState(const recipe::Recipe& recipe, const ReinforceOptions& options,
                           const Prompts& prompts, bool written_here)
    : levels(options.level),
      used(options.updates),
      options_(options),
      prompts_(prompts),
      written_here_(written_here) {
  if (keeps(options)) kept_.emplace("task.rollout.", sizes_of(recipe, options, false));
  if (options.ahead) kept_ahead_.emplace("task.rollout.ahead.", sizes_of(recipe, options, true));
}

double RolloutState::kept_bytes(const recipe::Recipe& recipe, const ReinforceOptions& options) {
  return (keeps(options) ? sizes_of(recipe, options, false).bytes() : 0) +
         (options.ahead ? sizes_of(recipe, options, true).bytes() : 0);
}

double RolloutState::route_bytes(const recipe::Recipe& recipe, const ReinforceOptions& options) {
  KeptBatch::Sizes sizes = sizes_of(recipe, options, true);
  sizes.tokens = 0;
  return sizes.bytes() * (options.ahead ? 2 : 1);
}

void RolloutState::keep_batches() {
  if (kept_) kept_->keep(batch);
  if (kept_ahead_) kept_ahead_->keep(*ahead);
}

std::vector<checkpoint::StateEntry> RolloutState::tensors() {
  std::vector<checkpoint::StateEntry> entries;
  for (const std::optional<KeptBatch>* const kept : {&kept_, &kept_ahead_}) {
    if (!*kept) continue;
    for (checkpoint::StateEntry& entry : (*kept)->tensors(written_here_)) entries.push_back(std::move(entry));
  }
  return entries;
}

nlohmann::json RolloutState::facts() {
  nlohmann::json facts = {{"next_prompt", next_prompt},
                          {"short_batches", short_batches},
                          {"equal_batches", equal_batches},
                          {"used", used}};
  if (options_.adaptive) facts["levels"] = nlohmann::json(levels.json());
  facts["groups"] = nlohmann::json::array();
  if (kept_ && used < options_.updates) facts.update(KeptBatch::facts(batch));
  if (ahead) facts["ahead"] = KeptBatch::facts(*ahead);
  return {{kFact, facts}};
}

void RolloutState::restore(const checkpoint::SavedFacts& saved) {
  const nlohmann::json& facts = saved.at(kFact);
  next_prompt = facts.at("next_prompt");
  short_batches = facts.at("short_batches");
  equal_batches = facts.at("equal_batches");
  used = facts.at("used");
  if (options_.adaptive) levels = puzzles::LevelMixture::from_json(facts.at("levels"), saved.where);
  batch = {};
  if (!facts.at("groups").empty()) batch = kept_->batch(facts, prompts_);
  ahead.reset();
  if (facts.contains("ahead")) ahead = kept_ahead_->batch(facts.at("ahead"), prompts_);
  if (options_.has_critic) estimate_advantages(batch.groups, options_);
}

}  // namespace longhaul::posttrain
