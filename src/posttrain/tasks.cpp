#include "posttrain/tasks.h"

#include <fmt/format.h>

#include "posttrain/reinforce/reinforce.h"
#include "posttrain/reinforce/reinforce_plan.h"
#include "train/offload.h"

namespace longhaul::posttrain {
namespace {

std::unique_ptr<train::ModelPlan> plan_reinforce(const recipe::Recipe& recipe) { return std::make_unique<ReinforcePlan>(recipe); }

std::unique_ptr<train::Task> make_reinforce(const train::TaskRequest& request) {
  auto task = std::make_unique<Reinforce>(request);
  task->set_offload(train::make_offload(request.recipe.train, request.cache, task->parameters()));
  return task;
}

void save_tokenizer_beside(const data::RunData& data, const std::filesystem::path& run) { data.tokenizer.save(run / "tokenizer.json"); }

std::string look_at_rollouts(const recipe::Recipe& /*recipe*/, const std::string& run, const std::string& /*prompt*/) {
  return fmt::format("rollouts {}", run);
}

constexpr train::TaskEntry kTasks[] = {{.name = "reinforce",
                                        .reads_text = false,
                                        .plan = plan_reinforce,
                                        .make = make_reinforce,
                                        .write_beside = save_tokenizer_beside,
                                        .next_command = look_at_rollouts,
                                        .declare_options = declare_reinforce}};

}  // namespace

train::TaskEntries tasks() { return kTasks; }

}  // namespace longhaul::posttrain
