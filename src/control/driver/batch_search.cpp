#include "control/driver/batch_search.h"

#include <algorithm>

namespace longhaul::control {

int64_t RunPlan::first_position(int64_t step) const {
  int64_t position = 0;
  for (size_t i = 0; i < batches.size() && batches[i].from_step < step; ++i) {
    const int64_t end = i + 1 < batches.size() ? std::min(step, batches[i + 1].from_step) : step;
    position += (end - batches[i].from_step) * batches[i].samples;
  }
  return position;
}

SearchChanged begin_search(int64_t step, const std::string& trace, const RunPlan& plan,
                           const std::vector<data::SampleRange>& skipped) {
  SearchChanged search{.active = true, .deadly_step = step, .trace = trace};
  search.begin = sample_at(plan.first_position(step), skipped);
  search.end = sample_at(plan.first_position(step + 1 + plan.prefetch) - 1, skipped) + 1;
  search.skipped_begin = search.begin;
  search.skipped_end = search.end;
  return search;
}

SearchStep after_probe(const SearchChanged& search, bool died, int64_t begin, int64_t samples) {
  const bool whole = search.skipped_begin == search.begin && search.skipped_end == search.end;
  const bool nothing = search.skipped_begin == search.skipped_end;
  SearchStep step{.next = search, .found = {}};
  SearchChanged& next = step.next;
  if (nothing) {
    next.active = false;
    if (died) step.found = data::SampleRange{search.begin, search.end};
    return step;
  }
  if (whole && died) {
    next.active = false;
    next.failed = true;
    return step;
  }
  if (!whole) (died ? next.begin : next.end) = search.skipped_end;
  if (next.end - next.begin <= std::max<int64_t>(1, samples)) {
    const bool any_died = next.begin > begin;  // a probe that dies moves the beginning
    if (!any_died) {
      next.skipped_begin = next.skipped_end = next.begin;
      return step;
    }
    next.active = false;
    step.found = data::SampleRange{next.begin, next.end};
    return step;
  }
  next.skipped_begin = next.begin;
  next.skipped_end = next.begin + (next.end - next.begin) / 2;
  return step;
}

int64_t survived_at(const SearchChanged& search, const RunPlan& plan) {
  return search.deadly_step + plan.prefetch + 2;
}

std::vector<data::SampleRange> joined(std::vector<data::SampleRange> ranges) {
  std::ranges::sort(ranges, {}, &data::SampleRange::begin);
  std::vector<data::SampleRange> result;
  for (const data::SampleRange& range : ranges) {
    if (range.end <= range.begin) continue;
    if (!result.empty() && range.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, range.end);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

}  // namespace longhaul::control
