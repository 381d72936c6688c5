// From simulated metrics to alerts: calls, streams, models on disk, variants, thresholds, order, driver and scores.
#include "detect/detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_folder.h"
#include "detect/case_files.h"
#include "detect/csv.h"
#include "detect/driver.h"
#include "detect/page.h"
#include "detect/priority.h"
#include "detect/stream.h"
#include "detect/trial.h"

namespace longhaul::detect {
namespace {

using ::testing::HasSubstr;

// Trained once, shortly: enough to carry a level, which is what these tests look at.
const Models& small_models() {
  static const Models models = [] {
    std::vector<Pull> pulls;
    for (uint64_t seed = 1; seed <= 3; ++seed)
      pulls.push_back(labelled({.machines = 8, .seed = seed, .fault = "any", .seconds = 400}).pull);
    TrainOptions options{.steps = 400, .batch = 96, .rate = 1e-2, .beta = 1e-6};
    return train_models(pulls, options);
  }();
  return models;
}

const size_t kCpuMetric = metric_named("cpu_usage", "");

// Healthy machines, and one whose CPU falls by half from second 300 on. Of this seed no other machine has an episode of its own for minutes, as the
// first ranks of some have: two that differ at once are the matter of `top`.
Pull with_slow_machine(int64_t machines, int32_t slow, int64_t seconds = 900) {
  Pull pull = labelled({.machines = machines, .seed = 58, .fault = "none", .seconds = seconds}).pull;
  for (int64_t s = 300; s < seconds; ++s) pull.row(kCpuMetric, s)[slow] *= 0.4f;
  return pull;
}

TEST(Detector, NamesTheMachineTheMetricAndTheSecond) {
  for (const Variant variant : kVariants) {
    const CallReport report = call(with_slow_machine(16, 11), small_models(), {.variant = variant});
    const bool of_one_metric = variant == Variant::kMinder || variant == Variant::kRaw, md = variant == Variant::kMd;
    // All metrics in one vector dilute the one that tells: whoever joins them may be late or see nothing, but names nobody else.
    ASSERT_LE(report.alerts.size(), 1u) << name_of(variant);
    ASSERT_TRUE(!report.alerts.empty() || !(of_one_metric || md)) << name_of(variant);
    if (report.alerts.empty()) continue;
    EXPECT_EQ(report.alerts[0].machine, "machine-0011") << name_of(variant);
    if (of_one_metric) {
      EXPECT_NEAR(report.alerts[0].first_s, 300, 12) << name_of(variant);
      EXPECT_EQ(report.alerts[0].metric, "cpu_usage");
    }
  }
}

TEST(Detector, HealthyMachinesAreLeftAlone) {
  const Pull pull = labelled({.machines = 16, .seed = 5, .fault = "none"}).pull;
  EXPECT_TRUE(call(pull, small_models(), {}).alerts.empty());
}

TEST(Detector, EndsAtTheFirstMetricThatAlerts) {
  const CallReport report = call(with_slow_machine(16, 3), small_models(), {.priority = Priority::kPaper});
  EXPECT_EQ(report.channels, 2);  // PFC, then CPU
}

TEST(Detector, FewMachinesAreAnsweredNotGuessed) {
  for (const int64_t machines : {1, 2, 3}) {
    const Pull pull = with_slow_machine(machines, 0);
    EXPECT_THROW(
        {
          try {
            call(pull, small_models(), {});
          } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr("at least 4"));
            EXPECT_EQ(error.code(), ExitCode::kData);
            throw;
          }
        },
        Error);
  }
}

TEST(Detector, SilentMachinesAreNamed) {
  Pull pull = labelled({.machines = 8, .seed = 58, .fault = "none"}).pull;
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    for (int64_t s = 700; s < 900; ++s) pull.row(m, s)[6] = std::numeric_limits<float>::quiet_NaN();
  }
  const CallReport report = call(pull, small_models(), {});
  ASSERT_EQ(report.alerts.size(), 1u);
  EXPECT_EQ(report.alerts[0].machine, "machine-0006");
  EXPECT_EQ(report.alerts[0].metric, kNoData);
  EXPECT_EQ(report.alerts[0].first_s, 700);
  // One metric alone: said, not alerted.
  Pull partly = labelled({.machines = 8, .seed = 58, .fault = "none"}).pull;
  for (int64_t s = 700; s < 900; ++s) partly.row(2, s)[6] = std::numeric_limits<float>::quiet_NaN();
  const CallReport said = call(partly, small_models(), {});
  EXPECT_TRUE(said.alerts.empty());
  ASSERT_EQ(said.silent.size(), 1u);
  EXPECT_EQ(said.silent[0].metric, 2u);
}

TEST(Detector, SaysWhatItCannotJudge) {
  Pull pull = with_slow_machine(16, 3);
  for (int64_t s = 0; s < pull.seconds; ++s) std::fill(pull.row(0, s), pull.row(0, s) + 16, 0.1f);
  for (int64_t s = 0; s < 600; ++s) std::fill(pull.row(5, s), pull.row(5, s) + 16, std::numeric_limits<float>::quiet_NaN());
  pull.missing = {9};
  const std::string all = ::testing::PrintToString(call(pull, small_models(), {}).not_judged);
  EXPECT_THAT(all, HasSubstr("pfc_tx_packet_rate has one value"));
  EXPECT_THAT(all, HasSubstr("gpu_tensor_activity has no samples in 600 of 900"));
  EXPECT_THAT(all, HasSubstr("gpu_memory_bandwidth has no samples"));
}

TEST(Detector, SeveralAtOnce) {
  Pull pull = with_slow_machine(32, 3);
  for (int64_t s = 320; s < 900; ++s) pull.row(kCpuMetric, s)[20] *= 0.4f;
  DetectOptions options{.variant = Variant::kRaw, .top = 3, .distance_threshold = 0.2};  // machine 17 has an offset of its own
  const CallReport report = call(pull, small_models(), options);
  std::vector<std::string> names;
  for (const Alert& alert : report.alerts) names.push_back(alert.machine);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("machine-0003", "machine-0020"));
}

TEST(Detector, LongRecordsAreLookedAtInCalls) {
  const RunReport run = run_calls(with_slow_machine(8, 2, 2400), small_models(), {});
  EXPECT_EQ(run.calls, 5);           // at 900, 1380, 1860, 2340 and 2400
  ASSERT_EQ(run.alerts.size(), 1u);  // one alert, though it goes on
  EXPECT_EQ(run.alerts[0].machine, "machine-0002");
}

TEST(Stream, SaysWhatACallSays) {
  const Pull pull = with_slow_machine(12, 7);
  const Models models = small_models();
  for (const int top : {1, 2}) {
    const DetectOptions options{.variant = Variant::kRaw, .top = top};
    Stream stream(models, options, pull.machines, pull.metrics);
    std::vector<Alert> alerts;
    std::vector<float> row(pull.metrics.size() * 12);
    for (int64_t s = 0; s < pull.seconds; ++s) {
      for (size_t m = 0; m < pull.metrics.size(); ++m)
        std::copy(pull.row(m, s), pull.row(m, s) + 12, row.begin() + static_cast<std::ptrdiff_t>(12 * m));
      for (const Alert& alert : stream.next(static_cast<double>(s), row)) alerts.push_back(alert);
    }
    const CallReport report = call(pull, models, options);
    ASSERT_FALSE(alerts.empty());
    EXPECT_EQ(alerts[0].machine, report.alerts[0].machine);
    EXPECT_EQ(alerts[0].metric, report.alerts[0].metric);
    EXPECT_EQ(alerts[0].first_s, report.alerts[0].first_s);
    EXPECT_EQ(alerts[0].raised_s, report.alerts[0].raised_s);
  }
}

// Among 110 machines: 7 is off in one metric for little more than four minutes, 9 as long in two, 11 in one for nearly nine minutes, 13 in one for five
// minutes while another metric jitters for one.
Pull with_four_suspects(size_t second_metric) {
  Pull pull = labelled({.machines = 110, .seed = 58, .fault = "none"}).pull;
  const auto off = [&](int32_t machine, size_t metric, int64_t from, int64_t to) {
    for (int64_t s = from; s < to; ++s) pull.row(metric, s)[machine] *= 0.4f;
  };
  off(7, kCpuMetric, 300, 560);
  off(9, kCpuMetric, 310, 570), off(9, second_metric, 310, 570);
  off(11, kCpuMetric, 300, 830);
  off(13, kCpuMetric, 305, 605), off(13, second_metric, 500, 560);
  return pull;
}

TEST(Detector, AmongManyAMetricNeedsAnotherOrTwiceTheTime) {
  const size_t duty = metric_named("gpu_duty_cycle", "");
  const Pull pull = with_four_suspects(duty);
  DetectOptions options{.variant = Variant::kRaw, .metrics = {kCpuMetric, duty}, .top = 8, .distance_threshold = 0.15};
  const auto names_of = [](const auto& alerts) {
    std::vector<std::string> names;
    for (const Alert& alert : alerts) names.push_back(alert.machine);
    return names;
  };
  const auto streamed = [&] {
    Stream stream(small_models(), options, pull.machines, pull.metrics);
    std::vector<Alert> alerts;
    std::vector<float> row(pull.metrics.size() * 110);
    for (int64_t s = 0; s < pull.seconds; ++s) {
      for (size_t m = 0; m < pull.metrics.size(); ++m)
        std::copy(pull.row(m, s), pull.row(m, s) + 110, row.begin() + static_cast<std::ptrdiff_t>(110 * m));
      for (const Alert& alert : stream.next(static_cast<double>(s), row)) {
        if (alert.metric == "cpu_usage") alerts.push_back(alert);
      }
    }
    return alerts;
  };
  const std::vector<Alert> called = call(pull, small_models(), options).alerts, seen = streamed();
  EXPECT_THAT(names_of(called), ::testing::ElementsAre("machine-0009", "machine-0011"));
  ASSERT_EQ(names_of(seen), names_of(called));
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].first_s, called[i].first_s);
    EXPECT_EQ(seen[i].raised_s, called[i].raised_s);
  }
  EXPECT_NEAR(called[0].raised_s - called[0].first_s, 246, 1) << "four minutes of windows of eight seconds";
  EXPECT_NEAR(called[1].raised_s - called[1].first_s, 486, 1);
  options.agreement_from = 0;
  EXPECT_THAT(names_of(call(pull, small_models(), options).alerts),
              ::testing::UnorderedElementsAre("machine-0007", "machine-0009", "machine-0011", "machine-0013"));
  EXPECT_EQ(streamed().size(), 4u);
  options.agreement_from = 110;  // no more machines than that
  EXPECT_EQ(call(pull, small_models(), options).alerts.size(), 4u);
}

// Above a hundred machines too thresholds are chosen by what a call would say: a metric alone is not believed there, so low thresholds, which healthy
// machines with one bad metric pass, cost nothing and find a fault that is small in both of its metrics.
TEST(Tune, ChoosesByTheDecisionsOfACall) {
  const size_t duty = metric_named("gpu_duty_cycle", "");
  DetectOptions options{.variant = Variant::kRaw, .metrics = {kCpuMetric, duty}};
  Models models = small_models();
  std::vector<LabelledCase> cases;
  for (const bool faulty : {true, false, true, false}) {
    LabelledCase each{.pull = labelled({.machines = 110, .seed = 58, .fault = "none"}).pull};
    for (int64_t s = 300; s < 560; ++s) each.pull.row(kCpuMetric, s)[7] *= 0.4f;  // a metric alone, for little more than four minutes
    if (faulty) {
      for (int64_t s = 300; s < 600; ++s) each.pull.row(kCpuMetric, s)[9] *= 0.6f, each.pull.row(duty, s)[9] *= 0.6f;
      each.faults = {{.type = "ecc_error", .machine = 9, .onset_s = 300, .end_s = 600, .metrics = options.metrics}};
    }
    cases.push_back(std::move(each));
  }
  const std::vector<Channel> channels = models.channels(options.variant, order_of(models, options));
  std::vector<CaseTraces> traces;
  for (const LabelledCase& each : cases) traces.push_back(traces_of(each, channels, options));
  const Tuned tuned = tune(traces, channels, options);
  models.thresholds["raw"].assign(models.metrics.size(), {});
  for (size_t c = 0; c < channels.size(); ++c) {
    const auto at = std::find(models.metrics.begin(), models.metrics.end(), channels[c].metrics.front()) - models.metrics.begin();
    models.thresholds["raw"][static_cast<size_t>(at)] = tuned.thresholds[c];
  }
  Tally called;
  for (const LabelledCase& each : cases) {
    const CallReport report = call(each.pull, models, options);
    for (const Verdict& verdict : verdicts_of(each.faults, each.pull.machines, report.alerts, {}, options.continuity_s)) called.add(verdict);
  }
  EXPECT_EQ(called.f1(), tuned.f1);
  EXPECT_EQ(tuned.f1, 1);
}

TEST(Stream, TellsSilenceAndForgetsWhoWasReplaced) {
  const Pull pull = labelled({.machines = 6, .seed = 58, .fault = "none", .seconds = 300}).pull;
  Stream stream(small_models(), {.silent_s = 30}, pull.machines, pull.metrics);
  std::vector<Alert> alerts;
  std::vector<float> row(pull.metrics.size() * 6);
  for (int64_t s = 0; s < pull.seconds; ++s) {
    for (size_t m = 0; m < pull.metrics.size(); ++m) {
      for (size_t i = 0; i < 6; ++i) row[6 * m + i] = i == 2 && s >= 100 && s < 200 ? std::nanf("") : pull.row(m, s)[i];
    }
    for (const Alert& alert : stream.next(static_cast<double>(s), row)) alerts.push_back(alert);
    if (s == 250) stream.replaced("machine-0002");
  }
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].metric, kNoData);
  EXPECT_EQ(alerts[0].first_s, 100);
  EXPECT_EQ(alerts[0].raised_s, 129);
}

TEST(ModelsFile, ComesBackAsItWas) {
  TemporaryFolder folder;
  Models models = small_models();
  models.thresholds["minder"] = std::vector<Threshold>(7, {.6, .08});
  models.thresholds["con"] = {{.8, .3}};
  models.limits[3].high = 400;
  models.in_tree = 3;
  save_models(folder / "m.safetensors", models);
  const Models read = load_models(folder / "m.safetensors");
  EXPECT_EQ(read.metrics, models.metrics);
  EXPECT_EQ(read.priority, models.priority);
  EXPECT_EQ(read.in_tree, 3u);
  EXPECT_EQ(read.limits[3].high, 400);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(read.vaes[i].parameters, models.vaes[i].parameters);
  EXPECT_EQ(read.joint.parameters, models.joint.parameters);
  EXPECT_EQ(read.mahalanobis_joint.projection, models.mahalanobis_joint.projection);
  EXPECT_EQ(read.thresholds.at("minder")[6].distance, .08);
  EXPECT_EQ(read.thresholds.at("con")[0].share, .8);
  const std::string text = read_text(folder / "m.safetensors");
  write_text_atomically(folder / "cut.safetensors", text.substr(0, text.size() - 4));
  EXPECT_THROW(load_models(folder / "cut.safetensors"), Error);
  EXPECT_THROW(load_models(folder / "none.safetensors"), Error);
  std::string other = text;
  other.replace(other.find("\\\"version\\\":2"), 13, "\\\"version\\\":7");
  write_text_atomically(folder / "other.safetensors", other);
  EXPECT_THROW(load_models(folder / "other.safetensors"), Error);
}

TEST(Simulate, IsAFunctionOfTheSeed) {
  const Case a = simulate({.machines = 6, .seed = 3, .fault = "any", .seconds = 900}),
             b = simulate({.machines = 6, .seed = 3, .fault = "any", .seconds = 900});
  ASSERT_EQ(a.pull.values.size(), b.pull.values.size());
  for (size_t i = 0; i < a.pull.values.size(); ++i)
    ASSERT_TRUE(a.pull.values[i] == b.pull.values[i] || (std::isnan(a.pull.values[i]) && std::isnan(b.pull.values[i])));
  EXPECT_NE(a.faults[0].onset_s, simulate({.machines = 6, .seed = 4, .fault = "any", .seconds = 900}).faults[0].onset_s);
}

TEST(Simulate, FaultsComeBySharesAndMoveWhatTheySay) {
  std::map<std::string, int> seen;
  int findable = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Case made = simulate({.machines = 4, .seed = seed, .fault = "any", .seconds = 900, .metrics = {0}});
    ++seen[made.faults[0].type];
    findable += detectable(made.faults[0], metric_choice("used"), kContinuitySpan);
    EXPECT_GE(made.faults[0].end_s - made.faults[0].onset_s, 60);
    EXPECT_EQ(made.faults[0].end_s, 900);
  }
  EXPECT_NEAR(seen["ecc_error"], 400 * 38.9 / 89.8, 40);
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_NEAR(findable / 400.0, 0.83, 0.06);  // 12 % are too short, 5 % show nowhere
  const Case pcie = simulate({.machines = 8, .seed = 2, .fault = "pcie_downgrading", .seconds = 900});
  const Fault& fault = pcie.faults[0];
  ASSERT_EQ(fault.metrics[0], 0u);  // always in PFC
  double before = 0, after = 0;
  for (int64_t s = 0; s < 900; ++s) {
    const float value = pcie.pull.row(0, s)[fault.machine];
    if (!std::isnan(value)) (s < fault.onset_s ? before : after) = std::max(s < fault.onset_s ? before : after, static_cast<double>(value));
  }
  EXPECT_GT(after, fault.severity);
}

TEST(CaseFiles, TruthComesBack) {
  TemporaryFolder folder;
  const Case made = simulate({.machines = 8, .seed = 12, .fault = "gpu_execution_error", .seconds = 120, .episodes = 2});
  write_case(folder.path(), made);
  const auto truth = read_truth(folder.path());
  ASSERT_TRUE(truth.has_value());
  ASSERT_EQ(truth->faults.size(), 2u);
  EXPECT_EQ(truth->faults[1].machine, made.faults[1].machine);
  EXPECT_EQ(truth->faults[1].group, made.faults[1].group);
  EXPECT_EQ(truth->faults[1].onset_s, made.faults[1].onset_s);
  const Pull read = read_folder(folder.path(), metric_choice("used"), {});
  EXPECT_EQ(read.machines, made.pull.machines);
  EXPECT_EQ(read.seconds, 240);
  Pull filled = made.pull;
  fill_gaps(filled);
  for (size_t i = 0; i < filled.values.size(); ++i)
    ASSERT_NEAR(static_cast<double>(filled.values[i]), static_cast<double>(read.values[i]), 6e-4) << i;  // four digits
}

std::vector<Verdict> scored(std::vector<Fault> faults, std::vector<Alert> alerts) {
  return verdicts_of(faults, {"a", "b", "c", "d"}, alerts, {0}, 248);
}

TEST(Score, CountsAsDocumented) {
  const Fault fault{.type = "x", .machine = 1, .group = {3}, .onset_s = 100, .end_s = 900, .metrics = {0}};
  EXPECT_TRUE(scored({}, {})[0].type == "none" && !scored({}, {})[0].false_alarm);
  EXPECT_TRUE(scored({}, {{.machine = "a"}})[0].false_alarm);
  EXPECT_TRUE(scored({fault}, {})[0].missed);
  EXPECT_TRUE(scored({fault}, {{.machine = "b", .raised_s = 400}})[0].found);
  EXPECT_EQ(scored({fault}, {{.machine = "b", .raised_s = 400}})[0].delay_s, 300);
  EXPECT_TRUE(scored({fault}, {{.machine = "d", .raised_s = 400}})[0].by_group);
  const Verdict wrong = scored({fault}, {{.machine = "a", .raised_s = 400}})[0];
  EXPECT_TRUE(wrong.missed && wrong.false_alarm && !wrong.found);
  EXPECT_TRUE(scored({fault}, {{.machine = "b", .raised_s = 400}, {.machine = "a", .raised_s = 300}})[0].false_alarm);  // the first counts
  EXPECT_TRUE(scored({fault}, {{.machine = "b", .raised_s = 50}})[0].missed);                                           // before it began
  const Fault second{.type = "x", .machine = 2, .onset_s = 1500, .end_s = 1800, .metrics = {0}};
  const auto both = scored({fault, second}, {{.machine = "b", .raised_s = 400}, {.machine = "c", .raised_s = 1750}});
  EXPECT_TRUE(both[0].found && both[1].found);
  Tally tally =
      tally_of({scored({fault}, {{.machine = "b", .raised_s = 400}})[0], wrong, scored({fault}, {})[0], scored({}, {{.machine = "a"}})[0]});
  EXPECT_DOUBLE_EQ(tally.precision(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(tally.recall(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(tally.f1(), 1.0 / 3);
}

TEST(Score, IntervalsAndPairs) {
  EXPECT_NEAR(wilson(135, 150).low, 0.8415, 1e-3);  // 0.9 of 150: the textbook's 0.841 to 0.939
  EXPECT_NEAR(wilson(135, 150).high, 0.9385, 1e-3);
  std::vector<Verdict> a(12, {.type = "x", .found = true}), b = a;
  for (int i = 0; i < 8; ++i) b[static_cast<size_t>(i)].found = false;
  a[11].found = false;
  const Paired paired = mcnemar(a, b);
  EXPECT_EQ(paired.only_first, 8);
  EXPECT_EQ(paired.only_second, 1);
  EXPECT_NEAR(paired.p, 2 * (1 + 9) / 512.0, 1e-12);  // two-sided, of Binomial(9, 1/2)
}

TEST(Tree, FindsTheTellingFeatureFirst) {
  const RandomStream stream(1, "tree");
  std::vector<float> features;
  std::vector<uint8_t> labels;
  for (uint64_t i = 0; i < 600; ++i) {
    const bool faulty = i % 3 == 0;
    labels.push_back(faulty);
    features.push_back(static_cast<float>(stream.uniform(4 * i)));
    features.push_back(static_cast<float>(stream.uniform(4 * i + 1) + (faulty && i % 2 == 0 ? 2 : 0)));  // half of the faults
    features.push_back(
        static_cast<float>(stream.uniform(4 * i + 2) + (faulty && i % 6 != 0 ? 3 : 0)));  // the other half, clearer by nothing
  }
  const auto tree = grow_tree(features, labels, 3, {.leaf = 20});
  const auto order = order_by(tree, 3);
  ASSERT_GE(order.size(), 2u);
  EXPECT_NE(order[0], 0u);
  EXPECT_NE(order[1], 0u);
  EXPECT_NEAR(tree[static_cast<size_t>(tree[0].left)].share + tree[static_cast<size_t>(tree[0].right)].share, 1.2, 0.05);  // 1/5 and 1
}

TEST(Mahalanobis, EigenvectorsAndScale) {
  const Eigen eigen = symmetric_eigen({2, 1, 0, 1, 2, 0, 0, 0, 5}, 3);
  EXPECT_NEAR(eigen.values[0], 5, 1e-12);
  EXPECT_NEAR(eigen.values[1], 3, 1e-12);
  EXPECT_NEAR(eigen.values[2], 1, 1e-12);
  EXPECT_NEAR(std::abs(eigen.vectors[3]), std::sqrt(0.5), 1e-12);
  // Moments of 0, 0, 1, 1: mean 1/2, variance 1/4, skewness 0, kurtosis 1.
  std::vector<float> rows(4 * 16), out(4 * 16, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 32; i < 64; ++i) rows[i] = 1;
  window_features({.moments = 4, .window = 4}, rows.data(), 16, out.data());
  EXPECT_NEAR(static_cast<double>(out[0]), 0.5, 1e-6);
  EXPECT_NEAR(static_cast<double>(out[16]), 0.25, 1e-6);
  EXPECT_NEAR(static_cast<double>(out[32]), 0, 1e-5);
  EXPECT_NEAR(static_cast<double>(out[48]), 1, 1e-4);
}

class FakeDriver final : public MachineDriver {
 public:
  std::vector<std::string> calls;
  bool has_spare = true, works = true;
  void block(const Alert& alert) override {
    if (!works) throw Error({.what = "the scheduler is away"});
    calls.push_back("block " + alert.machine);
  }
  std::optional<std::string> replace(const std::string& machine) override {
    calls.push_back("replace " + machine);
    return has_spare ? std::optional("spare-1") : std::nullopt;
  }
};

TEST(Driver, BlocksThenReplacesOnceAndNotTooMany) {
  FakeDriver driver;
  Responder responder(driver, 2);
  EXPECT_EQ(responder.act_on({.machine = "a", .raised_s = 0}).replacement, "spare-1");
  EXPECT_EQ(driver.calls, (std::vector<std::string>{"block a", "replace a"}));
  EXPECT_EQ(responder.act_on({.machine = "a", .raised_s = 10}).kind, Response::Kind::kBlockedBefore);
  driver.has_spare = false;
  EXPECT_EQ(responder.act_on({.machine = "b", .raised_s = 20}).kind, Response::Kind::kNoSpare);
  EXPECT_EQ(responder.act_on({.machine = "c", .raised_s = 30}).kind, Response::Kind::kTooMany);
  EXPECT_EQ(responder.act_on({.machine = "c", .raised_s = 3700}).kind, Response::Kind::kNoSpare);
  driver.works = false;
  const Response failed = responder.act_on({.machine = "d", .raised_s = 9000});
  EXPECT_EQ(failed.kind, Response::Kind::kFailed);
  EXPECT_THAT(failed.problem, HasSubstr("the scheduler is away"));
  driver.works = true;
  EXPECT_EQ(responder.act_on({.machine = "d", .raised_s = 9001}).kind, Response::Kind::kNoSpare);  // a failure does not count as blocked
}

TEST(Driver, RunsACommand) {
  TemporaryFolder folder;
  const auto script = folder / "handle";
  write_text_atomically(script, "#!/bin/sh\necho \"$@\" >> " + (folder / "log").string() + "\n[ $1 = replace ] && echo spare-9\nexit 0\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  CommandDriver driver(script.string());
  driver.block({.machine = "m 1", .metric = "cpu_usage", .first_s = 300});
  EXPECT_EQ(driver.replace("m 1"), "spare-9");
  EXPECT_EQ(read_text(folder / "log"), "block m 1 cpu_usage 300\nreplace m 1\n");
}

TEST(Page, ShowsTheSuspectAgainstTheRest) {
  const Pull pull = with_slow_machine(12, 7);
  const RunReport report = run_calls(pull, small_models(), {.variant = Variant::kRaw});
  const std::string html = suspect_page(pull, report, "machine-0007", small_models(), "a <case>");
  EXPECT_THAT(html, HasSubstr("machine-0007"));
  EXPECT_THAT(html, HasSubstr("a &lt;case&gt;"));
  EXPECT_THAT(html, HasSubstr("<b>cpu_usage</b>"));
  for (const size_t metric : metric_choice("used")) EXPECT_THAT(html, HasSubstr("id=\"" + std::string(metrics()[metric].name) + "\""));
}

}  // namespace
}  // namespace longhaul::detect
