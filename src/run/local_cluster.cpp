#include "run/local_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/files/folders.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "observe/events/run_history.h"
#include "observe/format.h"
#include "plan/calibration.h"
#include "plan/step_time.h"
#include "tensor/machine_profile.h"

namespace longhaul::run {

namespace {

using nlohmann::json;

std::filesystem::path constants_path() {
  return user_cache_folder() / "plan-constants" /
         fmt::format("{:016x}.json", xxh3(measured_profile().machine));
}

// Every number of it by name, so that reading and writing cannot differ.
std::vector<std::pair<const char*, double*>> numbers_of(LocalConstants& constants) {
  plan::Efficiency& of = constants.efficiency;
  return {{"products", &of.products},
          {"memory", &of.memory},
          {"layer_seconds", &of.layer_s},
          {"attention", &of.attention},
          {"recurrence", &of.recurrence},
          {"step_seconds", &of.step_s},
          {"message_seconds", &of.message_s},
          {"link_bytes_per_second", &constants.link_rate},
          {"worst_error", &constants.worst_error}};
}

}  // namespace

void keep_local_constants(const LocalConstants& constants) {
  LocalConstants kept = constants;
  json object{{"machine", measured_profile().machine}};
  for (const auto& [name, number] : numbers_of(kept)) object[name] = *number;
  const auto path = constants_path();
  make_folders(path.parent_path());
  write_text_atomically(path, object.dump(1) + "\n");
}

std::optional<LocalConstants> kept_local_constants() {
  const auto path = constants_path();
  if (!std::filesystem::exists(path)) return std::nullopt;
  const json object = json::parse(read_text(path), nullptr, false);
  LocalConstants kept;
  for (const auto& [name, number] : numbers_of(kept)) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (!object.is_object() || found == object.end() || !found->is_number() ||
        !std::isfinite(found->get<double>())) {
      log_warning("{} holds no constants of the planner and is not used: `longhaul bench plan` makes it anew",
                  path.string());
      return std::nullopt;
    }
    *number = found->get<double>();
  }
  kept.efficiency.by_size = false;
  kept.efficiency.source =
      fmt::format("`longhaul bench plan` on this machine; worst of the steps it predicted: {:.0f} % off",
                  100 * kept.worst_error);
  return kept;
}

plan::Cluster local_cluster(int64_t ranks) {
  const MachineProfile profile = measured_profile();
  const double share = 1 / static_cast<double>(std::max<int64_t>(1, ranks));
  plan::Cluster cluster{.name = "local", .gpus = std::max<int64_t>(1, ranks)};
  plan::Accelerator& device = cluster.device;
  device = {.name = "local",
            .bf16_flops = share * profile.gemm("bf16"),
            .memory_bytes = share * static_cast<double>(machine().memory_bytes)};
  device.memory_rate = share * profile.memory_bytes_per_second;
  // ranks are threads: what one writes others read
  device.link_rate = device.nic_rate = device.memory_rate / 4;
  device.node = cluster.gpus;
  device.thermal_watts = 5.0 * share * machine().cores;
  device.source = profile.machine + ", " + profile.when();
  cluster.efficiency = {.products = 0.7,
                        .memory = 0.6,
                        .layer_s = 200e-6,
                        .source = "guesses of ours: --calibrate RUN measures them"};
  cluster.efficiency.by_size = false;  // SimAI's tables are of other links
  if (const auto kept = kept_local_constants()) {
    cluster.efficiency = kept->efficiency;
    device.link_rate = device.nic_rate = share * kept->link_rate;
  }
  cluster.failures_per_node_day = 0;
  cluster.reserved_bytes = 0;
  return cluster;
}

namespace {

constexpr size_t kFewestSteps = 8;  // whose median says something

std::string step_beside_plan(const std::filesystem::path& run, const recipe::Recipe& recipe,
                             const observe::RunHistory& history) {
  if (history.start->device != "cpu" || history.steps.empty()) return "";
  if (history.steps.size() < kFewestSteps) {
    return fmt::format(
        "{} too few to set what a step takes beside the plan; {} would do.\n",
        history.steps.size() == 1 ? "One step is" : fmt::format("{} steps are", history.steps.size()),
        kFewestSteps);
  }
  const double measured = plan::median_step_seconds(history);
  const plan::PlanLayout layout = plan::layout_of_recipe(recipe);
  const plan::Work work = plan::work_of(recipe.model, recipe.train.sequence);
  const double planned = plan::step_parts(work, layout, recipe.train.batch, local_cluster(layout.world()),
                                          plan::default_practice(layout))
                             .total();
  return fmt::format(
      "A step took {} (median); planned: {} ({:+.0f} %), with this machine's measured peak. To plan with "
      "what this run reached:\n  {}\n",
      observe::milliseconds_text(1e3 * measured), observe::milliseconds_text(1e3 * planned),
      100 * (planned / measured - 1),
      program_command(fmt::format("plan {} --cluster local --calibrate {}",
                                  shell_quoted((run / "recipe.toml").string()), shell_quoted(run.string()))));
}

// Of the processors' memory all together, of a GPU's the tensors.
std::string memory_beside_plan(const observe::RunHistory& history) {
  for (const observe::MeasuredMemory& row : history.memory) {
    if ((row.purpose != "together" && !row.purpose.ends_with(", tensors")) ||
        row.planned_bytes.value_or(0) <= 0 || row.peak_bytes <= 0)
      continue;
    const double ratio = static_cast<double>(*row.planned_bytes) / static_cast<double>(row.peak_bytes);
    return fmt::format("Memory at its fullest took {}; planned: {} ({:+.1f} %).\n",
                       bytes_text(row.peak_bytes), bytes_text(*row.planned_bytes), 100 * (ratio - 1));
  }
  return "";
}

}  // namespace

std::string planned_against_measured(const std::filesystem::path& run, const recipe::Recipe& recipe) {
  const observe::RunHistory history = observe::read_run(run);
  return history.start ? step_beside_plan(run, recipe, history) + memory_beside_plan(history) : "";
}

}  // namespace longhaul::run
