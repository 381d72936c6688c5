// The error of the model for published steps (plan/published.h), row by row and by groups: a table for the
// terminal, JSON for machines, a page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/published.h"
#include "plan/search/search_check.h"

namespace longhaul::plan {

std::string use_text(const PublishedRow& row);  // "held out"; "held out, in sight"; "held out, apart"

struct PublishedGroup {
  std::string name;
  std::vector<PublishedRow> rows;
};
// The groups: rows by which plans are judged, dense ones and those with experts; those whose weights are cut
// over data ranks; those that are set apart (each row says why); those that were used for fitting; then
// held-out rows by family.
std::vector<PublishedGroup> published_groups();

// True if clearly different published pairs are predicted in the right order, and if no search result was
// worse than a neighbour of its best.
bool validation_holds(const std::vector<SearchCheck>& searches);

std::string validation_text(const std::vector<SearchCheck>& searches, bool colours);
nlohmann::ordered_json validation_json(const std::vector<SearchCheck>& searches);
std::string validation_page();

}  // namespace longhaul::plan
