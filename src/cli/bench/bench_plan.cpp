// `longhaul bench plan`
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "bench/plan_check.h"
#include "cli/command.h"
#include "cli/output.h"

namespace longhaul::cli {

void add_bench_plan(Command& group) {
  struct Options {
    bench::PlanCheckRequest request;
    std::string folder;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command check = group.add("plan",
                            "steps of small runs on this machine beside what the planner says of them: "
                            "layouts, sizes, memory; some minutes",
                            {{"33 runs on one to four ranks that are threads", "bench plan"},
                             {"keep what was found for later plans of this machine", "bench plan --keep"},
                             {"ranks that are processes, on a machine that does other things too",
                              "bench plan --processes --rounds 3"}});
  check.option("--steps", options->request.steps, "of each run").at_least(6).at_most(10000).default_shown();
  check.option("--rounds", options->request.rounds, "through all runs, of which a run's fastest counts")
      .at_least(1)
      .at_most(100)
      .default_shown();
  check.flag("--processes", options->request.processes, "ranks are processes that exchange over TCP");
  check.flag("--keep", options->request.keep,
             "use the constants found for plans of this machine from here on (plan --cluster local, the end "
             "of train)");
  check.option("--folder", options->folder, "for the runs, which stay there (default: a temporary one)");
  check.json_flag(options->json);
  check.on_run([options] {
    options->request.folder = options->folder;
    const bench::PlanCheck found = bench::check_plan(options->request);
    if (options->json) {
      print_json(bench::to_json(found));
    } else {
      print(bench::text_of(found, colours_wanted(stdout)));
    }
    return ExitCode::kDone;
  });
}

}  // namespace longhaul::cli
