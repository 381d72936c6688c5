// A footprint for people and machines: a table for the terminal, JSON, Markdown for a model card, a
// self-contained page with SVG pictures, and the last section of a run's page. Comparisons of two runs have
// the same forms.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/footprint/footprint.h"
#include "plan/footprint/run_footprint.h"

namespace longhaul::plan {

std::string footprint_text(const Footprint& footprint, bool colours);
nlohmann::ordered_json footprint_json(const Footprint& footprint);
// With the assumptions, and the source of each number.
std::string footprint_markdown(const Footprint& footprint);
std::string footprint_page(const Footprint& footprint);

// The section for a run folder, for observe::write_report; if there is no footprint it says why.
std::string footprint_section(const std::filesystem::path& run, const std::vector<RunMachine>& machines = {});

// FootprintComparison: the second footprint compared with the first.
struct FootprintComparison {
  Footprint first, second;
  bool per_token() const { return first.input.tokens > 0 && second.input.tokens > 0; }
  double utilisation_ratio() const { return second.input.mfu / first.input.mfu; }
  double lifetimes_ratio() const;  // per token
  double energy_ratio() const;     // per token
};
std::string comparison_text(const FootprintComparison& comparison, bool colours);
nlohmann::ordered_json comparison_json(const FootprintComparison& comparison);
std::string comparison_markdown(const FootprintComparison& comparison);
std::string comparison_page(const FootprintComparison& comparison);

}  // namespace longhaul::plan
