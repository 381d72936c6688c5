// `longhaul compare`: two runs: the first step whose numbers differ, and the first tensor where their checkpoints do.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "cli/checkpoint_path.h"
#include "cli/command.h"
#include "observe/compare.h"
#include "storage/catalog.h"
#include "storage/diff.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Arguments {
  std::string first, second;
  bool json = false;
};

std::map<int64_t, fs::path> checkpoints_by_step(const fs::path& run) {
  std::map<int64_t, fs::path> found;
  for (const auto& summary : storage::list_checkpoints(storage::local_file_system(), run / "checkpoints", {.now_s = wall_time_s()})) {
    if (summary.usable()) found.emplace(summary.name.step, summary.path);  // newest first: of one step the newest stays
  }
  return found;
}

struct CheckpointComparison {
  int64_t compared = 0;  // steps at which both runs have a checkpoint, up to the first that differs
  std::optional<int64_t> step;
  storage::CheckpointDifference difference;
};

CheckpointComparison compare_checkpoints(const fs::path& first_run, const fs::path& second_run) {
  const auto first = checkpoints_by_step(first_run), second = checkpoints_by_step(second_run);
  CheckpointComparison result;
  for (const auto& [step, path] : first) {
    const auto other = second.find(step);
    if (other == second.end()) continue;
    ++result.compared;
    auto& files = storage::local_file_system();
    storage::CheckpointDifference difference =
        storage::diff(storage::Checkpoint::open(files, path), storage::Checkpoint::open(files, other->second));
    if (difference.same()) continue;
    result.step = step;
    result.difference = std::move(difference);
    break;
  }
  return result;
}

ordered_json json_of(const observe::Comparison& events, const CheckpointComparison& checkpoints, bool equal) {
  ordered_json fields = ordered_json::array();
  for (const auto& field : events.differences) {
    fields.push_back({{"field", field.field}, {"step", field.step}, {"first", field.first}, {"second", field.second},
                      {"steps", field.steps}, {"largest", field.largest}, {"largest_step", field.largest_step}});
  }
  ordered_json json = {{"equal", equal},
                       {"steps_in_both", events.steps_in_both},
                       {"only_in_first", events.only_in_first},
                       {"only_in_second", events.only_in_second},
                       {"first_step", events.first_step()},
                       {"fields", fields},
                       {"checkpoints_compared", checkpoints.compared}};
  if (checkpoints.step) {
    json["checkpoint_step"] = *checkpoints.step;
    json["first_tensor"] = checkpoints.difference.tensors.front().name;
    json["checkpoint"] = cli::json_of(checkpoints.difference);
  }
  return json;
}

std::string text_of(const CheckpointComparison& checkpoints) {
  if (checkpoints.compared == 0) return "no step has a checkpoint in both runs\n";
  if (!checkpoints.step) return fmt::format("checkpoints at {} steps: equal in every bit\n", checkpoints.compared);
  const auto& tensor = checkpoints.difference.tensors.front();
  const std::string how = tensor.kind == storage::TensorDifference::Kind::kValues
                              ? fmt::format("{} of {} elements, by {:.3g} at most", tensor.different, tensor.elements, tensor.maximum)
                              : fmt::format("{} {} {}", name_of(tensor.kind), tensor.left, tensor.right);
  return fmt::format("checkpoints first differ at step {}: tensor {} ({}), and {} more\n", *checkpoints.step, tensor.name, how,
                     checkpoints.difference.tensors.size() - 1);
}

}  // namespace

void add_compare(CLI::App& program, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* compare = add_command(program, "compare", "two runs: the first step and tensor that differ (exit 1 when one does)",
                                  {{"was the resumed run the same?", "compare runs/whole runs/resumed"},
                                   {"two seeds", "compare runs/seed-0 runs/seed-1"},
                                   {"for a script", "compare runs/a runs/b --json"}});
  compare->add_option("RUN_A", arguments->first, "a run folder")->required();
  compare->add_option("RUN_B", arguments->second, "another")->required();
  add_json_flag(compare, arguments->json);
  on_run(compare, command, [arguments] {
    const observe::Comparison events = observe::compare(arguments->first, arguments->second);
    const CheckpointComparison checkpoints = compare_checkpoints(arguments->first, arguments->second);
    const bool equal = events.equal() && !checkpoints.step;
    if (arguments->json) {
      print_json(json_of(events, checkpoints, equal));
    } else {
      const std::string text = events.text();
      print((text.ends_with('\n') ? text : text + "\n") + text_of(checkpoints));
    }
    return equal ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli
