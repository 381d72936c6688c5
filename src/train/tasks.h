// Tasks by name: the one list of what train.task can name. The option itself lists the same names (recipe/sections/train_options.cpp); a test compares.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/run_data.h"
#include "parallel/ranks.h"
#include "recipe/recipe.h"
#include "train/task.h"

namespace longhaul::train {

// What a task is made from. `data` and `ranks` must outlive it.
struct TaskRequest {
  const recipe::Recipe& recipe;
  const data::RunData& data;
  std::filesystem::path cache;  // for what can be worked out again
  at::Device device;
  const parallel::Ranks& ranks;
  std::shared_ptr<data::BatchShare> share{};  // with other ranks of this machine that read the same rows; null: none does
};

std::unique_ptr<Task> make_task(const TaskRequest& request);  // with untrained parameters
std::vector<std::string> task_names();
bool reads_text(const std::string& task);           // of [data]; a task that does not makes what it learns, and its RunData is empty
void refuse_unknown_task(const std::string& name);  // kUsage, naming those that are known

}  // namespace longhaul::train
