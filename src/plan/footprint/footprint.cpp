#include "plan/footprint/footprint.h"

#include <fmt/format.h>

#include "base/error.h"

namespace longhaul::plan {

void require_number(double value, const char* option, const char* unit, double least, double most) {
  if (value >= least && value <= most) return;
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("{} cannot be that", option),
               .expected = fmt::format("{} from {:g} to {:g}", unit, least, most),
               .found = fmt::format("{:g}", value),
               .where = option});
}

Place default_place() {
  Sourced carbon = grid(kWorldGrid);
  carbon.source = "grid " + carbon.name + ": " + carbon.source;
  carbon.name = "carbon_g_per_kwh";
  return {.carbon = carbon,
          .market_carbon = {},
          .pue = default_pue(),
          .water_on_site = default_water_on_site(),
          .water_grid = default_water_grid()};
}

Footprint footprint_of(FootprintInput input) {
  Footprint f;
  const double life_hours = input.years * kSecondsPerYear / 3600;
  f.lifetimes = input.device_hours / life_hours;
  if (input.mfu > 0) {
    const LifetimeQuestion a100{.flops = input.spent_flops, .mfu = input.mfu, .years = input.years};
    f.a100 = {plan::lifetimes(a100), whole_lifetimes(a100)};
  }
  const Place& place = input.place;
  f.energy_it_kwh = input.energy_kwh.value;
  f.energy_facility_kwh = f.energy_it_kwh * place.pue.value;
  f.energy_useful_kwh =
      f.energy_it_kwh * (input.device_hours > 0 ? input.useful_hours / input.device_hours : 1);
  f.carbon_kg = f.energy_facility_kwh * place.carbon.value / 1000;
  if (place.market_carbon) f.carbon_market_kg = f.energy_facility_kwh * place.market_carbon->value / 1000;
  // Per kWh of IT, without the energy of cooling.
  f.water_on_site_l = f.energy_it_kwh * place.water_on_site.value;
  f.water_grid_l = f.energy_facility_kwh * place.water_grid.value;
  if (input.tokens > 0) f.joules_per_token = f.energy_it_kwh * 3.6e6 / input.tokens;
  if (input.embodied.die) f.embodied_die_kg = input.embodied.die->value * f.lifetimes;
  if (input.embodied.life_cycle) f.embodied_life_cycle_kg = input.embodied.life_cycle->value * f.lifetimes;
  if (input.embodied.host) f.embodied_host_kg = input.embodied.host->value * f.lifetimes;
  if (input.material_kg) f.material_kg = *input.material_kg * f.lifetimes;
  f.input = std::move(input);
  return f;
}

Footprint planned_footprint(const PlannedWork& work) {
  require_number(work.flops, "--flops", "FLOPs", 0, 1e40);
  require_number(work.mfu, "--mfu", "a share of the peak", 1e-6, 1);
  require_number(work.years, "--life", "years", 1e-3, 100);
  require_number(work.duty, "--duty", "a share of the time", 1e-3, 1);
  require_number(work.overhead, "--overhead", "a share of the useful time", 0, 100);
  require_number(work.gpus, "--gpus", "devices", 0, 1e9);
  const Accelerator& device = work.device;
  FootprintInput input{.title = "plan",
                       .planned = true,
                       .flops = work.flops,
                       .spent_flops = work.flops * (1 + work.overhead),
                       .tokens = work.tokens};
  input.device = device.name;
  input.peak = device.bf16_flops;
  input.devices = work.gpus;
  input.useful_hours = work.flops / (device.bf16_flops * work.mfu) / 3600;
  input.device_hours = input.useful_hours * (1 + work.overhead);
  input.mfu = work.mfu;
  input.years = work.years * work.duty;
  const Sourced share = accelerator_power_share(), host = host_factor();
  const Uncertain watts = share.value * device.thermal_watts * host.value;
  input.energy_kwh = {"energy_it_kwh", watts * (input.device_hours / 1000),
                      fmt::format("modelled: {:g} W × {:g} of it × {:g} for the host × device-hours",
                                  device.thermal_watts, share.value.value, host.value.value)};
  input.embodied = only(embodied_of(device.name), work.embodied);
  if (device.name.starts_with("a100")) input.material_kg = material_kg_per_device().value;
  if (work.inventory) input.material_kg = work.inventory->grams() / 1000;
  input.inventory = work.inventory;
  input.place = work.place;
  input.assumptions = {share,
                       host,
                       {"thermal_w", {device.thermal_watts, 0}, device.source},
                       {"peak_flops_per_s", {device.bf16_flops, 0}, device.source}};
  if (input.material_kg && !work.inventory) input.assumptions.push_back(material_kg_per_device());
  return footprint_of(std::move(input));
}

std::vector<FootprintRow> rows_of(const Footprint& f) {
  const FootprintInput& in = f.input;
  const Place& place = in.place;
  const std::string carbon =
      fmt::format("{:.4g} g per kWh: {}", place.carbon.value.value, place.carbon.source);
  std::vector<FootprintRow> rows;
  const auto add = [&](const char* key, const char* label, const char* unit, Uncertain value,
                       const std::string& how) {
    rows.push_back({key, label, unit, value, how});
  };
  add("device_hours", "hours of devices", "h", {in.device_hours, 0},
      fmt::format("{:.4g} h of them in steps that count", in.useful_hours));
  add("lifetimes", "lives of devices used up", "", {f.lifetimes, 0},
      fmt::format("hours over a life of {:g} years ({})", in.years, in.device));
  add("a100_lifetimes", "the same as A100s", "", {f.a100.lives, 0},
      fmt::format("FLOPs / (312 TFLOP/s · {:.2f} % · {:g} years); {:.0f} when rounded up", 100 * in.mfu,
                  in.years, f.a100.whole));
  if (f.material_kg)
    add("material_kg", "materials of those lives", "kg", *f.material_kg,
        in.inventory ? "the inventory" : material_kg_per_device().source);
  add("energy_it_kwh", "energy of the machine", "kWh", f.energy_it_kwh, in.energy_kwh.source);
  add("energy_useful_kwh", "of it in steps that count", "kWh", f.energy_useful_kwh,
      "by their share of the time");
  add("energy_facility_kwh", "energy with cooling and losses", "kWh", f.energy_facility_kwh,
      fmt::format("PUE {:g}: {}", place.pue.value.value, place.pue.source));
  if (in.tokens > 0) add("joules_per_token", "energy of a token", "J", f.joules_per_token, "of the machine");
  add("carbon_kg", "carbon, by location", "kg CO2e", f.carbon_kg, carbon);
  if (f.carbon_market_kg)
    add("carbon_market_kg", "carbon, by certificates", "kg CO2e", *f.carbon_market_kg,
        place.market_carbon->source);
  if (f.embodied_die_kg)
    add("embodied_die_kg", "embodied carbon, by die", "kg CO2e", *f.embodied_die_kg, in.embodied.die->source);
  if (f.embodied_life_cycle_kg) {
    add("embodied_life_cycle_kg", "embodied carbon, by life cycle", "kg CO2e", *f.embodied_life_cycle_kg,
        in.embodied.life_cycle->source);
  }
  if (f.embodied_host_kg)
    add("embodied_host_kg", "embodied carbon of the host", "kg CO2e", *f.embodied_host_kg,
        in.embodied.host->source);
  add("water_on_site_l", "water on site", "L", f.water_on_site_l,
      fmt::format("{:g} L per kWh of IT: {}", place.water_on_site.value.value, place.water_on_site.source));
  add("water_grid_l", "water of power stations", "L", f.water_grid_l,
      fmt::format("{:g} L per kWh: {}", place.water_grid.value.value, place.water_grid.source));
  return rows;
}

}  // namespace longhaul::plan
