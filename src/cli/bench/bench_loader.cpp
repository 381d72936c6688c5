// `longhaul bench loader`
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "bench/loader.h"
#include "cli/command.h"
#include "cli/output.h"

namespace longhaul::cli {

void add_bench_loader(Command& group) {
  struct Options {
    bench::LoaderRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command loader =
      group.add("loader",
                "what ranks that want the same rows read of a slow disk, each for itself and one for all "
                "(exit 1: a batch differs)",
                {{"eight readers", "bench loader"},
                 {"two, of a disk that takes half of a step for each", "bench loader --readers 2 --read 0.5"},
                 {"for a script", "bench loader --json"}});
  loader.option("--readers", options->request.readers, "of the same rows of each step")
      .at_least(2)
      .at_most(64)
      .default_shown();
  loader.option("--steps", options->request.steps, "that they take together")
      .at_least(2)
      .at_most(10000)
      .default_shown();
  loader.option("--seconds", options->request.step_s, "that a step computes").at_least(0.001).default_shown();
  loader.option("--read", options->request.read, "of these, what the disk takes for one reader's rows")
      .at_least(0.001)
      .default_shown();
  loader.json_flag(options->json, "print one JSON object a line");
  loader.on_run([options] {
    const std::vector<bench::LoaderRow> rows = bench::measure_loader(options->request);
    if (options->json) {
      for (const bench::LoaderRow& row : rows) print_json(bench::to_json(options->request, row));
    } else {
      print(bench::table_of(options->request, rows).text(colours_wanted(stdout)));
    }
    return std::ranges::all_of(rows, &bench::LoaderRow::same_batches) ? ExitCode::kDone
                                                                      : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli
