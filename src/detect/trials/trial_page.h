// A page of a trial: precision, recall and F1 of every detector with their spread over seeds, beside the ceiling of the cases and the paper's figures; and
// the first detector's by number of machines, by fault and by faults in a life. One HTML file with everything inside. And of cases that were scored.
#pragma once

#include <string>

#include "detect/trials/trial.h"

namespace longhaul::detect {

std::string trial_page(const TrialReport& report, const std::string& title);
// Of one detector: `detect score`. Without a spread.
std::string score_page(const std::vector<Verdict>& verdicts, const std::string& title);

// Keys of breakdowns.
std::string machines_of(const Verdict& verdict);  // "1,024 machines", padded so that names sort by number
std::string fault_of(const Verdict& verdict);
std::string life_of(const Verdict& verdict);  // "no fault", "1 fault", "2 faults", "3 to 5 faults", "over 5 faults"

}  // namespace longhaul::detect
