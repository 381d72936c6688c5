#include "train/tasks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "train/offload.h"
#include "train/pretrain.h"
#include "train/recall.h"

namespace longhaul::train {
namespace {

struct ListedTask {
  std::string_view name;
  bool reads_text;
  std::unique_ptr<Task> (*make)(const TaskRequest&);
};

template <class SomeTask>
std::unique_ptr<Task> offloading(std::unique_ptr<SomeTask> task, const TaskRequest& request) {
  task->set_offload(make_offload(request.recipe.train, request.cache, task->parameters()));
  return task;
}

constexpr ListedTask kTasks[] = {
    {"pretrain", true,
     [](const TaskRequest& request) -> std::unique_ptr<Task> {
       return offloading(std::make_unique<Pretrain>(request.recipe, request.data, request.cache / "packing", request.device, request.ranks,
                                                    request.share),
                         request);
     }},
    {"recall", false,
     [](const TaskRequest& request) -> std::unique_ptr<Task> {
       return offloading(std::make_unique<Recall>(request.recipe, request.device, request.ranks), request);
     }},
};

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const ListedTask& task : kTasks) names.emplace_back(task.name);
  return names;
}

void refuse_unknown_task(const std::string& name) {
  if (std::ranges::find(kTasks, name, &ListedTask::name) != std::end(kTasks)) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown task",
               .expected = fmt::format("{}", fmt::join(task_names(), ", ")),
               .found = name,
               .where = "train.task"});
}

bool reads_text(const std::string& task) {
  refuse_unknown_task(task);
  return std::ranges::find(kTasks, task, &ListedTask::name)->reads_text;
}

std::unique_ptr<Task> make_task(const TaskRequest& request) {
  refuse_unknown_task(request.recipe.train.task);
  return std::ranges::find(kTasks, request.recipe.train.task, &ListedTask::name)->make(request);
}

}  // namespace longhaul::train
