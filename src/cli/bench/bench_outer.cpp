// `longhaul bench outer`
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "bench/models/outer.h"
#include "bench/models/outer_processes.h"
#include "cli/command.h"
#include "cli/output.h"

namespace longhaul::cli {

void add_bench_outer(Command& group) {
  struct Options {
    bench::OuterRequest request;
    int64_t workers = 0;
    double megabytes = 20;
    bool json = false;
    std::string as_rank;
  };
  auto options = std::make_shared<Options>();
  Command outer = group.add(
      "outer",
      "what CO2 and synchronous AdamW keep of their speed over slow links, in turns (exit 1: workers' "
      "weights differ)",
      {{"three workers over slower links", "bench outer --workers 3 --megabytes 5"},
       {"four processes, and how far calls differ", "bench outer --processes --workers 4 --calls 5"},
       {"for a script", "bench outer --json"}});
  outer
      .option("--workers", options->workers, "how many; 0: two, then four (--processes: one, two, then four)")
      .at_least(0)
      .at_most(64)
      .default_shown();
  outer.option("--megabytes", options->megabytes, "a second, that a worker's link passes either way")
      .at_least(0.001)
      .default_shown();
  outer.option("--layers", options->request.layers, "of the model").at_least(1).default_shown();
  outer.option("--hidden", options->request.hidden, "channels; a multiple of 8").at_least(32).default_shown();
  outer.option("--turns", options->request.turns, "of which the median counts").at_least(1).default_shown();
  outer.option("--rounds", options->request.rounds, "of CO2 that a turn times").at_least(1).default_shown();
  outer
      .option("--calls", options->request.calls,
              "each afresh; what is kept is their median, with the least and the most")
      .at_least(1)
      .default_shown();
  outer.flag("--processes", options->request.processes, "workers are processes, else threads of this one");
  outer.option("--as-rank", options->as_rank, "").hidden();
  outer.json_flag(options->json, "print one JSON object a line");
  outer.on_run([options] {
    if (!options->as_rank.empty()) {
      bench::measure_outer_as_rank(options->as_rank);
      return ExitCode::kDone;
    }
    options->request.bytes_per_second = options->megabytes * 1e6;
    if (options->request.processes) options->request.workers = {1, 2, 4};
    if (options->workers > 0) options->request.workers = {options->workers};
    const std::vector<bench::OuterRow> rows = bench::measure_outer(options->request);
    if (options->json) {
      for (const bench::OuterRow& row : rows) print_json(bench::to_json(options->request, row));
    } else {
      print(bench::table_of(options->request, rows).text(colours_wanted(stdout)));
    }
    return std::ranges::all_of(rows, &bench::OuterRow::same_weights) ? ExitCode::kDone
                                                                     : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli
