// The page of a trial tells the figures that the tallies have, beside the ceiling and the paper's.
#include "detect/trials/trial_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files/file.h"

namespace longhaul::detect {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Verdict verdict(const char* type, int64_t machines, bool found, bool false_alarm, int64_t episodes = 1) {
  const bool fault = std::string(type) != "none";
  return {.type = type,
          .machines = machines,
          .found = found,
          .missed = fault && !found,
          .false_alarm = false_alarm,
          .detectable = fault,
          .delay_s = found ? 241.0 : 0,
          .episodes = episodes};
}

// Two seeds: one finds both of its faults, the other one of two and alerts for nothing once. Precision 1 and
// 1/2, recall 1 and 1/2, F1 1 and 1/2.
TrialReport small_report() {
  TrialReport report;
  for (const char* name : {"minder", "robust-z"}) {
    TrialRow row{.name = name, .seeds = {}, .verdicts = {}, .call_seconds = {0.1}};
    const std::vector<std::vector<Verdict>> seeds = {
        {verdict("ecc_error", 16, true, false), verdict("nic_dropout", 1024, true, false, 2),
         verdict("none", 16, false, false)},
        {verdict("ecc_error", 16, true, false), verdict("nic_dropout", 1024, false, false, 2),
         verdict("none", 16, false, true)}};
    for (const auto& seed : seeds) {
      row.seeds.push_back(tally_of(seed));
      row.verdicts.insert(row.verdicts.end(), seed.begin(), seed.end());
    }
    report.rows.push_back(row);
  }
  return report;
}

TEST(TrialPage, TellsWhatTheTalliesHave) {
  const std::string page = trial_page(small_report(), "Two <detectors>");
  EXPECT_THAT(page, AllOf(HasSubstr("Two &lt;detectors&gt;"), HasSubstr("6 cases, 2 seeds, 2 detectors"),
                          HasSubstr("0.893"), HasSubstr("0.904")));
  EXPECT_THAT(page, HasSubstr("0.75 ± 0.25")) << "mean and deviation of 1 and 1/2";
  EXPECT_THAT(page, AllOf(HasSubstr("by machines"), HasSubstr("by fault"), HasSubstr("by faults in a life")));
  // ecc_error: two cases, both found. 1,024 machines: one of two.
  EXPECT_THAT(page, HasSubstr("<td>ecc_error</td><td class=\"n\">2</td><td class=\"n\">0</td><td "
                              "class=\"n\">1.000</td><td class=\"n\">1.000</td>"));
  EXPECT_THAT(page, HasSubstr("<td> 1024</td><td class=\"n\">2</td><td class=\"n\">0</td><td "
                              "class=\"n\">1.000</td><td class=\"n\">0.500</td>"));
  EXPECT_THAT(page, HasSubstr("<td>2 faults</td>"));
  if (const char* out = std::getenv("LONGHAUL_TRIAL_PAGE")) write_text_atomically(out, page);  // to look at
}

TEST(TrialPage, OfCasesThatWereScored) {
  const std::string page = score_page(small_report().rows.front().verdicts, "one");
  EXPECT_THAT(page,
              AllOf(HasSubstr("6 cases, 4 with a fault"), HasSubstr("ceiling of recall"), HasSubstr("0.75")));
}

}  // namespace
}  // namespace longhaul::detect
