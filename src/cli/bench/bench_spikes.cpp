// `longhaul bench spikes`
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "bench/models/spikes.h"
#include "cli/command.h"
#include "cli/output.h"
#include "recipe/architecture/spikes.h"

namespace longhaul::cli {

void add_bench_spikes(Command& group) {
  struct Options {
    bench::SpikesRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command spikes = group.add(
      "spikes",
      "products with counts of spikes: bf16, whole numbers, and events that skip zeros (exit 1: they differ)",
      {{"one token, a matrix of a model of 0.5B", "bench spikes"},
       {"a prompt, fewer counts", "bench spikes --tokens 256 --k 2"},
       {"for a script", "bench spikes --in 896 --out 896 --json"}});
  spikes.option("--tokens", options->request.tokens, "rows of the input").at_least(1).default_shown();
  spikes.option("--in", options->request.in, "channels of the input").at_least(1).default_shown();
  spikes.option("--out", options->request.out, "of the result").at_least(1).default_shown();
  spikes.option("--copies", options->request.copies, "of the weights, that take turns")
      .at_least(1)
      .default_shown();
  spikes.option("--k", options->request.k, "counts of a channel, on average")
      .above(0)
      .at_most(recipe::kMostSpikeK)
      .default_shown();
  spikes.option("--runs", options->request.runs, "of which the median counts").at_least(1).default_shown();
  spikes.option("--seed", options->request.seed, "of weights and inputs").default_shown();
  spikes.json_flag(options->json, "print one JSON object");
  spikes.on_run([options] {
    const bench::SpikesResult result = bench::measure_spikes(options->request);
    if (options->json)
      print_json(bench::to_json(options->request, result));
    else
      print(bench::table_of(options->request, result).text(colours_wanted(stdout)));
    return result.correct() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli
