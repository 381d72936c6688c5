// `longhaul puzzles list`: the tasks that there are, or the knobs of one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "cli/output.h"
#include "cli/puzzles/verbs.h"
#include "observe/table.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct ListArguments {
  std::string task;
  bool json = false;
};

void print_all() {
  observe::Table table("puzzles", {{"key"}, {"puzzle"}, {"answer"}, {"knobs"}});
  for (const puzzles::TaskEntry* task : puzzles::tasks()) {
    std::vector<std::string_view> names;
    for (const puzzles::Knob& knob : task->knobs) names.push_back(knob.name);
    table.row({std::string(task->key), std::string(task->title),
               std::string(puzzles::text_of(task->uniqueness)), fmt::format("{}", fmt::join(names, ", "))});
  }
  print(table.text(colours_wanted(stdout)));
}

void print_knobs(const puzzles::TaskEntry& task) {
  observe::Table table(fmt::format("{}: {}", task.key, task.title), {{"knob"},
                                                                     {"level 0", observe::Align::kRight},
                                                                     {"level 10", observe::Align::kRight},
                                                                     {"may be", observe::Align::kRight},
                                                                     {"what it is"}});
  for (const puzzles::Knob& knob : task.knobs) {
    table.row({std::string(knob.name), std::to_string(knob.easiest), std::to_string(knob.hardest),
               fmt::format("{} to {}", knob.least, knob.most), std::string(knob.says)});
  }
  print(table.text(colours_wanted(stdout)));
}

ExitCode list_tasks(const ListArguments& arguments) {
  if (arguments.json) {
    print_json(arguments.task.empty() ? puzzles::tasks_json()
                                      : nlohmann::ordered_json::array(
                                            {puzzles::task_json(puzzles::task_named(arguments.task))}));
  } else if (arguments.task.empty()) {
    print_all();
  } else {
    print_knobs(puzzles::task_named(arguments.task));
  }
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_list(Command& group) {
  auto arguments = std::make_shared<ListArguments>();
  Command list = group.add("list", "the tasks, or the knobs of one",
                           {{"all tasks", "puzzles list"},
                            {"the knobs of one", "puzzles list sudoku"},
                            {"for a script", "puzzles list --json"}});
  list.option("TASK", arguments->task, "a key of the list");
  list.json_flag(arguments->json);
  list.on_run([arguments] { return list_tasks(*arguments); });
}

}  // namespace longhaul::cli
