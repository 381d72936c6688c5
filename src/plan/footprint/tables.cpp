#include "plan/footprint/tables.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul::plan {
namespace {

constexpr const char* kCodeCarbon = "CodeCarbon (github.com/mlco2/codecarbon), by source of power";
constexpr const char* kImpact = "ML CO2 Impact (github.com/mlco2/impact), regions of clouds";

[[noreturn]] void refuse_mix(std::string_view shares, const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "cannot read the mix of power stations",
               .expected = "shares from 0 to 1 that are one together, as coal=0.25,gas=0.75",
               .found = found,
               .where = fmt::format("--mix {}", shares),
               .hint = "footprint tables   shows the names"});
}

}  // namespace

// Our uncertainties: 5 % of a region's annual mean, 10 % of a kind of power station, 20 % of the world's
// mean.
const std::vector<Sourced>& grids() {
  static const std::vector<Sourced> all = [] {
    std::vector<Sourced> rows = {
        {"world", {475, 95}, "IEA 2019, world mean, as CodeCarbon's fallback"},
        {"llama-3.1", {383, 19}, "implied by the Llama 3.1 model card: 8,930 t over 23.3 GWh"}};
    for (const auto& [name, value] :
         std::initializer_list<std::pair<const char*, double>>{{"us-central1", 566.3},
                                                               {"us-east1", 367.8},
                                                               {"us-west1", 297.6},
                                                               {"europe-west1", 267},
                                                               {"europe-west4", 569},
                                                               {"europe-west6", 16},
                                                               {"europe-north1", 211},
                                                               {"northamerica-northeast1", 34.5},
                                                               {"southamerica-east1", 205},
                                                               {"asia-south1", 920}}) {
      rows.push_back({name, {value, 0.05 * value}, kImpact});
    }
    for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{{"coal", 995},
                                                                                           {"petroleum", 816},
                                                                                           {"gas", 743},
                                                                                           {"fossil", 635},
                                                                                           {"solar", 48},
                                                                                           {"geothermal", 38},
                                                                                           {"nuclear", 29},
                                                                                           {"hydro", 26},
                                                                                           {"wind", 26}}) {
      rows.push_back({name, {value, 0.1 * value}, kCodeCarbon});
    }
    return rows;
  }();
  return all;
}

const Sourced& grid(std::string_view name) {
  std::vector<std::string> names;
  for (const Sourced& row : grids()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  const std::string near = nearest_spelling(std::string(name), names);
  throw Error({.code = ExitCode::kUsage,
               .what = "no such grid",
               .expected = fmt::format("one of {}; or --carbon with g CO2e per kWh", fmt::join(names, ", ")),
               .found = std::string(name),
               .where = "--grid",
               .hint = near.empty() ? "" : "--grid " + near});
}

Sourced grid_mix(std::string_view shares) {
  Uncertain sum{};
  double whole = 0;
  std::string_view rest = shares;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equals = part.find('=');
    const std::optional<double> share =
        parse_number<double>(equals == std::string_view::npos ? "" : part.substr(equals + 1));
    if (!share || !(*share >= 0 && *share <= 1)) refuse_mix(shares, std::string(part));
    sum = sum + grid(part.substr(0, equals)).value * *share;
    whole += *share;
  }
  if (std::abs(whole - 1) > 1e-6) refuse_mix(shares, fmt::format("{:g} together", whole));
  return {"carbon_g_per_kwh", sum, fmt::format("mix {}; {}", shares, kCodeCarbon)};
}

Embodied embodied_of(std::string_view accelerator) {
  constexpr const char* kDie = "LLMCarbon (ICLR 2024): die area × kg/cm²; 30 % uncertain (ours)";
  const auto die = [&](double cm2, double kg_per_cm2) {
    return Sourced{"embodied_die_kg", {cm2 * kg_per_cm2, 0.3 * cm2 * kg_per_cm2}, kDie};
  };
  const auto whole = [](double kg, const char* source) {
    return Sourced{"embodied_life_cycle_kg", {kg, 0.2 * kg}, source};
  };
  const auto host = [] {
    return Sourced{
        "embodied_host_kg",
        {318, 64},
        "A100 server, a device's share of it (Chien et al. 2023, second-hand); 20 % uncertain (ours)"};
  };
  if (accelerator == "v100") return {die(8.15, 1.2), std::nullopt, std::nullopt};
  if (accelerator == "a100" || accelerator == "a100-40" || accelerator == "a800") {
    Sourced own = die(8.26, 1.6);
    own.source =
        "826 mm² (NVIDIA A100 data sheet, from memory) × 1.6 kg/cm², LLMCarbon's of 7 nm: our product; 30 % "
        "uncertain (ours)";
    return {own, whole(127.6, "arXiv 2509.00093, A100 cradle to gate (second-hand); 20 % uncertain (ours)"),
            host()};
  }
  if (accelerator == "h100" || accelerator == "h800" || accelerator == "h200") {
    return {
        die(8.14, 1.8),
        whole(164,
              "HGX H100 1,312 kg / 8 (NVIDIA product carbon footprint, second-hand); 20 % uncertain (ours)"),
        std::nullopt};
  }
  return {};
}

EmbodiedSource embodied_source(std::string_view name) {
  if (name == "both") return EmbodiedSource::kBoth;
  if (name == "die") return EmbodiedSource::kDie;
  if (name == "life-cycle") return EmbodiedSource::kLifeCycle;
  throw Error({.code = ExitCode::kUsage,
               .what = "no such source of embodied carbon",
               .expected = "both, die or life-cycle",
               .found = std::string(name),
               .where = "--embodied"});
}

Embodied only(Embodied all, EmbodiedSource source) {
  if (source == EmbodiedSource::kDie) all.life_cycle.reset();
  if (source == EmbodiedSource::kLifeCycle) all.die.reset();
  return all;
}

std::vector<Sourced> sensitivity_grids() {
  Sourced hydro{
      "hydro",
      {20, 2},
      "hydro power at its least, as the footprint specification compares with; 10 % uncertain (ours)"};
  return {hydro, grid("us-east1"), grid("world"), grid("coal")};
}

const char* const kProcessorEmbodiedSource =
    "LLMCarbon: processor 1.47 cm² × 1.0 kg/cm², memory 0.4 kg/GB; 50 % uncertain (ours): board, case and "
    "power supply are not in it";

Uncertain processor_embodied_kg(double memory_bytes) {
  const double kg = 1.47 * 1.0 + 0.4 * memory_bytes * 1e-9;
  return {kg, 0.5 * kg};
}

Sourced default_pue() {
  return {"pue",
          {1.54, 0.15},
          "Uptime Institute 2025, world mean; ± 0.15 (ours). Google 1.09, Meta 1.08, AWS 1.15"};
}
Sourced default_water_on_site() {
  return {"water_on_site_l_per_kwh",
          {0.19, 0.07},
          "company reports, second-hand: AWS 0.12, Meta 0.19, Microsoft 0.27; per kWh of IT"};
}
Sourced default_water_grid() {
  return {"water_grid_l_per_kwh",
          {2.45, 0.65},
          "from memory, unconfirmed: 1.8 to 3.1 is typical; per kWh of the facility"};
}
Sourced accelerator_power_share() {
  return {"power_share_of_thermal",
          {0.7, 0.06},
          "rule of thumb, third party: training draws 60 to 80 % of the thermal design power"};
}
Sourced host_factor() {
  return {"host_factor",
          {1.39, 0.14},
          "8 × A100 node, 3.43 kW with PUE 1.1 (Chien et al. 2023, second-hand) over 8 · 400 W · 0.7; ± 10 % "
          "(ours)"};
}
Sourced core_watts() {
  return {"core_w",
          {5, 2},
          "ours: data-centre processors have 250 to 500 W for 64 to 192 cores, 2.5 to 6 W each, and a board "
          "around them"};
}
Sourced idle_share() {
  return {"idle_share", {0.4, 0.15}, "ours: a server without work draws a quarter to half of its full power"};
}
Sourced memory_watts_per_gb() {
  return {"memory_w_per_gb", {0.375, 0.1}, "CodeCarbon 2: 3 W per 8 GB; ± 0.1 (ours)"};
}
Sourced material_kg_per_device() {
  return {"material_kg_per_device",
          {1.491, 0.1},
          "arXiv 2512.04142: 3,750 kg over 2,515 A100 SXM 40 GB (our division); ± 0.1 (ours)"};
}

}  // namespace longhaul::plan
