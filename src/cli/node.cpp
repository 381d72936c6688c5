// `longhaul node --driver HOST:PORT --secret FILE`
#include <filesystem>

#include "cli/command.h"
#include "control/node/node_daemon.h"

namespace longhaul::cli {

void add_node(Command& program) {
  auto options = std::make_shared<control::NodeOptions>();
  auto secret = std::make_shared<std::string>();
  auto root = std::make_shared<std::string>("/");
  Command node = program.add(
      "node", "start and watch ranks on this machine for a driver elsewhere",
      {{"eight ranks on this machine", "node --driver 10.0.0.1:29400 --secret job-secret --slots 8"},
       {"one that waits until another fails",
        "node --driver 10.0.0.1:29400 --secret job-secret --slots 8 --spare"},
       {"under a name of its own",
        "node --driver head:29400 --secret ~/job-secret --slots 4 --name rack-2"}});
  node.option("--driver", options->driver,
              "HOST:PORT of `launch --listen`, or a file that holds it (RUN/control/address)")
      .required();
  node.option("--secret", *secret,
              "a copy of the driver's RUN/control/secret, or the file of `launch key RUN NODE`; readable by "
              "you alone")
      .required();
  node.option("--slots", options->slots, "ranks that this machine can hold")
      .at_least(1)
      .at_most(1024)
      .default_shown();
  node.option("--name", options->name, "of this node in the run (default: its key's, else the machine's)");
  node.option("--patience", options->patience_s, "seconds for which ranks go on without a driver")
      .at_least(0)
      .default_shown();
  node.flag("--spare", options->spare, "wait until it is needed");
  node.flag("--shares-machine", options->shares_machine,
            "with other nodes of the run: its samples for `detect` are of its own ranks, not of the machine");
  node.option("--machine-root", *root,
              "where proc, sys and dev of the machine are, in a container that has the host's elsewhere")
      .default_shown();
  node.on_run([options, secret, root] {
    options->machine_root.folder = *root;
    options->secret = *secret;
    options->program = std::filesystem::canonical("/proc/self/exe").string();
    return control::NodeDaemon(*options).run();
  });
}

}  // namespace longhaul::cli
