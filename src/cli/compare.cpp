// `longhaul compare`: two runs: the first step whose numbers differ, and the first tensor where their
// checkpoints do.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "checkpoint/run_difference.h"
#include "cli/checkpoint_json.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/events/event_comparison.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;

struct CompareArguments {
  std::string first, second;
  bool json = false;
};

ordered_json json_of(const observe::Comparison& events, const checkpoint::RunDifference& checkpoints,
                     bool equal) {
  ordered_json fields = ordered_json::array();
  for (const auto& field : events.differences) {
    fields.push_back({{"field", field.field},
                      {"step", field.step},
                      {"first", field.first},
                      {"second", field.second},
                      {"steps", field.steps},
                      {"largest", field.largest},
                      {"largest_step", field.largest_step}});
  }
  ordered_json json = {{"equal", equal},
                       {"steps_in_both", events.steps_in_both},
                       {"only_in_first", events.only_in_first.size()},
                       {"only_in_second", events.only_in_second.size()},
                       {"first_step", events.first_step()},
                       {"fields", fields},
                       {"equal_checkpoints", checkpoints.equal_steps}};
  if (checkpoints.step) {
    json["checkpoint_step"] = *checkpoints.step;
    json["first_tensor"] = checkpoints.difference.tensors.front().name;
    if (const auto* tensor = checkpoints.first_optimizer()) json["first_optimizer_tensor"] = tensor->name;
    if (const auto* tensor = checkpoints.first_task()) json["first_task_tensor"] = tensor->name;
    if (const auto* tensor = checkpoints.largest()) json["largest_tensor"] = tensor->name;
    json["checkpoint"] = cli::json_of(checkpoints.difference);
  }
  if (!checkpoints.commands.empty()) json["commands"] = checkpoints.commands;
  return json;
}

std::string text_of(const storage::TensorDifference& tensor) {
  if (tensor.kind != storage::TensorDifference::Kind::kValues) {
    return fmt::format("{} ({} {} {})", tensor.name, name_of(tensor.kind), tensor.left, tensor.right);
  }
  return fmt::format("{} ({} of {} elements, by {:.3g} at most)", tensor.name, tensor.different,
                     tensor.elements, tensor.maximum);
}

std::string text_of(const checkpoint::RunDifference& found, int64_t first_step) {
  std::string text;
  if (!found.equal_steps.empty())
    text +=
        fmt::format("checkpoints of step {} are equal in every bit\n", fmt::join(found.equal_steps, ", "));
  if (found.step) {
    text += fmt::format("checkpoints differ at step {}, in {}; in the order of the model:\n", *found.step,
                        counted(static_cast<int64_t>(found.difference.tensors.size()), "tensor"));
    const auto add = [&](const char* what, const storage::TensorDifference* tensor) {
      if (tensor != nullptr) text += fmt::format("  {:<16} {}\n", what, text_of(*tensor));
    };
    add("first tensor", found.first_weight());
    add("first optimizer", found.first_optimizer());
    add("first of task", found.first_task());
    add("largest", found.largest());
  } else if (!found.commands.empty()) {
    text += fmt::format(
        "no step from {} on has a checkpoint in both runs, so the tensor is not known. To find it (Ctrl-C "
        "once it is saved):\n",
        first_step);
    for (const std::string& command : found.commands) text += "  " + command + "\n";
  } else if (found.equal_steps.empty()) {
    text += "no step has a checkpoint in both runs\n";
  }
  return text;
}

}  // namespace

void add_compare(Command& program) {
  auto arguments = std::make_shared<CompareArguments>();
  Command compare =
      program.add("compare", "two runs: the first step and tensor that differ (exit 1 when one does)",
                  {{"was the resumed run the same?", "compare runs/whole runs/resumed"},
                   {"two seeds", "compare runs/seed-0 runs/seed-1"},
                   {"for a script", "compare runs/a runs/b --json"}});
  compare.option("RUN_A", arguments->first, "a run folder").required();
  compare.option("RUN_B", arguments->second, "another").required();
  compare.json_flag(arguments->json);
  compare.on_run([arguments] {
    const observe::Comparison events = observe::compare(arguments->first, arguments->second);
    const auto checkpoints =
        checkpoint::compare_runs(arguments->first, arguments->second, events.first_step());
    const bool equal = events.equal() && !checkpoints.step;
    if (arguments->json) {
      print_json(json_of(events, checkpoints, equal));
    } else {
      const std::string text = events.text();
      print((text.ends_with('\n') ? text : text + "\n") + text_of(checkpoints, events.first_step()));
    }
    return equal ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli
