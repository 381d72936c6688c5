// `longhaul plan …`: what can be known before a run, or learned from many. Each subcommand has a file of its own.
#include "cli/command.h"

namespace longhaul::cli {

void add_plan_scaling(Command& group);

void add_plan(Command& program) {
  Command plan = program.add_group("plan", "what can be known of runs before they are made",
                                   {{"laws of loss against compute, of runs of several sizes", "plan scaling runs/scaling/*"},
                                    {"the same as JSON", "plan scaling runs/scaling/* --json"},
                                    {"the laws that a study of linear models published", "plan scaling --study"}});
  add_plan_scaling(plan);
}

}  // namespace longhaul::cli
