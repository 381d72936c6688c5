#include "detect/trials/trial.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/random.h"

namespace longhaul::detect {
namespace {

struct Row {
  const char* name;
  Variant variant;
  const char* metrics;
  Distance distance = Distance::kEuclidean;
  bool continuous = true;
  int64_t gap_s = 8;
  int followed = 0;
  int64_t agreement_from = 100;
};

constexpr Row kRows[] = {
    {"minder", Variant::kMinder, "used"},
    {"minder, strict continuity", Variant::kMinder, "used", Distance::kEuclidean, true, 0},
    {"minder, the furthest alone", Variant::kMinder, "used", Distance::kEuclidean, true, 8, 1},
    {"minder, a metric alone", Variant::kMinder, "used", Distance::kEuclidean, true, 8, 0, 0},
    {"minder, no continuity", Variant::kMinder, "used", Distance::kEuclidean, false},
    {"minder, fewer metrics", Variant::kMinder, "fewer"},
    {"minder, more metrics", Variant::kMinder, "more"},
    {"minder, manhattan", Variant::kMinder, "used", Distance::kManhattan},
    {"minder, chebyshev", Variant::kMinder, "used", Distance::kChebyshev},
    {"raw", Variant::kRaw, "used"},
    {"mean", Variant::kMean, "used"},
    {"robust-z", Variant::kRobustZ, "used"},
    {"con", Variant::kCon, "used"},
    {"int", Variant::kInt, "used"},
    {"md", Variant::kMd, "used"},
    {"md-joint", Variant::kMdJoint, "used"},
};

enum class Set : uint64_t { kTrain = 0, kValidate = 1, kTest = 2 };

// By share, among all types but one.
std::string fault_other_than(const std::string& held_out, bool evaluation_mix, uint64_t seed) {
  const auto share_of = [&](const FaultType& type) {
    return type.name == held_out ? 0 : evaluation_mix ? type.evaluation_share : type.share;
  };
  double sum = 0;
  for (const FaultType& type : fault_types()) sum += share_of(type);
  double at = RandomStream(seed, "detect/held-out").uniform(0) * sum;
  std::string last;
  for (const FaultType& type : fault_types()) {
    if (share_of(type) <= 0) continue;
    last = type.name;
    if ((at -= share_of(type)) < 0) break;
  }
  return last;
}

// The seeds of the three sets are disjoint.
CaseSpec spec_of(const TrialOptions& options, uint64_t seed, Set set, int64_t index) {
  const uint64_t case_seed =
      seed * 10'000'000 + static_cast<uint64_t>(set) * 1'000'000 + static_cast<uint64_t>(index);
  CaseSpec spec{.machines = drawn_machines(case_seed, options.large && set == Set::kTest),
                .seed = case_seed,
                .fault = index % 2 == 0 ? "any" : "none",
                .evaluation_mix = options.evaluation_mix,
                .glitches = options.glitches,
                .shifted = options.shifted && set == Set::kTest};
  spec.metrics = options.training.metrics;
  constexpr int64_t kUnseenSizes[] = {12, 24, 48, 96}, kFaultsInALife[] = {1, 2, 4, 6};
  if (spec.shifted && !options.large) spec.machines = kUnseenSizes[index / 2 % 4];
  if (options.lives && set == Set::kTest) spec.episodes = kFaultsInALife[index / 2 % 4];
  if (!options.held_out.empty() && spec.fault == "any")
    spec.fault = set == Set::kTest ? options.held_out
                                   : fault_other_than(options.held_out, options.evaluation_mix, case_seed);
  return spec;
}

LabelledCase trial_case(const TrialOptions& options, uint64_t seed, Set set, int64_t index) {
  return labelled(spec_of(options, seed, set, index));
}

std::vector<LabelledCase> cases_of(const TrialOptions& options, uint64_t seed, Set set, int64_t count) {
  std::vector<LabelledCase> cases;
  for (int64_t i = 0; i < count; ++i) cases.push_back(trial_case(options, seed, set, i));
  return cases;
}

struct Ready {  // a row with its rules
  const Row* row;
  DetectOptions options;
  std::vector<Channel> channels;
  std::vector<Rule> rules;
};

Ready made_ready(const Row& row, const Models& models, const std::vector<LabelledCase>& cases) {
  Ready ready{.row = &row};
  ready.options = {.variant = row.variant,
                   .distance = row.distance,
                   .metrics = metric_choice(row.metrics),
                   .followed = row.followed,
                   .agreement_from = row.agreement_from,
                   .continuous = row.continuous,
                   .gap_s = row.gap_s};
  ready.channels = models.channels(row.variant, order_of(models, ready.options));
  std::vector<CaseTraces> traces;
  for (const LabelledCase& each : cases) traces.push_back(traces_of(each, ready.channels, ready.options));
  ready.rules = rules_of(tune(traces, ready.channels, ready.options).thresholds, ready.options);
  return ready;
}

std::vector<Alert> alerts_of(const Pull& pull, const Ready& ready) {
  if (pull.seconds <= ready.options.pull_s)
    return call(pull, ready.channels, ready.rules, ready.options).alerts;
  return run_calls(pull, ready.channels, ready.rules, ready.options).alerts;
}

void test_rows(const TrialOptions& options, uint64_t seed, const std::vector<Ready>& ready,
               TrialReport& report, Progress& progress) {
  for (TrialRow& row : report.rows) row.seeds.emplace_back();
  for (int64_t i = 0; i < options.test; ++i) {
    const LabelledCase test = trial_case(options, seed, Set::kTest, i);
    for (size_t r = 0; r < ready.size(); ++r) {
      const Stopwatch watch;
      const auto alerts = alerts_of(test.pull, ready[r]);
      report.rows[r].call_seconds.push_back(watch.seconds());
      for (const Verdict& verdict :
           verdicts_of(test.faults, test.pull.machines, alerts, metric_choice("used"), kContinuitySpan)) {
        report.rows[r].seeds.back().add(verdict);
        report.rows[r].verdicts.push_back(verdict);
      }
    }
    progress.advance(1);
  }
}

double f1_on(const Models& models, Variant variant, const std::vector<LabelledCase>& cases) {
  const DetectOptions options{.variant = variant};
  const std::vector<Channel> channels = models.channels(variant, order_of(models, options));
  std::vector<CaseTraces> traces;
  for (const LabelledCase& each : cases) traces.push_back(traces_of(each, channels, options));
  return tune(traces, channels, options).f1;
}

std::string text_of(const MahalanobisShape& shape) {
  return fmt::format("{} moments, {} s, {} axes", shape.moments, shape.window, shape.axes);
}

}  // namespace

std::vector<std::string> trial_rows() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

LabelledCase labelled(CaseSpec spec) {
  Case made = simulate(spec);
  fill_gaps(made.pull);
  return {std::move(made.pull), std::move(made.faults)};
}

void choose_mahalanobis(Models& models, std::span<const Pull> pulls, const std::vector<LabelledCase>& cases,
                        uint64_t seed) {
  double best = -1, best_joint = -1;
  Models tried = models;
  for (const int64_t window : {8, 30, 60, 120}) {
    for (const int64_t moments : {1, 2, 4}) {
      const MahalanobisShape shape{.moments = moments, .window = window, .axes = moments};
      for (size_t i = 0; i < models.metrics.size(); ++i)
        tried.mahalanobis[i] = fit_mahalanobis(pulls, {models.metrics[i]}, shape, seed);
      const double f1 = f1_on(tried, Variant::kMd, cases);
      if (f1 > best) best = f1, models.mahalanobis = tried.mahalanobis;
      for (const int64_t axes : {2, 4, 6, 8}) {
        tried.mahalanobis_joint = fit_mahalanobis(pulls, models.metrics,
                                                  {.moments = moments, .window = window, .axes = axes}, seed);
        const double joint = f1_on(tried, Variant::kMdJoint, cases);
        if (joint > best_joint) best_joint = joint, models.mahalanobis_joint = tried.mahalanobis_joint;
      }
    }
  }
}

TrialReport run_trial(const TrialOptions& options) {
  TrialReport report;
  if (!options.held_out.empty()) fault_named(options.held_out);
  std::vector<const Row*> chosen;
  for (const Row& row : kRows) {
    if (options.rows.empty() ||
        std::find(options.rows.begin(), options.rows.end(), row.name) != options.rows.end())
      chosen.push_back(&row);
  }
  for (const Row* row : chosen) report.rows.push_back({.name = row->name});
  TrialOptions all = options;
  all.training.metrics = metric_choice("used");
  for (const Row* row : chosen) {
    if (std::string_view(row->metrics) == "more") all.training.metrics = metric_choice("more");
  }
  Progress progress("cases", options.seeds * options.test);
  for (int64_t s = 0; s < options.seeds; ++s) {
    const auto seed = static_cast<uint64_t>(options.first_seed + s);
    std::vector<Pull> pulls;
    for (LabelledCase& each : cases_of(all, seed, Set::kTrain, options.train))
      pulls.push_back(std::move(each.pull));
    all.training.seed = seed;
    const Stopwatch watch;
    Models models = train_models(pulls, all.training);
    report.train_seconds = std::max(report.train_seconds, watch.seconds());
    for (const TrainedVae& vae : models.vaes)
      report.worst_retained = std::min(report.worst_retained, vae.retained);
    const std::vector<LabelledCase> validation = cases_of(all, seed, Set::kValidate, options.validate);
    // The joint baselines look at the seven metrics, as Minder does.
    Models seven = models;
    if (models.metrics.size() > kUsedMetrics) {
      seven.metrics = metric_choice("used"), seven.vaes.resize(kUsedMetrics),
      seven.mahalanobis.resize(kUsedMetrics), seven.priority = seven.metrics;
      TrainOptions joint = all.training;
      joint.metrics = seven.metrics;
      seven.joint = train_vae(pulls, seven.metrics, joint);
    }
    const bool any_md = std::any_of(chosen.begin(), chosen.end(),
                                    [](const Row* row) { return row->variant >= Variant::kMd; });
    if (any_md) {
      choose_mahalanobis(
          seven, pulls,
          {validation.begin(),
           validation.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(32, validation.size()))},
          seed);
      report.mahalanobis.push_back(fmt::format("md: {}; joint: {}", text_of(seven.mahalanobis.front().shape),
                                               text_of(seven.mahalanobis_joint.shape)));
    }
    std::vector<Ready> ready;
    for (const Row* row : chosen)
      ready.push_back(
          made_ready(*row, std::string_view(row->metrics) == "more" ? models : seven, validation));
    test_rows(all, seed, ready, report, progress);
  }
  return report;
}

}  // namespace longhaul::detect
