// `longhaul bench faults`
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "bench/driver/faults.h"
#include "cli/command.h"
#include "cli/output.h"

namespace longhaul::cli {

void add_bench_faults(Command& group) {
  struct Options {
    bench::FaultsRequest request;
    std::string folder, ranks;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command faults =
      group.add("faults",
                "whether a run under `launch` comes back from crashes, hangs, full disks, killed nodes and "
                "drivers, and how fast "
                "(exit 1: one was not recovered, or lost something)",
                {{"thirty faults in three runs of four ranks", "bench faults"},
                 {"a thousand, keeping what failed to look at",
                  "bench faults --count 1000 --seed 7 --folder /tmp/faults"},
                 {"runs of 4, 8 and 16 ranks in turn, for a script", "bench faults --ranks 4,8,16 --json"}});
  faults.option("--count", options->request.count, "faults").at_least(1).at_most(100000).default_shown();
  faults.option("--seed", options->request.seed, "of kinds, places, ranks and their order").default_shown();
  faults.option("--ranks", options->ranks,
                "processes of a run; several numbers: of the runs in turn (default: 4)");
  faults.option("--faults-a-run", options->request.faults_a_run, "one after the other")
      .at_least(1)
      .at_most(100)
      .default_shown();
  faults
      .option("--beside", options->request.beside,
              "runs beside each other; times are a quiet machine's with 1 alone")
      .at_least(1)
      .at_most(64)
      .default_shown();
  faults.option("--folder", options->folder,
                "for the runs; those that failed a check stay there (default: a temporary one)");
  faults.json_flag(options->json, "print one JSON object a fault");
  faults.on_run([options] {
    if (!options->ranks.empty()) options->request.ranks = bench::rank_counts(options->ranks);
    options->request.folder = options->folder;
    const std::vector<bench::DrillOutcome> outcomes = bench::measure_faults(options->request);
    if (options->json) {
      for (const bench::DrillOutcome& outcome : outcomes) print_json(bench::to_json(outcome));
    } else {
      print(bench::table_of(outcomes).text(colours_wanted(stdout)));
      for (const bench::DrillOutcome& outcome : outcomes) {
        if (!outcome.good())
          print(fmt::format("{} at {} of rank {}, step {}: {}\n", outcome.drill.kind, outcome.drill.place,
                            outcome.drill.rank, outcome.drill.step, outcome.problem));
      }
    }
    return std::ranges::all_of(outcomes, &bench::DrillOutcome::good) ? ExitCode::kDone
                                                                     : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli
