// A page that shows the seven metrics of a suspect against the rest: the suspect's line, the median of the others, and some of the others behind, with
// the second in which the run that led to the alert began. One HTML file with everything inside.
#pragma once

#include <string>

#include "detect/minder/detector.h"

namespace longhaul::detect {

// suspect: a machine of the pull; the alerts that concern it are told above the charts. `title`: what was looked at.
std::string suspect_page(const Pull& pull, const RunReport& report, const std::string& suspect, const Models& models,
                         const std::string& title);

}  // namespace longhaul::detect
