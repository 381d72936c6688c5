#include "cli/register.h"

namespace longhaul::cli {

void add_train(CLI::App& program, Command& command);
void add_sample(CLI::App& program, Command& command);
void add_score(CLI::App& program, Command& command);
void add_evaluate(CLI::App& program, Command& command);
void add_tokenizer(CLI::App& program, Command& command);
void add_data(CLI::App& program, Command& command);
void add_config(CLI::App& program, Command& command);
void add_checkpoint(CLI::App& program, Command& command);
void add_compare(CLI::App& program, Command& command);
void add_doctor(CLI::App& program, Command& command);
void add_bench(CLI::App& program, Command& command);
void add_test(CLI::App& program, Command& command);

namespace {

using Add = void (*)(CLI::App&, Command&);

struct Group {
  const char* heading;
  std::vector<Add> commands;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"Train and use", {add_train, add_sample, add_score, add_evaluate}},
      {"Prepare", {add_config, add_tokenizer, add_data}},
      {"Look after runs", {add_checkpoint, add_compare}},
      {"This machine", {add_doctor, add_bench, add_test}},
  };
  return all;
}

}  // namespace

void register_commands(CLI::App& program, Command& command) {
  for (const Group& group : groups()) {
    const size_t before = program.get_subcommands({}).size();
    for (const Add add : group.commands) add(program, command);
    const auto all = program.get_subcommands({});
    for (size_t i = before; i < all.size(); ++i) all[i]->group(group.heading);
  }
}

}  // namespace longhaul::cli
