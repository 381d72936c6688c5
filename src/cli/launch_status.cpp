// `longhaul launch status RUN [--json]`, `longhaul launch evict RUN RANK|NODE` and `longhaul launch key RUN
// NODE`
#include "cli/command.h"
#include "cli/output.h"
#include "control/driver/driver_client.h"
#include "control/wire/authentication.h"

namespace longhaul::cli {

void add_launch_status(Command& launch) {
  struct Arguments {
    std::string run;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Command status =
      launch.add("status", "what the ranks of a run are at, with their process numbers",
                 {{"of a run", "launch status runs/first-run"},
                  {"for machines", "launch status runs/first-run --json"},
                  {"the process of rank 3", "launch status runs/first-run --json | jq '.ranks[3].pid'"}});
  status.option("RUN", arguments->run, "a run folder").required();
  status.json_flag(arguments->json);
  status.on_run([arguments] {
    const control::RunStatus found = control::status_of_run(arguments->run);
    if (arguments->json) {
      print(found.text.ends_with('\n') ? found.text : found.text + "\n");
    } else {
      print(control::status_for_people(found.text));
      if (found.silent_driver) {
        print(fmt::format("process {} drives the run and does not answer; this is what it wrote last\n",
                          *found.silent_driver));
      } else if (!found.from_driver) {
        print("no driver runs on this machine; this is what the last one left\n");
      }
    }
    return ExitCode::kDone;
  });
}

void add_launch_evict(Command& launch) {
  struct Arguments {
    std::string run, target, reason = "asked for by hand";
  };
  auto arguments = std::make_shared<Arguments>();
  Command evict = launch.add(
      "evict", "let a node go, and go on without it or with a spare",
      {{"the node of rank 3", "launch evict runs/first-run 3"},
       {"a node by its name", "launch evict runs/first-run node-1"},
       {"with a reason for the record", "launch evict runs/first-run node-1 --reason 'fan is loud'"}});
  evict.option("RUN", arguments->run, "a run folder").required();
  evict.option("RANK|NODE", arguments->target, "a rank's number or a node's name").required();
  evict.option("--reason", arguments->reason, "for the journal").default_shown();
  evict.on_run([arguments] {
    control::ask_driver(arguments->run,
                        control::EvictRequest{.target = arguments->target, .reason = arguments->reason});
    print(fmt::format("the driver lets {} go\n", arguments->target));
    return ExitCode::kDone;
  });
}

void add_launch_key(Command& launch) {
  struct Arguments {
    std::string run, node, out;
  };
  auto arguments = std::make_shared<Arguments>();
  Command key =
      launch.add("key", "make the file with which one machine can be one node of a run, and nothing else",
                 {{"of the machine rack-2", "launch key runs/first-run rack-2 --out rack-2.key"},
                  {"used there", "node --driver 10.0.0.1:29400 --secret rack-2.key --slots 8"}});
  key.option("RUN", arguments->run, "a run folder, also of a run that has not begun").required();
  key.option("NODE", arguments->node, "the node's name").required();
  key.option("--out", arguments->out, "file to make (default: NODE.key)");
  key.on_run([arguments] {
    const std::filesystem::path file = arguments->out.empty() ? arguments->node + ".key" : arguments->out;
    control::write_node_key(std::filesystem::path(arguments->run) / "control", arguments->node, file);
    print(fmt::format("{}: the key of node {}; copy it there, readable by its user alone\n", file.string(),
                      arguments->node));
    return ExitCode::kDone;
  });
}

}  // namespace longhaul::cli
