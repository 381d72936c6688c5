// The constants of a footprint, each with its source. Where a source gives no uncertainty, the one here is
// ours, which the source text says. Immutable.
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

const std::vector<Sourced>& grids();         // g CO2e per kWh, for regions and for kinds of power station
const Sourced& grid(std::string_view name);  // kUsage with the list of names
// "coal=0.25,gas=0.75": Σ share · intensity; kUsage where the shares do not add up to one.
Sourced grid_mix(std::string_view shares);
inline constexpr const char* kWorldGrid = "world";

// Embodied: the emissions from making one device, in kg CO2e, by two methods that differ tenfold; both are
// shown where both are known. The host (processors, memory, case) is a third part, added to either.
struct Embodied {
  std::optional<Sourced> die;         // area × kg/cm², the die only
  std::optional<Sourced> life_cycle;  // cradle to gate, the whole device
  std::optional<Sourced> host;        // a device's share of its server
};
// EmbodiedSource: the part that --embodied selects.
enum class EmbodiedSource { kBoth, kDie, kLifeCycle };
EmbodiedSource embodied_source(std::string_view name);  // both, die, life-cycle; kUsage
Embodied only(Embodied all, EmbodiedSource source);
Embodied embodied_of(std::string_view accelerator);

// A processor and its memory, for training without an accelerator.
Uncertain processor_embodied_kg(double memory_bytes);
extern const char* const kProcessorEmbodiedSource;

// Grids with low and high emissions per kWh: hydro power, the United States, the world, coal.
std::vector<Sourced> sensitivity_grids();

Sourced default_pue();
Sourced default_water_on_site();    // L per kWh of IT energy
Sourced default_water_grid();       // L per kWh of the facility's energy
Sourced accelerator_power_share();  // share of thermal watts drawn in training
Sourced host_factor();              // watts of the whole node per watt of its accelerators
Sourced core_watts();               // watts of a processor core at full load, with its share of the board
Sourced idle_share();               // share of that when nothing is computed
Sourced memory_watts_per_gb();
Sourced material_kg_per_device();

}  // namespace longhaul::plan
