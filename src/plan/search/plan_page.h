// The result of a search as one self-contained page.
#pragma once

#include <string>

#include "plan/search/plan_report.h"

namespace longhaul::plan {

std::string plan_page(const PlanReport& report);

}  // namespace longhaul::plan
