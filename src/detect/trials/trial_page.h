// The page of a trial: precision, recall and F1 of every detector with their spread over seeds, with the
// ceiling of the cases and the paper's figures; and the first detector's results by number of machines, fault
// type and number of faults. score_page() is the page of given cases. One self-contained HTML file.
#pragma once

#include <string>

#include "detect/trials/trial.h"

namespace longhaul::detect {

std::string trial_page(const TrialReport& report, const std::string& title);
// The page of `detect score`, for one detector and without a spread.
std::string score_page(const std::vector<Verdict>& verdicts, const std::string& title);

// Keys by which results are broken down.
std::string machines_of(const Verdict& verdict);  // "1,024 machines", padded so that names sort by number
std::string fault_of(const Verdict& verdict);
// "no fault", "1 fault", "2 faults", "3 to 5 faults", "over 5 faults"
std::string life_of(const Verdict& verdict);

}  // namespace longhaul::detect
