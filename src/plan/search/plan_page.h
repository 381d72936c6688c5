// A search as a page to look at: one file that needs nothing else.
#pragma once

#include <string>

#include "plan/search/plan_report.h"

namespace longhaul::plan {

std::string plan_page(const PlanReport& report);

}  // namespace longhaul::plan
