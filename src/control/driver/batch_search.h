// The search for the samples that kill every rank that reads them. Each generation of the search skips some
// of the suspected samples and saves nothing. If it dies as before, the skipped samples are innocent; if it
// gets past the place of the crash, they hold the guilty ones. The first generation skips all suspects, to
// prove that the data is the cause at all; the next ones skip halves. If no probe has died until one range is
// left, that range is tried once more with nothing skipped, because the two crashes at one step may have had
// other causes. Pure functions. The search takes 2 + log2(samples) generations, one more if the guilty sample
// is the first.
#pragma once

#include <optional>

#include "control/journal.h"
#include "control/policy.h"
#include "data/order/data_position.h"

namespace longhaul::control {

// Begins the search after a crash in the step that follows `step` completed steps. The suspects are the
// samples of that step and those that were prefetched.
SearchChanged begin_search(int64_t step, const std::string& trace, const RunPlan& plan,
                           const std::vector<data::SampleRange>& skipped);

struct SearchStep {
  SearchChanged next;  // the next probe; not active: the search is over
  // The samples that kill, once the search is over; none: the data is not the cause (next.failed), or no
  // probe died again.
  std::optional<data::SampleRange> found;
};
// `begin`: the first sample that was suspected in this search.
SearchStep after_probe(const SearchChanged& search, bool died, int64_t begin, int64_t samples);

// The number of completed steps at which a probe has survived the place of the crash.
int64_t survived_at(const SearchChanged& search, const RunPlan& plan);

// The ranges to be written to RUN/control/skip.json, those skipped for good and those of the probe: sorted
// and merged.
std::vector<data::SampleRange> joined(std::vector<data::SampleRange> ranges);

}  // namespace longhaul::control
