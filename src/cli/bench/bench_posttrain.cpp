// `longhaul bench posttrain`: steps of fine-tuning, LoRA and reinforcement learning beside pre-training.
#include <memory>

#include "base/terminal.h"
#include "bench/models/posttrain.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/register.h"

namespace longhaul::cli {

void add_bench_posttrain(Command& group) {
  struct Options {
    bench::PosttrainRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command posttrain =
      group.add("posttrain", "steps of fine-tuning, LoRA and reinforcement learning beside pre-training",
                {{"a small hybrid", "bench posttrain"},
                 {"a wider one, with longer rows", "bench posttrain --sequence 1024 model.hidden=512"},
                 {"for a script", "bench posttrain --json"}});
  bench::PosttrainRequest& request = options->request;
  posttrain.option("--steps", request.steps, "timed steps of each run").at_least(1).default_shown();
  posttrain.option("--rounds", request.rounds, "runs of each way, which take turns")
      .at_least(1)
      .default_shown();
  posttrain.option("--sequence", request.sequence, "tokens of a row")
      .at_least(96)
      .at_most(1 << 20)
      .default_shown();
  posttrain.option("--batch", request.batch, "rows of a step").at_least(1).default_shown();
  posttrain.option("--answer", request.answer, "most tokens of an answer that is rewarded")
      .at_least(1)
      .default_shown();
  posttrain.overrides(request.overrides);
  posttrain.json_flag(options->json, "print one JSON object a line");
  posttrain.on_run([options] {
    const std::vector<bench::PosttrainLine> lines = bench::bench_posttrain(options->request, tasks());
    if (options->json) {
      for (const bench::PosttrainLine& line : lines) print_json(bench::to_json(line));
    } else {
      print(bench::table_of(lines).text(colours_wanted(stdout)));
    }
    return ExitCode::kDone;
  });
}

}  // namespace longhaul::cli
