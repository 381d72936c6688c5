// How far the model is from published steps (plan/published.h), row by row and by groups of rows: a table for the terminal, JSON for machines, a page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/published.h"

namespace longhaul::plan {

const char* use_text(RowUse use);  // "held out"

struct PublishedGroup {
  std::string name;
  std::vector<PublishedRow> rows;
};
// What plans are judged by, dense rows and such with experts; those that everything is cut over; those that stand apart (row by row it is said why);
// what was fitted on; then held-out rows family by family.
std::vector<PublishedGroup> published_groups();

std::string validation_text(bool colours);
nlohmann::ordered_json validation_json();
std::string validation_page();

}  // namespace longhaul::plan
