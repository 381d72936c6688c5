#include "train/task_entry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "tensor/libtorch_folder.h"

namespace longhaul::train {

void declare_options(TaskEntries known) {
  for (const TaskEntry& entry : known) {
    if (entry.declare_options != nullptr) recipe::add_outside_options(entry.declare_options);
  }
}

data::RunData open_data(const TaskEntry& task, const DataRequest& request) {
  if (task.open_data != nullptr) return task.open_data(request);
  return data::open_run_data(request.recipe.data, libtorch_folder(), request.cache);
}

void save_tokenizer(const data::RunData& data, const std::filesystem::path& run) {
  data.tokenizer.save(run / "tokenizer.json");
}

const TaskEntry& task_named(TaskEntries known, const std::string& name) {
  const auto found = std::ranges::find(known, name, &TaskEntry::name);
  if (found != known.end()) return *found;
  std::vector<std::string_view> names;
  for (const TaskEntry& task : known) names.push_back(task.name);
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown task",
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .found = name,
               .where = "train.task"});
}

}  // namespace longhaul::train
