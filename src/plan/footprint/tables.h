// The constants of a footprint, each row with where it comes from. Where a source gives no uncertainty, the one here is ours and the source
// says so. Immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/footprint/uncertain.h"

namespace longhaul::plan {

struct Sourced {
  std::string name;  // with its unit: "pue", "carbon_g_per_kwh"
  Uncertain value;
  std::string source;
};

const std::vector<Sourced>& grids();         // g CO2e per kWh, of regions and of kinds of power station
const Sourced& grid(std::string_view name);  // kUsage with the names
Sourced grid_mix(std::string_view shares);   // "coal=0.25,gas=0.75": Σ share · intensity; kUsage where the shares are not one together
inline constexpr const char* kWorldGrid = "world";

// What making one device has given off, kg CO2e, by two methods that differ tenfold: where both are known both are shown. The host (processors, memory,
// case) is a third part, beside either.
struct Embodied {
  std::optional<Sourced> die;         // area × kg/cm², the die alone
  std::optional<Sourced> life_cycle;  // cradle to gate, the whole device
  std::optional<Sourced> host;        // a device's share of its server
};
// What of it is asked for: --embodied.
enum class EmbodiedSource { kBoth, kDie, kLifeCycle };
EmbodiedSource embodied_source(std::string_view name);  // both, die, life-cycle; kUsage
Embodied only(Embodied all, EmbodiedSource source);
Embodied embodied_of(std::string_view accelerator);

// A processor and its memory, where no accelerator trains.
Uncertain processor_embodied_kg(double memory_bytes);
extern const char* const kProcessorEmbodiedSource;

// Where one kWh makes little and much: hydro power, the United States, the world, coal.
std::vector<Sourced> sensitivity_grids();

Sourced default_pue();
Sourced default_water_on_site();    // L per kWh of IT
Sourced default_water_grid();       // L per kWh of the facility
Sourced accelerator_power_share();  // of its thermal watts, in training
Sourced host_factor();              // all of a node per watt of its accelerators
Sourced core_watts();               // of a processor core at full load, with its share of the board
Sourced idle_share();               // of that, when nothing is computed
Sourced memory_watts_per_gb();
Sourced material_kg_per_device();

}  // namespace longhaul::plan
