#include "language/tasks.h"

#include <fmt/format.h>

#include "language/decoder_plan.h"
#include "language/pretrain.h"
#include "language/recall.h"
#include "train/offload.h"

namespace longhaul::language {
namespace {

template <class SomeTask>
std::unique_ptr<train::Task> offloading(std::unique_ptr<SomeTask> task, const train::TaskRequest& request) {
  task->set_offload(train::make_offload(request.recipe.train, request.cache, task->parameters()));
  return task;
}

std::unique_ptr<train::Task> make_pretrain(const train::TaskRequest& request) {
  return offloading(std::make_unique<Pretrain>(request.recipe, request.data, request.cache / "packing",
                                               request.device, request.ranks, request.share),
                    request);
}

std::unique_ptr<train::Task> make_recall(const train::TaskRequest& request) {
  return offloading(std::make_unique<Recall>(request.recipe, request.device, request.ranks), request);
}

std::unique_ptr<train::ModelPlan> plan_decoder(const recipe::Recipe& recipe) {
  return std::make_unique<DecoderPlan>(recipe);
}

std::string use_text_model(const recipe::Recipe& recipe, const std::string& run, const std::string& prompt) {
  if (recipe.train.objective != recipe::Objective::kNext) return fmt::format("evaluate {} --data PATH", run);
  return fmt::format("sample {} --prompt {} --tokens 100", run, prompt);
}

std::string use_recall_model(const recipe::Recipe& recipe, const std::string& run,
                             const std::string& /*prompt*/) {
  return fmt::format("evaluate {} --task {}", run, recipe::name_of_value(recipe.recall.kind));
}

constexpr train::TaskEntry kTasks[] = {{.name = "pretrain",
                                        .reads_text = true,
                                        .plan = plan_decoder,
                                        .make = make_pretrain,
                                        .write_beside = train::save_tokenizer,
                                        .next_command = use_text_model},
                                       {.name = "recall",
                                        .reads_text = false,
                                        .plan = plan_decoder,
                                        .make = make_recall,
                                        .write_beside = train::save_tokenizer,
                                        .next_command = use_recall_model}};

}  // namespace

train::TaskEntries tasks() { return kTasks; }

}  // namespace longhaul::language
