#include "observe/events/event_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/text/text.h"
#include "observe/events/event_log.h"
#include "observe/events/machine_metrics.h"

namespace longhaul::observe {
namespace {

constexpr std::array<const char*, 6> kFields = {"loss",   "grad_norm",      "learning_rate",
                                                "tokens", "auxiliary_loss", "evaluation.loss"};
constexpr size_t kEvaluationLoss = 5;
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
using Values = std::array<double, kFields.size()>;

struct Step {
  Values values{};
  Metrics metrics;
};
struct Steps {
  std::map<int64_t, Step> values;
  std::map<int64_t, Evaluation> evaluations;
};

Steps read(const std::filesystem::path& run) {
  Steps steps;
  for_each_event(events_file(run), [&](const Event& event) {
    if (const auto* step = std::get_if<StepReport>(&event.body)) {
      steps.values[step->step] = {
          {step->loss, step->grad_norm, step->learning_rate, static_cast<double>(step->tokens),
           step->auxiliary_loss.value_or(kNoNumber), kNoNumber},
          step->metrics};
    } else if (const auto* evaluation = std::get_if<Evaluation>(&event.body)) {
      steps.evaluations[evaluation->step] = *evaluation;
    } else if (const auto* resume = std::get_if<Resume>(&event.body)) {
      steps.values.erase(steps.values.upper_bound(resume->step), steps.values.end());
      steps.evaluations.erase(steps.evaluations.upper_bound(resume->step), steps.evaluations.end());
    }
  });
  return steps;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

void note(FieldDifference& difference, int64_t step, double a, double b) {
  if (same(a, b)) return;
  const double distance =
      std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : std::numeric_limits<double>::infinity();
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

// An evaluation that the second run does not have is not compared.
void note(std::map<std::string, FieldDifference>& by_name, const char* prefix, int64_t step, const Metrics& a,
          const Metrics& b) {
  for (const auto& [name, value] : a) {
    if (tells_of_memory(name)) continue;
    const auto other = b.find(name);
    note(by_name[prefix + name], step, value, other == b.end() ? kNoNumber : other->second);
  }
}

}  // namespace

Comparison compare(const std::filesystem::path& first_run, const std::filesystem::path& second_run) {
  const Steps first = read(first_run), second = read(second_run);
  Comparison result;
  std::array<FieldDifference, kFields.size()> fields;
  std::map<std::string, FieldDifference> by_name;  // of what a task measures
  for (const auto& [step, a] : first.values) {
    const auto other = second.values.find(step);
    if (other == second.values.end()) {
      result.only_in_first.push_back(step);
      continue;
    }
    ++result.steps_in_both;
    for (size_t f = 0; f < fields.size(); ++f) note(fields[f], step, a.values[f], other->second.values[f]);
    note(by_name, "metrics.", step, a.metrics, other->second.metrics);
  }
  for (const auto& [step, b] : second.values) {
    if (!first.values.contains(step)) result.only_in_second.push_back(step);
  }
  for (const auto& [step, a] : first.evaluations) {
    const auto other = second.evaluations.find(step);
    if (other == second.evaluations.end()) continue;
    note(fields[kEvaluationLoss], step, a.loss.value_or(kNoNumber), other->second.loss.value_or(kNoNumber));
    note(by_name, "evaluation.", step, a.metrics, other->second.metrics);
  }
  for (size_t f = 0; f < fields.size(); ++f) {
    fields[f].field = kFields[f];
    if (fields[f].steps > 0) result.differences.push_back(fields[f]);
  }
  for (auto& [name, difference] : by_name) {
    difference.field = name;
    if (difference.steps > 0) result.differences.push_back(difference);
  }
  std::stable_sort(result.differences.begin(), result.differences.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  return result;
}

std::string Comparison::text() const {
  std::string text;
  if (steps_in_both == 0) {
    text = "the two runs have no step in common\n";
  } else if (differences.empty()) {
    text =
        counted(steps_in_both, "step") + (steps_in_both == 1 ? " is" : " are") + " equal to the last bit\n";
  } else {
    text = fmt::format("of {} in both, step {} is the first that differs\n", counted(steps_in_both, "step"),
                       first_step());
    for (const auto& d : differences) {
      text += fmt::format(
          "  {:<16} first at step {}: {:.17g} and {:.17g}; differs in {}, by at most {:.3g} (step {})\n",
          d.field, d.step, d.first, d.second, counted(d.steps, "step"), d.largest, d.largest_step);
    }
  }
  const auto only_in = [&](const char* which, const std::vector<int64_t>& steps) {
    if (!steps.empty())
      text += fmt::format("only in the {} run: {}\n", which, counted(std::ssize(steps), "step"));
  };
  only_in("first", only_in_first);
  only_in("second", only_in_second);
  return text;
}

}  // namespace longhaul::observe
