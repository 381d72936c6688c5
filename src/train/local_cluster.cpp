#include "train/local_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/machine.h"
#include "base/text.h"
#include "observe/format.h"
#include "observe/run_history.h"
#include "plan/calibration.h"
#include "plan/step_time.h"
#include "tensor/machine_profile.h"

namespace longhaul::train {

plan::Cluster local_cluster(int64_t ranks) {
  const MachineProfile profile = measured_profile();
  const double share = 1 / static_cast<double>(std::max<int64_t>(1, ranks));
  plan::Cluster cluster{.name = "local", .gpus = std::max<int64_t>(1, ranks)};
  plan::Accelerator& device = cluster.device;
  device = {
      .name = "local", .bf16_flops = share * profile.gemm("bf16"), .memory_bytes = share * static_cast<double>(machine().memory_bytes)};
  device.memory_rate = share * profile.memory_bytes_per_second;
  device.link_rate = device.nic_rate = device.memory_rate / 4;  // ranks are threads: what one writes others read
  device.node = cluster.gpus;
  device.thermal_watts = 5.0 * share * machine().cores;
  device.source = profile.machine + ", " + profile.when();
  cluster.efficiency = {.products = 0.7, .memory = 0.6, .layer_s = 200e-6, .source = "guesses of ours: --calibrate RUN measures them"};
  cluster.failures_per_node_day = 0;
  cluster.reserved_bytes = 0;
  return cluster;
}

std::string planned_against_measured(const std::filesystem::path& run, const recipe::Recipe& recipe) {
  constexpr size_t kFewest = 8;
  const observe::RunHistory history = observe::read_run(run);
  if (!history.start || history.start->device != "cpu" || history.steps.size() < kFewest) return "";
  const double measured = plan::median_step_seconds(history);
  const plan::PlanLayout layout = plan::layout_of_recipe(recipe);
  const plan::Work work = plan::work_of(recipe.model, recipe.train.sequence);
  const double planned =
      plan::step_parts(work, layout, recipe.train.batch, local_cluster(layout.world()), plan::default_practice(layout)).total();
  return fmt::format(
      "A step took {} (median); planned: {} ({:+.0f} %), with this machine's measured peak. To plan with what this run reached:\n  {}\n",
      observe::milliseconds_text(1e3 * measured), observe::milliseconds_text(1e3 * planned), 100 * (planned / measured - 1),
      program_command(
          fmt::format("plan {} --cluster local --calibrate {}", shell_quoted((run / "recipe.toml").string()), shell_quoted(run.string()))));
}

}  // namespace longhaul::train
