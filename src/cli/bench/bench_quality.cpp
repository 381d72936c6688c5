// `longhaul bench quality`
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/process/signals.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "bench/models/quality.h"
#include "cli/command.h"
#include "cli/output.h"

namespace longhaul::cli {

void add_bench_quality(Command& group) {
  struct Options {
    bench::QualityRequest request;
    std::string folder = "runs/bench-quality";
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command quality = group.add("quality",
                              "how low optimizers, outer loops and narrow states come at equal tokens; "
                              "hours, and goes on where it was stopped",
                              {{"everything", "bench quality"},
                               {"optimizers alone, with another text",
                                "bench quality --part optimizers data.source=/a/folder/of/text"},
                               {"for a script", "bench quality --part outer --seeds 5 --json"}});
  std::vector<std::string> names;
  for (const bench::QualityPart& part : bench::quality_parts(options->request.steps))
    names.push_back(part.name);
  quality
      .option(
          "--part", options->request.parts,
          fmt::format("one of {}; may be given several times; all when it is not", fmt::join(names, ", ")))
      .one_each();
  quality.option("--steps", options->request.steps, "of a run; some parts have more or fewer")
      .at_least(20)
      .at_most(1 << 20)
      .default_shown();
  quality.option("--seeds", options->request.seeds, "of each row, beside the two that pick learning rates")
      .at_least(1)
      .at_most(100)
      .default_shown();
  quality.option("--folder", options->folder, "where results are kept; the same one goes on").default_shown();
  quality.overrides(options->request.overrides);
  quality.json_flag(options->json, "print one JSON object a line");
  quality.on_run([options] {
    install_signal_handlers();
    options->request.folder = options->folder;
    bench::measure_quality(
        options->request, bench::quality_runner(options->request), [&](const bench::QualityOfPart& part) {
          const ProgressPause pause;
          if (!options->json)
            return print(bench::table_of(options->request, part).text(colours_wanted(stdout)) + "\n");
          for (const bench::QualityResult& row : part.rows)
            print_json(bench::to_json(options->request, part, row));
        });
    return ExitCode::kDone;
  });
}

}  // namespace longhaul::cli
