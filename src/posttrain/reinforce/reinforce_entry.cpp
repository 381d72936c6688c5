#include "posttrain/reinforce/reinforce_entry.h"

#include <fmt/format.h>

#include "posttrain/reinforce/reinforce.h"
#include "posttrain/reinforce/reinforce_plan.h"
#include "train/offload.h"

namespace longhaul::posttrain {
namespace {

// Without texts there is nothing to train a tokenizer on.
data::RunData open_prompt_tokenizer(const train::DataRequest& request) {
  const bool has_one = request.recipe.data.tokenizer != "train";
  return {.corpus = {},
          .tokenizer = has_one ? data::open_tokenizer(request.recipe.data, {}, request.cache)
                               : data::Tokenizer::bytes(),
          .sources = {}};
}

std::unique_ptr<train::ModelPlan> plan_reinforce(const recipe::Recipe& recipe) {
  return std::make_unique<ReinforcePlan>(recipe);
}

std::unique_ptr<train::Task> make_reinforce(const train::TaskRequest& request) {
  auto task = std::make_unique<Reinforce>(request);
  task->set_offload(train::make_offload(request.recipe.train, request.cache, task->parameters()));
  return task;
}

std::string look_at_rollouts(const recipe::Recipe& /*recipe*/, const std::string& run,
                             const std::string& /*prompt*/) {
  return fmt::format("rollouts {}", run);
}

}  // namespace

train::TaskEntry reinforce_entry() {
  return {.name = "reinforce",
          .reads_text = false,
          .open_data = open_prompt_tokenizer,
          .plan = plan_reinforce,
          .make = make_reinforce,
          .write_beside = train::save_tokenizer,
          .next_command = look_at_rollouts,
          .declare_options = declare_reinforce};
}

}  // namespace longhaul::posttrain
