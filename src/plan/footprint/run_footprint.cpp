#include "plan/footprint/run_footprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "observe/events/event_log.h"
#include "observe/events/run_history.h"
#include "plan/footprint/carbon_hours.h"
#include "plan/hardware.h"

namespace longhaul::plan {
namespace {

// Sums over the processes of a run.
struct Gathered {
  struct Process {
    double begin_wall = 0;
    int64_t begin_ns = 0, end_ns = 0;
    double seconds() const { return static_cast<double>(end_ns - begin_ns) * 1e-9; }
  };
  struct Step {
    double seconds = 0, flops = 0, tokens = 0;
  };
  std::optional<observe::RunStart> start;
  std::map<int64_t, Process> processes;  // by generation
  std::map<int64_t, Step> steps;         // the ones that count
  Step spent;                            // all that were done
  double processor_s = 0, covered_s = 0, joules = 0, metered_s = 0;
  double fastest = 0;  // FLOP/s that a step reached: no peak is lower
  // cores' share of others · seconds that it was told of; seconds not told of yet
  double taken = 0, taken_of_s = 0, since_s = 0;
  int64_t last_report_ns = 0;

  void add(const observe::Event& event) {
    const auto& common = event.common;
    auto [found, fresh] = processes.try_emplace(
        common.generation, Process{common.wall_time, common.monotonic_ns, common.monotonic_ns});
    if (fresh) last_report_ns = common.monotonic_ns;
    found->second.end_ns = std::max(found->second.end_ns, common.monotonic_ns);
    if (const auto* begun = std::get_if<observe::RunStart>(&event.body)) start = *begun;
    if (const auto* back = std::get_if<observe::Resume>(&event.body))
      steps.erase(steps.upper_bound(back->step), steps.end());
    if (const auto* step = std::get_if<observe::StepReport>(&event.body)) add(*step, common.monotonic_ns);
  }
  void add(const observe::StepReport& report, int64_t now_ns) {
    Step step{.seconds = report.milliseconds * 1e-3};
    step.tokens = report.tokens_per_second * step.seconds;
    const double per_token = start && start->flops_per_token ? *start->flops_per_token : 0;
    step.flops = report.model_flops_per_second ? *report.model_flops_per_second * step.seconds
                                               : per_token * step.tokens;
    steps[report.step] = step;
    fastest = std::max(
        {fastest, report.model_flops_per_second.value_or(0), report.peak_flops_per_second.value_or(0)});
    since_s += step.seconds;
    if (report.taken_by_others) {
      taken += *report.taken_by_others * since_s;
      taken_of_s += std::exchange(since_s, 0);
    }
    spent.seconds += step.seconds;
    spent.flops += step.flops;
    const double reported_s = static_cast<double>(now_ns - std::exchange(last_report_ns, now_ns)) * 1e-9;
    if (report.processor_milliseconds) {
      processor_s += *report.processor_milliseconds * 1e-3;
      covered_s += reported_s;
    }
    if (report.energy_joules) {
      joules += *report.energy_joules;
      metered_s += reported_s;
    }
  }
  double allocated_s() const {
    double sum = 0;
    for (const auto& [generation, process] : processes) sum += process.seconds();
    return sum;
  }
  Step useful() const {
    Step sum;
    for (const auto& [number, step] : steps) {
      sum.seconds += step.seconds;
      sum.flops += step.flops;
      sum.tokens += step.tokens;
    }
    return sum;
  }
};

// Joules of the meters; for the time after the last step, at the mean power before.
Sourced metered(const Gathered& run, double seconds) {
  const double watts = run.joules / run.metered_s;
  return {"energy_it_kwh",
          {watts * seconds / 3.6e6, 0.05 * watts * seconds / 3.6e6},
          fmt::format("measured: {}, {:.1f} W on the mean, over {:.0f} % of the time; ± 5 % (ours); power "
                      "supplies and disks are not in it",
                      run.start->energy_meters.value_or("the machine's meters"), watts,
                      100 * std::min(1.0, run.metered_s / seconds))};
}

// ranks: those on the first one's machine; its processor time is used for each of them.
Sourced modelled_processor(const Gathered& run, double seconds, double cores, double ranks,
                           FootprintInput& input) {
  const observe::RunStart& start = *run.start;
  // Without processor times (in events of an earlier version): assumes that the threads worked all the time.
  const double load = std::min(
      1.0, (run.covered_s > 0 ? run.processor_s / run.covered_s : static_cast<double>(start.threads)) *
               ranks / cores);
  const Sourced core = core_watts(), idle = idle_share(), memory = memory_watts_per_gb();
  const Uncertain share = {idle.value.value + (1 - idle.value.value) * load, idle.value.sigma * (1 - load)};
  const double gigabytes = static_cast<double>(start.memory_bytes.value_or(0)) * 1e-9;
  const Uncertain watts = core.value * share * cores + memory.value * gigabytes;
  input.assumptions = {
      core,
      idle,
      memory,
      {"load",
       {load, 0},
       (run.covered_s > 0 ? "measured: processor time of the first rank's process" : "threads over cores") +
           (ranks > 1 ? fmt::format(", for each of {:g} on the machine", ranks) : "")}};
  return {"energy_it_kwh", watts * (seconds / 3.6e6),
          fmt::format("modelled: {:.0f} cores × {:g} W × ({:g} idle + {:g} × load {:.0f} %) + {:.0f} GB × "
                      "{:g} W = {:.1f} W",
                      cores, core.value.value, idle.value.value, 1 - idle.value.value, 100 * load, gigabytes,
                      memory.value.value, watts.value)};
}

Sourced modelled_accelerator(const Accelerator& device, double seconds, double devices,
                             FootprintInput& input) {
  const Sourced share = accelerator_power_share(), host = host_factor();
  const Uncertain watts = share.value * host.value * (device.thermal_watts * devices);
  input.assumptions = {share, host, {"thermal_w", {device.thermal_watts, 0}, device.source}};
  return {"energy_it_kwh", watts * (seconds / 3.6e6),
          fmt::format("modelled: {:g} × {:g} W × {:g} of it × {:g} for the host", devices,
                      device.thermal_watts, share.value.value, host.value.value)};
}

// Scales the values of the first rank's machine to all machines.
Sourced of_all_machines(Sourced first, const std::string& first_host,
                        const std::vector<RunMachine>& machines) {
  if (machines.size() < 2) return first;
  double watts = 0, of_first = 0;
  bool all = true;
  for (const RunMachine& machine : machines) {
    all = all && machine.mean_watts;
    watts += machine.mean_watts.value_or(0);
    if (machine.host == first_host) of_first = machine.mean_watts.value_or(0);
  }
  const bool by_power = all && of_first > 0;
  const double times = by_power ? watts / of_first : static_cast<double>(machines.size());
  first.value = first.value * times;
  first.source +=
      by_power
          ? fmt::format("; × {:.3g} for {} machines, by the mean power that each of them told", times,
                        machines.size())
          : fmt::format("; × {} machines, the others taken to be like the first rank's", machines.size());
  return first;
}

}  // namespace

Footprint run_footprint(const std::filesystem::path& run, const RunAssumptions& assumptions) {
  require_number(assumptions.years, "--life", "years", 1e-3, 100);
  Gathered gathered;
  observe::for_each_event(observe::events_file(run),
                          [&](const observe::Event& event) { gathered.add(event); });
  if (!gathered.start || gathered.steps.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "the run has no step to count",
                 .expected = "a run_start and at least one step",
                 .where = run.string()});
  }
  const observe::RunStart& start = *gathered.start;
  const Gathered::Step useful = gathered.useful();
  const double seconds = gathered.allocated_s();
  const bool on_gpu = start.device.starts_with("cuda") || !assumptions.accelerator.empty();
  const double cores = static_cast<double>(start.cores.value_or(start.threads));
  FootprintInput input{.title = start.name,
                       .flops = useful.flops,
                       .spent_flops = gathered.spent.flops,
                       .tokens = useful.tokens};
  const double machines = std::max(1.0, static_cast<double>(assumptions.machines.size()));
  const double world = static_cast<double>(std::max<int64_t>(1, start.world_size)),
               ranks = std::max(1.0, world / machines);
  input.devices = on_gpu ? world : machines;
  input.device_hours = seconds * input.devices / 3600;
  input.useful_hours = useful.seconds * input.devices / 3600;
  input.years = assumptions.years;
  input.place = assumptions.place;
  if (on_gpu) {
    const Accelerator& device =
        accelerator(assumptions.accelerator.empty() ? "a100" : assumptions.accelerator);
    input.device = device.name;
    input.peak = device.bf16_flops * input.devices;
    input.energy_kwh = modelled_accelerator(device, seconds, input.devices, input);
    input.embodied = embodied_of(device.name);
  } else {
    input.device = machines > 1
                       ? fmt::format("{:g} machines with {:g} cores of {}", machines, cores, start.processor)
                       : fmt::format("{:g} cores of {}", cores, start.processor);
    // The whole machine is used up, so its peak is that of all cores, however few the run had.
    const double used = static_cast<double>(start.threads) * world;
    const double measured = start.peak_flops_per_second.value_or(0),
                 peak = measured > 0 ? std::max(measured, gathered.fastest) : 0;
    input.peak = peak * std::max(1.0, cores * machines / std::max(1.0, used));
    input.energy_kwh = of_all_machines(modelled_processor(gathered, seconds, cores, ranks, input), start.host,
                                       assumptions.machines);
    const Uncertain kg = processor_embodied_kg(static_cast<double>(start.memory_bytes.value_or(0)));
    input.embodied.die = Sourced{"embodied_die_kg", kg, kProcessorEmbodiedSource};
  }
  input.embodied = only(std::move(input.embodied), assumptions.embodied);
  if (gathered.metered_s > 0) {
    input.level = EnergyLevel::kMeasured;
    input.energy_kwh = of_all_machines(metered(gathered, seconds), start.host, assumptions.machines);
    input.assumptions.clear();
  }
  if (gathered.taken_of_s > 0 && gathered.taken / gathered.taken_of_s >= observe::kTakenByOthers) {
    input.assumptions.push_back({"taken_by_others",
                                 {gathered.taken / gathered.taken_of_s, 0},
                                 "measured: the share of the run's cores that other programs took; without "
                                 "them time, energy and lives "
                                 "would be less, and the utilisation higher"});
  }
  if (input.peak > 0) input.mfu = useful.flops / (input.peak * useful.seconds);
  if (assumptions.carbon_hours) {
    const CarbonHours day = CarbonHours::read(*assumptions.carbon_hours, assumptions.carbon_hours_name);
    double grams = 0;
    for (const auto& [generation, process] : gathered.processes) {
      grams += day.mean(process.begin_wall / 3600, process.seconds() / 3600) * process.seconds();
    }
    const double mean = seconds > 0 ? grams / seconds : day.mean(0, 24);
    input.place.carbon = {"carbon_g_per_kwh",
                          {mean, 0.05 * mean},
                          assumptions.carbon_hours_name + ", over the hours of the run; ± 5 % (ours)"};
  }
  return footprint_of(std::move(input));
}

}  // namespace longhaul::plan
