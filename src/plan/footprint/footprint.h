// What a training costs beyond time: lives of devices, materials, energy, carbon, water. From a plan (FLOPs, device, share of its peak) or from a
// run that has been; every figure with its uncertainty, how it was come by (measured or modelled) and its source. docs/guides/footprint.md has the method.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/footprint/inventory.h"
#include "plan/footprint/lifetimes.h"
#include "plan/footprint/tables.h"
#include "plan/hardware.h"

namespace longhaul::plan {

struct Place {  // where it runs
  Sourced carbon = {"carbon_g_per_kwh", {}, ""};
  std::optional<Sourced> market_carbon;  // by certificates bought; beside the other, never instead
  Sourced pue, water_on_site, water_grid;
};
Place default_place();  // the world's means

// Where the devices' energy comes from, best first.
enum class EnergyLevel { kMeasured, kModelled };

// A part of the energy: what it is, and a source or a meter.
struct FootprintInput {
  std::string title;       // of the run or plan
  bool planned = false;    // it has not been
  double flops = 0;        // of the model; nothing done twice
  double spent_flops = 0;  // with what was repeated
  double tokens = 0;
  std::string device;  // "a100"; "2 cores of AMD EPYC"
  double peak = 0;     // FLOP/s of a device; 0: unknown
  double devices = 1;
  double device_hours = 0;  // all devices, all that was allocated
  double useful_hours = 0;  // of them, in steps that count
  double mfu = 0;           // useful FLOPs / (peak · useful seconds)
  double years = 2;         // of a device's life
  EnergyLevel level = EnergyLevel::kModelled;
  Sourced energy_kwh;                    // of the devices and the rest of the machine, before cooling
  Embodied embodied;                     // of one device
  std::optional<Uncertain> material_kg;  // of one device
  std::optional<Inventory> inventory;
  Place place;
  std::vector<Sourced> assumptions;  // that went into the above
};

struct EquivalentLives {  // of A100s, by the published formula with the training's own share of the peak
  double lives = 0, whole = 0;
};

struct Footprint {
  FootprintInput input;
  double lifetimes = 0;  // device-hours over the hours of a life
  EquivalentLives a100;
  Uncertain energy_it_kwh, energy_facility_kwh, energy_useful_kwh;
  Uncertain carbon_kg, joules_per_token;
  std::optional<Uncertain> carbon_market_kg;
  std::optional<Uncertain> embodied_die_kg, embodied_life_cycle_kg, embodied_host_kg, material_kg;
  Uncertain water_on_site_l, water_grid_l;
  bool measured() const { return input.level == EnergyLevel::kMeasured; }
};

Footprint footprint_of(FootprintInput input);

// A training that has not been.
struct PlannedWork {
  double flops = 0, tokens = 0;
  Accelerator device = accelerator("a100");
  double gpus = 0;  // 0: their number does not matter
  double mfu = 0.35, years = 2, duty = 1;
  double overhead = 0;  // share of time lost beside useful steps: failed, repeated, idle
  Place place;
  std::optional<Inventory> inventory;
  EmbodiedSource embodied = EmbodiedSource::kBoth;
};
Footprint planned_footprint(const PlannedWork& work);

// kUsage naming option and unit, where a number is not what it says.
void require_number(double value, const char* option, const char* unit, double least, double most);

// A row of every table and page.
struct FootprintRow {
  std::string key;    // of JSON, with its unit: "energy_it_kwh"
  std::string label;  // "energy of the machine"
  std::string unit;
  Uncertain value;
  std::string how;  // source, or what it was computed from
};
std::vector<FootprintRow> rows_of(const Footprint& footprint);

}  // namespace longhaul::plan
