// How far the model is from published steps (plan/published.h), row by row and by groups of rows: a table for the terminal, JSON for machines, a page.
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
// What plans are judged by, dense rows and such with experts; those whose weights are cut over data ranks; those that stand apart (row by row it is said
// why); what was fitted on; then held-out rows family by family.
std::vector<PublishedGroup> published_groups();

// That published pairs which are clearly apart are in their order as predicted too, and that no search was beaten by a neighbour of its best.
bool validation_holds(const std::vector<SearchCheck>& searches);

std::string validation_text(const std::vector<SearchCheck>& searches, bool colours);
nlohmann::ordered_json validation_json(const std::vector<SearchCheck>& searches);
std::string validation_page();

}  // namespace longhaul::plan
