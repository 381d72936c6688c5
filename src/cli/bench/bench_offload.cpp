// `longhaul bench offload`: what layers keep, made again or on the host, beside keeping it in memory.
#include <algorithm>
#include <memory>

#include "base/terminal.h"
#include "bench/models/offload.h"
#include "cli/command.h"
#include "cli/output.h"

namespace longhaul::cli {

void add_bench_offload(Command& group) {
  struct Options {
    bench::OffloadRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command offload = group.add(
      "offload",
      "passes that keep activations, make them again, or move them to the host (exit 1: other gradients)",
      {{"a hybrid of eight layers, over a link of 1 GB/s", "bench offload model.layers=8"},
       {"softmax attention alone, over a slow link",
        "bench offload --preset gpt2-124m --sequence 1024 --link-gb-per-s 0.2"},
       {"for a script", "bench offload model.layers=4 --sequence 512 --json"}});
  bench::OffloadRequest& request = options->request;
  offload.option("--preset", request.preset, "model: see presets/").default_shown();
  offload.option("--sequence", request.sequence, "tokens of a pass")
      .at_least(2)
      .at_most(1 << 24)
      .default_shown();
  offload.option("--rounds", request.rounds, "timed passes of each way").at_least(1).default_shown();
  offload
      .option("--link-gb-per-s", request.link_gb_per_s,
              "what the second tier of memory is slowed to, in each direction; 0: not at all")
      .at_least(0)
      .default_shown();
  offload.option("--seed", request.seed, "of weights and tokens").default_shown();
  offload.overrides(request.overrides);
  offload.json_flag(options->json, "print one JSON object a line");
  offload.on_run([options] {
    const std::vector<bench::OffloadLine> lines = bench::bench_offload(options->request);
    if (options->json) {
      for (const bench::OffloadLine& line : lines) print_json(bench::to_json(line));
    } else {
      print(bench::table_of(lines).text(colours_wanted(stdout)));
    }
    return std::ranges::all_of(lines, &bench::OffloadLine::same_gradients) ? ExitCode::kDone
                                                                           : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli
