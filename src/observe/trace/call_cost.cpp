#include "observe/trace/call_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "base/progress.h"
#include "observe/board/group_kind.h"
#include "observe/format.h"
#include "observe/table.h"
#include "observe/trace/time_use.h"

namespace longhaul::observe {
namespace {

std::string without_numbers(const std::string& name) {
  std::string kind;
  for (const char letter : name) {
    if (std::isdigit(static_cast<unsigned char>(letter)) == 0)
      kind += letter;
    else if (kind.empty() || kind.back() != '*')
      kind += '*';
  }
  return kind;
}

using Kinds = std::map<std::pair<std::string, std::string>, CallCost>;

void add_calls(Kinds& kinds, const StepTrace& step, std::span<const int64_t> complete_ns) {
  for (size_t i = 0; i < step.calls.size(); ++i) {
    const CallSpan& call = step.calls[i];
    CallCost& cost = kinds[{group_kind(call.group), without_numbers(call.name)}];
    ++cost.calls;
    cost.bytes += call.sent;
    for (const Interval& blocked : blocked_by(call)) {
      const int64_t begin = std::max(blocked.begin, step.begin_ns), end = std::min(blocked.end, step.end_ns);
      const int64_t met = std::clamp(complete_ns[i], begin, std::max(begin, end));
      cost.early_ns += met - begin;
      cost.exposed_ns += std::max<int64_t>(0, end - met);
    }
  }
}

}  // namespace

std::vector<CallCost> call_costs(const std::vector<RankTrace>& ranks) {
  Kinds kinds;
  for (const std::vector<StepOfRank>& step : steps_of(ranks)) {
    const Meeting meeting = meeting_of(step);
    for (size_t i = 0; i < step.size(); ++i) add_calls(kinds, *step[i].step, meeting.complete_ns[i]);
  }
  std::vector<CallCost> list;
  for (auto& [key, cost] : kinds) {
    cost.group = key.first;
    cost.name = key.second;
    list.push_back(std::move(cost));
  }
  std::ranges::stable_sort(list, std::ranges::greater(), &CallCost::exposed_ns);
  return list;
}

std::string call_cost_table(const std::vector<CallCost>& kinds, int64_t steps, size_t most, bool colours) {
  Table table("calls of a step, of all ranks", {{"group"},
                                                {"call"},
                                                {"calls", Align::kRight},
                                                {"sent", Align::kRight},
                                                {"exposed", Align::kRight},
                                                {"waited for others", Align::kRight}});
  const auto row = [&](const CallCost& cost) {
    const auto mean = [&](int64_t sum) { return static_cast<double>(sum) / static_cast<double>(steps); };
    table.row({cost.group, cost.name, fmt::format("{:.3g}", mean(cost.calls)),
               bytes_text(std::llround(mean(cost.bytes))), milliseconds_text(1e-6 * mean(cost.exposed_ns)),
               milliseconds_text(1e-6 * mean(cost.early_ns))});
  };
  CallCost rest{.group = "", .name = "others"};
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (i < most || kinds.size() == most + 1) {
      row(kinds[i]);
      continue;
    }
    rest.calls += kinds[i].calls;
    rest.bytes += kinds[i].bytes;
    rest.exposed_ns += kinds[i].exposed_ns;
    rest.early_ns += kinds[i].early_ns;
  }
  if (rest.calls > 0) row(rest);
  return table.text(colours);
}

}  // namespace longhaul::observe
