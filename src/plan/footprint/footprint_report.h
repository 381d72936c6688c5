// A footprint for people and machines: a table for the terminal, JSON, Markdown for a model's card, a page of one file with SVG pictures, and the
// section with which the page of a run ends. Two runs side by side likewise.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/footprint/footprint.h"
#include "plan/footprint/run_footprint.h"

namespace longhaul::plan {

std::string footprint_text(const Footprint& footprint, bool colours);
nlohmann::ordered_json footprint_json(const Footprint& footprint);
std::string footprint_markdown(const Footprint& footprint);  // with what was assumed, and where each number is from
std::string footprint_page(const Footprint& footprint);

// Of a run folder, for observe::write_report; says why when it cannot be told.
std::string footprint_section(const std::filesystem::path& run, const std::vector<RunMachine>& machines = {});

// The second beside the first.
struct FootprintComparison {
  Footprint first, second;
  bool per_token() const { return first.input.tokens > 0 && second.input.tokens > 0; }
  double utilisation_ratio() const { return second.input.mfu / first.input.mfu; }
  double lifetimes_ratio() const;  // of a token
  double energy_ratio() const;     // of a token
};
std::string comparison_text(const FootprintComparison& comparison, bool colours);
nlohmann::ordered_json comparison_json(const FootprintComparison& comparison);
std::string comparison_markdown(const FootprintComparison& comparison);
std::string comparison_page(const FootprintComparison& comparison);

}  // namespace longhaul::plan
