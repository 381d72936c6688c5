#include "cli/bench/bench_recovery.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "bench/driver/recovery.h"
#include "cli/output.h"
#include "control/simulation/simulation.h"

namespace longhaul::cli {
namespace {

// One schedule, told: what was done to the run and what the driver said.
ExitCode tell(uint64_t seed) {
  control::SimulationOptions options = control::quick_schedule(seed);
  options.tells = true;
  const control::SimulationResult result = control::simulate(options);
  for (const std::string& line : result.story) print(line + "\n");
  for (const std::string& line : result.broken) print("BROKEN " + line + "\n");
  print(result.text + "\n");
  return result.broken.empty() ? ExitCode::kDone : ExitCode::kCheckFailed;
}

}  // namespace

void add_bench_recovery(Command& group) {
  struct Options {
    bench::RecoveryRequest request;
    int64_t seed = 0, tell = -1;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command recovery = group.add("recovery",
                               "the driver against random faults in virtual time, and effective training "
                               "rates (exit 1: an invariant did not hold)",
                               {{"10,000 schedules", "bench recovery"},
                                {"the story of one", "bench recovery --tell 7"},
                                {"rates with times measured on your machines",
                                 "bench recovery --schedules 100 --detect 0.2 --restart 12 --hang 61"}});
  recovery.option("--schedules", options->request.schedules, "how many")
      .at_least(0)
      .at_most(10'000'000)
      .default_shown();
  recovery.option("--seed", options->seed, "of the first").at_least(0).default_shown();
  recovery.option("--tell", options->tell, "play the schedule of this seed alone, and tell it").at_least(0);
  recovery.option("--detect", options->request.measured.detect_s, "seconds until a dead process is noticed")
      .at_least(0)
      .default_shown();
  recovery.option("--hang", options->request.measured.hang_s, "seconds until a hang is noticed")
      .at_least(0)
      .default_shown();
  recovery.option("--diagnose", options->request.measured.diagnose_s, "seconds until the verdict")
      .at_least(0)
      .default_shown();
  recovery.option("--restart", options->request.measured.restart_s, "seconds from there to the next step")
      .at_least(0)
      .default_shown();
  recovery
      .option("--save", options->request.measured.save_s, "seconds that a checkpoint in memory blocks a step")
      .at_least(0)
      .default_shown();
  recovery.json_flag(options->json, "print one JSON object");
  recovery.on_run([options] {
    if (options->tell >= 0) return tell(static_cast<uint64_t>(options->tell));
    options->request.seed = static_cast<uint64_t>(options->seed);
    const bench::Recovery measured = bench::measure_recovery(options->request);
    if (options->json)
      print_json(bench::to_json(measured));
    else
      print(bench::text_of(measured, colours_wanted(stdout)));
    return measured.good() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli
