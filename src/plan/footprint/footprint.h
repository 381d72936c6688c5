// Footprint: the costs of a training other than time: lives of devices, materials, energy, carbon, water. It
// is computed from a plan (FLOPs, device, share of its peak) or from a completed run. Every number has its
// uncertainty, the way it was found (measured or modelled) and its source. docs/guides/footprint.md describes
// the method.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/footprint/inventory.h"
#include "plan/footprint/lifetimes.h"
#include "plan/footprint/tables.h"
#include "plan/hardware.h"

namespace longhaul::plan {

struct Place {  // the place where it runs
  Sourced carbon = {"carbon_g_per_kwh", {}, ""};
  // By purchased certificates; shown in addition to `carbon`, never instead of it.
  std::optional<Sourced> market_carbon;
  Sourced pue, water_on_site, water_grid;
};
Place default_place();  // world averages

// EnergyLevel: how the devices' energy was found, the better one first.
enum class EnergyLevel { kMeasured, kModelled };

// FootprintInput: the quantities from which a footprint is computed.
struct FootprintInput {
  std::string title;       // title of the run or plan
  bool planned = false;    // the training has not taken place
  double flops = 0;        // of the model; nothing is counted twice
  double spent_flops = 0;  // including repeated steps
  double tokens = 0;
  std::string device;  // "a100"; "2 cores of AMD EPYC"
  double peak = 0;     // FLOP/s of a device; 0: unknown
  double devices = 1;
  double device_hours = 0;  // of all devices, for all allocated time
  double useful_hours = 0;  // the part of them in steps that count
  double mfu = 0;           // useful FLOPs / (peak · useful seconds)
  double years = 2;         // lifetime of a device
  EnergyLevel level = EnergyLevel::kModelled;
  Sourced energy_kwh;                    // Energy of the devices and the rest of the machine, before cooling.
  Embodied embodied;                     // for one device
  std::optional<Uncertain> material_kg;  // for one device
  std::optional<Inventory> inventory;
  Place place;
  std::vector<Sourced> assumptions;  // the assumptions used above
};

// In lives of A100s, by the published formula with the training's own share of the peak.
struct EquivalentLives {
  double lives = 0, whole = 0;
};

struct Footprint {
  FootprintInput input;
  double lifetimes = 0;  // device-hours / hours of a life
  EquivalentLives a100;
  Uncertain energy_it_kwh, energy_facility_kwh, energy_useful_kwh;
  Uncertain carbon_kg, joules_per_token;
  std::optional<Uncertain> carbon_market_kg;
  std::optional<Uncertain> embodied_die_kg, embodied_life_cycle_kg, embodied_host_kg, material_kg;
  Uncertain water_on_site_l, water_grid_l;
  bool measured() const { return input.level == EnergyLevel::kMeasured; }
};

Footprint footprint_of(FootprintInput input);

// PlannedWork: a training that has not taken place.
struct PlannedWork {
  double flops = 0, tokens = 0;
  Accelerator device = accelerator("a100");
  double gpus = 0;  // 0: their number does not matter
  double mfu = 0.35, years = 2, duty = 1;
  double overhead = 0;  // share of time lost in addition to useful steps: failed, repeated, idle
  Place place;
  std::optional<Inventory> inventory;
  EmbodiedSource embodied = EmbodiedSource::kBoth;
};
Footprint planned_footprint(const PlannedWork& work);

// Throws kUsage naming option and unit if the number is outside the limits.
void require_number(double value, const char* option, const char* unit, double least, double most);

// FootprintRow: a row of every table and page.
struct FootprintRow {
  std::string key;    // key in JSON, with its unit: "energy_it_kwh"
  std::string label;  // "energy of the machine"
  std::string unit;
  Uncertain value;
  std::string how;  // its source, or the inputs of its computation
};
std::vector<FootprintRow> rows_of(const Footprint& footprint);

}  // namespace longhaul::plan
