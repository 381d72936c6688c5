#include "checkpoint/run_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text/text.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/saved_recipe.h"
#include "layout/parameters.h"
#include "storage/catalog.h"

namespace longhaul::checkpoint {
namespace {

namespace fs = std::filesystem;

enum class Owner { kModel, kOptimizer, kTask };
Owner owner_of(const std::string& name) {
  if (name.starts_with(kOptimizerPrefix)) return Owner::kOptimizer;
  return name.starts_with(kTaskPrefix) ? Owner::kTask : Owner::kModel;
}

std::map<int64_t, fs::path> checkpoints_by_step(const fs::path& run) {
  std::map<int64_t, fs::path> found;
  for (const auto& summary : storage::list_checkpoints(storage::local_file_system(), run / "checkpoints")) {
    // newest first: of one step the newest stays
    if (summary.usable()) found.emplace(summary.name.step, summary.path);
  }
  return found;
}

// Where each logical tensor stands in the model; empty when the checkpoint does not say which model it holds.
std::map<std::string, size_t> model_order(const storage::Checkpoint& checkpoint) {
  std::map<std::string, size_t> order;
  if (!checkpoint.manifest().recipe.contains("toml")) return order;
  for (const auto& spec : layout::parameters(saved_recipe(checkpoint).recipe.model))
    order.emplace(spec.tensor.name, order.size());
  return order;
}

void sort_by_model(std::vector<storage::TensorDifference>& tensors,
                   const std::map<std::string, size_t>& order) {
  const auto place = [&](const std::string& stored) {
    std::string name = stored;
    if (owner_of(stored) == Owner::kOptimizer) {  // "optimizer.<kind>.<tensor>"
      const size_t dot = stored.find('.', kOptimizerPrefix.size());
      if (dot != std::string::npos) name = stored.substr(dot + 1);
    }
    const auto found = order.find(name);
    return std::tuple(owner_of(stored), found == order.end() ? order.size() : found->second, stored);
  };
  std::sort(tensors.begin(), tensors.end(),
            [&](const auto& a, const auto& b) { return place(a.name) < place(b.name); });
}

// As a word of a shell. `more`: added to the path.
std::string word(const fs::path& run, const std::string& more = "") {
  return shell_quoted(run.string() + more);
}

std::string rerun(const fs::path& run, int64_t step) {
  return program_command(
      fmt::format("train {0} train.checkpoint_every={1} train.checkpoint_keep_every={1} --run {2}",
                  word(run, "/recipe.toml"), step, word(run, "-again")));
}

std::string again(const fs::path& first, const char* first_more, const fs::path& second,
                  const char* second_more) {
  return program_command(fmt::format("compare {} {}", word(first, first_more), word(second, second_more)));
}

// One of the runs may have a checkpoint at or after the step already; then the other one alone is done again.
std::vector<std::string> commands_for(const fs::path& first_run, const fs::path& second_run,
                                      const std::map<int64_t, fs::path>& first,
                                      const std::map<int64_t, fs::path>& second, int64_t first_step) {
  const auto in_first = first.lower_bound(first_step), in_second = second.lower_bound(first_step);
  const bool first_has = in_first != first.end(), second_has = in_second != second.end();
  const bool use_first = first_has && (!second_has || in_first->first <= in_second->first);
  if (use_first) {
    return {rerun(second_run, in_first->first), again(first_run, "", second_run, "-again")};
  }
  if (second_has) {
    return {rerun(first_run, in_second->first), again(first_run, "-again", second_run, "")};
  }
  return {rerun(first_run, first_step), rerun(second_run, first_step),
          again(first_run, "-again", second_run, "-again")};
}

const storage::TensorDifference* first_owned_by(const std::vector<storage::TensorDifference>& tensors,
                                                Owner owner) {
  const auto found =
      std::ranges::find(tensors, owner, [](const auto& tensor) { return owner_of(tensor.name); });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace

const storage::TensorDifference* RunDifference::first_weight() const {
  return first_owned_by(difference.tensors, Owner::kModel);
}
const storage::TensorDifference* RunDifference::first_optimizer() const {
  return first_owned_by(difference.tensors, Owner::kOptimizer);
}
const storage::TensorDifference* RunDifference::first_task() const {
  return first_owned_by(difference.tensors, Owner::kTask);
}

const storage::TensorDifference* RunDifference::largest() const {
  const auto& tensors = difference.tensors;
  const auto found = std::max_element(tensors.begin(), tensors.end(),
                                      [](const auto& a, const auto& b) { return a.maximum < b.maximum; });
  return found == tensors.end() || found->different == 0 ? nullptr : &*found;
}

RunDifference compare_runs(const fs::path& first_run, const fs::path& second_run, int64_t first_step) {
  const auto first = checkpoints_by_step(first_run), second = checkpoints_by_step(second_run);
  auto& files = storage::local_file_system();
  RunDifference result;
  for (const auto& [step, path] : first) {
    const auto other = second.find(step);
    if (other == second.end()) continue;
    const auto left = storage::Checkpoint::open(files, path),
               right = storage::Checkpoint::open(files, other->second);
    storage::CheckpointDifference difference = storage::diff(left, right);
    if (difference.same()) {
      result.equal_steps.push_back(step);
      continue;
    }
    sort_by_model(difference.tensors, model_order(left));
    result.step = step;
    result.difference = std::move(difference);
    return result;
  }
  const bool seen = !result.equal_steps.empty() && result.equal_steps.back() >= first_step;
  if (first_step > 0 && !seen)
    result.commands = commands_for(first_run, second_run, first, second, first_step);
  return result;
}

}  // namespace longhaul::checkpoint
