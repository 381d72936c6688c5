// `longhaul bench puzzles`
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "base/terminal.h"
#include "bench/puzzles.h"
#include "cli/command.h"
#include "cli/output.h"

namespace longhaul::cli {

void add_bench_puzzles(Command& group) {
  struct Options {
    bench::PuzzleRatesRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command rates =
      group.add("puzzles", "puzzles made and answers judged a second and core, task by task, beside goals",
                {{"all tasks", "bench puzzles"},
                 {"beside reasoning-gym, where it has the task", "bench puzzles --peer"},
                 {"two tasks, for a script", "bench puzzles sudoku kukurasu --count 1000 --json"}});
  rates.option("TASK", options->request.tasks, "keys of `puzzles list`; all when none is named");
  rates.option("--count", options->request.count, "puzzles of each setting")
      .at_least(1)
      .at_most(1000000)
      .default_shown();
  rates.flag("--peer", options->request.peer,
             "also reasoning-gym's generators, with the Python of scripts/peer-python");
  rates.json_flag(options->json, "print one JSON object a line");
  rates.on_run([options] {
    Progress progress("settings", static_cast<int64_t>(bench::puzzle_settings().size()));
    const auto measured = bench::measure_puzzles(options->request, [&] { progress.advance(1); });
    const double mean = bench::geometric_mean_of_ratios(measured);
    if (options->json) {
      for (const bench::PuzzleRate& rate : measured) print_json(bench::to_json(rate));
      if (mean > 0) print_json({{"name", "geometric_mean"}, {"made_ratio", mean}});
    } else {
      print(bench::table_of(measured).text(colours_wanted(stdout)));
      if (mean > 0) print(fmt::format("Geometric mean of the ratios: {:.1f}\n", mean));
    }
    return ExitCode::kDone;
  });
}

}  // namespace longhaul::cli
