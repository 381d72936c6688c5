#include "observe/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "observe/event_log.h"

namespace longhaul::observe {
namespace {

constexpr std::array<const char*, 6> kFields = {"loss", "grad_norm", "learning_rate", "tokens", "auxiliary_loss", "evaluation.loss"};
constexpr size_t kEvaluationLoss = 5;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
using Values = std::array<double, kFields.size()>;

struct Steps {
  std::map<int64_t, Values> values;
  std::map<int64_t, double> evaluations;
};

Steps read(const std::filesystem::path& run) {
  Steps steps;
  for_each_event(events_file(run), [&](const Event& event) {
    if (const auto* step = std::get_if<StepReport>(&event.body)) {
      steps.values[step->step] = {
          step->loss, step->grad_norm, step->learning_rate, static_cast<double>(step->tokens), step->auxiliary_loss.value_or(kNone), kNone};
    } else if (const auto* evaluation = std::get_if<Evaluation>(&event.body)) {
      steps.evaluations[evaluation->step] = evaluation->loss;
    } else if (const auto* resume = std::get_if<Resume>(&event.body)) {
      steps.values.erase(steps.values.upper_bound(resume->step), steps.values.end());
      steps.evaluations.erase(steps.evaluations.upper_bound(resume->step), steps.evaluations.end());
    }
  });
  return steps;
}

bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

void note(FieldDifference& difference, int64_t step, double a, double b) {
  if (same(a, b)) return;
  const double distance = std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : std::numeric_limits<double>::infinity();
  if (difference.steps++ == 0) {
    difference.step = step;
    difference.first = a;
    difference.second = b;
  }
  if (difference.steps == 1 || distance > difference.largest) {
    difference.largest = distance;
    difference.largest_step = step;
  }
}

}  // namespace

Comparison compare(const std::filesystem::path& first_run, const std::filesystem::path& second_run) {
  const Steps first = read(first_run), second = read(second_run);
  Comparison result;
  std::array<FieldDifference, kFields.size()> fields;
  for (const auto& [step, a] : first.values) {
    const auto other = second.values.find(step);
    if (other == second.values.end()) {
      ++result.only_in_first;
      continue;
    }
    ++result.steps_in_both;
    for (size_t f = 0; f < fields.size(); ++f) note(fields[f], step, a[f], other->second[f]);
  }
  result.only_in_second = static_cast<int64_t>(second.values.size()) - result.steps_in_both;
  for (const auto& [step, a] : first.evaluations) {
    const auto other = second.evaluations.find(step);
    if (other != second.evaluations.end()) note(fields[kEvaluationLoss], step, a, other->second);
  }
  for (size_t f = 0; f < fields.size(); ++f) {
    fields[f].field = kFields[f];
    if (fields[f].steps > 0) result.differences.push_back(fields[f]);
  }
  std::stable_sort(result.differences.begin(), result.differences.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return result;
}

std::string Comparison::text() const {
  std::string text;
  if (steps_in_both == 0) {
    text = "the two runs have no step in common\n";
  } else if (differences.empty()) {
    text = fmt::format("{} steps are equal to the last bit\n", steps_in_both);
  } else {
    text = fmt::format("of {} steps in both, step {} is the first that differs\n", steps_in_both, first_step());
    for (const auto& d : differences) {
      text += fmt::format("  {:<16} first at step {}: {:.17g} and {:.17g}; differs in {} steps, by at most {:.3g} (step {})\n", d.field,
                          d.step, d.first, d.second, d.steps, d.largest, d.largest_step);
    }
  }
  if (only_in_first > 0) text += fmt::format("{} steps are only in the first run\n", only_in_first);
  if (only_in_second > 0) text += fmt::format("{} steps are only in the second run\n", only_in_second);
  return text;
}

}  // namespace longhaul::observe
