#include "cli/register.h"

#include "language/tasks.h"
#include "posttrain/tasks.h"

namespace longhaul::cli {

void add_train(Command& program);
void add_launch(Command& program);
void add_node(Command& program);
void add_sample(Command& program);
void add_chat(Command& program);
void add_serve(Command& program);
void add_score(Command& program);
void add_rewards(Command& program);
void add_evaluate(Command& program);
void add_convert(Command& program);
void add_import(Command& program);
void add_export(Command& program);
void add_tokenizer(Command& program);
void add_data(Command& program);
void add_puzzles(Command& program);
void add_config(Command& program);
void add_plan(Command& program);
void add_checkpoint(Command& program);
void add_compare(Command& program);
void add_trace(Command& program);
void add_rollouts(Command& program);
void add_watch(Command& program);
void add_detect(Command& program);
void add_prove(Command& program);
void add_footprint(Command& program);
void add_doctor(Command& program);
void add_diagnose(Command& program);
void add_bench(Command& program);
void add_test(Command& program);

namespace {

using Add = void (*)(Command&);

struct Group {
  const char* heading;
  std::vector<Add> commands;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"Train and use",
       {add_train, add_launch, add_node, add_sample, add_chat, add_serve, add_score, add_rewards,
        add_evaluate}},
      {"Prepare",
       {add_config, add_plan, add_tokenizer, add_data, add_puzzles, add_import, add_export, add_convert}},
      {"Look after runs",
       {add_watch, add_checkpoint, add_compare, add_trace, add_rollouts, add_detect, add_prove,
        add_footprint}},
      {"This machine", {add_doctor, add_diagnose, add_bench, add_test}},
  };
  return all;
}

}  // namespace

train::TaskEntries tasks() {
  static const std::vector<train::TaskEntry> all = [] {
    std::vector<train::TaskEntry> entries;
    for (const train::TaskEntries domain : {language::tasks(), posttrain::tasks()})
      entries.insert(entries.end(), domain.begin(), domain.end());
    return entries;
  }();
  return all;
}

std::string what_is_missing() { return ""; }

void register_commands(Command& program) {
  train::declare_options(tasks());
  for (const Group& group : groups()) {
    program.heading(group.heading);
    for (const Add add : group.commands) add(program);
  }
}

}  // namespace longhaul::cli
