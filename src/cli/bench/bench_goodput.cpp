// `longhaul bench goodput`
#include <memory>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "bench/driver/goodput.h"
#include "cli/command.h"
#include "cli/output.h"

namespace longhaul::cli {

void add_bench_goodput(Command& group) {
  struct Options {
    bench::GoodputRequest request;
    std::string folder;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command goodput = group.add(
      "goodput",
      "how much of its time a real run trains while its ranks are killed, queued again, restarted by the "
      "driver, and with checkpoints in memory, beside the formula",
      {{"an hour of each, a failure every two minutes", "bench goodput"},
       {"four minutes of each, keeping runs and logs", "bench goodput --minutes 4 --folder /tmp/goodput"},
       {"for a script", "bench goodput --json"}});
  goodput.option("--minutes", options->request.minutes, "of each way").at_least(0.5).default_shown();
  goodput
      .option("--mean", options->request.mean_to_failure_s, "seconds between failures, drawn exponentially")
      .at_least(1)
      .default_shown();
  goodput
      .option("--checkpoint", options->request.checkpoint_s, "seconds between checkpoints on the disk, about")
      .at_least(0.1)
      .default_shown();
  goodput.option("--queue", options->request.queue_s, "seconds that a job waits in the queue")
      .at_least(0)
      .default_shown();
  goodput.option("--seed", options->request.seed, "of the moments and the ranks that are killed")
      .default_shown();
  goodput.option("-n,--ranks", options->request.ranks, "processes, on two nodes; an even number")
      .at_least(2)
      .at_most(64)
      .default_shown();
  goodput.option("--folder", options->folder, "of the runs and their logs (default: a temporary one)");
  goodput.json_flag(options->json, "print one JSON object a way");
  goodput.on_run([options] {
    options->request.folder = options->folder;
    const std::vector<bench::GoodputRow> rows = bench::measure_goodput(options->request);
    if (options->json) {
      for (const bench::GoodputRow& row : rows) print_json(bench::to_json(row));
    } else {
      print(bench::table_of(options->request, rows).text(colours_wanted(stdout)));
    }
    return ExitCode::kDone;
  });
}

}  // namespace longhaul::cli
