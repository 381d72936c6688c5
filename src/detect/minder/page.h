// A page that shows the seven metrics of a suspect against the rest: the suspect's line, the median of the
// others, and some of the others in the background, with the second at which the run that led to the alert
// began. One self-contained HTML file.
#pragma once

#include <string>

#include "detect/minder/detector.h"

namespace longhaul::detect {

// suspect: a machine of the pull; its alerts are listed above the charts. `title`: name of the examined data.
std::string suspect_page(const Pull& pull, const RunReport& report, const std::string& suspect,
                         const Models& models, const std::string& title);

}  // namespace longhaul::detect
