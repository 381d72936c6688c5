// The search for the samples that kill every rank that reads them. Each generation of the search passes over some of those under suspicion, saving
// nothing, until it dies as before (they are innocent) or lives past the place (they are guilty): first all of them, to know that it is the data at
// all, then halves. Who is left without any probe having died is tried once more with nothing passed over: two crashes at one step may have been
// others'. Pure functions; 2 + log2(samples) generations, one more for the first sample.
#pragma once

#include <optional>

#include "control/journal.h"
#include "control/policy.h"
#include "data/order/data_position.h"

namespace longhaul::control {

// The sample at a position of the order, with these passed over (sorted, apart).
int64_t sample_at(int64_t position, const std::vector<data::SampleRange>& skipped);

// Of a death in the step after `step` done ones: its samples, and those read ahead.
SearchChanged begin_search(int64_t step, const std::string& trace, const RunPlan& plan, const std::vector<data::SampleRange>& skipped);

struct SearchStep {
  SearchChanged next;                      // what to try; not active: the search is over
  std::optional<data::SampleRange> found;  // then: those who kill; none: it is not the data (next.failed), or nobody died again
};
// `begin`: the first sample that was ever under suspicion in this search.
SearchStep after_probe(const SearchChanged& search, bool died, int64_t begin, int64_t samples);

// Steps done at which a probe has outlived what is looked for.
int64_t survived_at(const SearchChanged& search, const RunPlan& plan);

// For RUN/control/skip.json: what is passed over for good and for the probe, sorted and joined.
std::vector<data::SampleRange> joined(std::vector<data::SampleRange> ranges);

}  // namespace longhaul::control
