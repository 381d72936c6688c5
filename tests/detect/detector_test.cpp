// From simulated metrics to alerts: calls, streams, thresholds, models on disk, the page.
#include "detect/minder/detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "detect/minder/page.h"
#include "detect/minder/stream.h"
#include "detect/trials/priority.h"
#include "detect/trials/trial.h"

namespace longhaul::detect {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

// Healthy machines, and one whose CPU falls by half from second 300 on. Of this seed no other machine has an
// episode of its own for minutes, as the first ranks of some have: two that differ at once are the matter of
// `top`.
Pull with_slow_machine(int64_t machines, int32_t slow, int64_t seconds = 900) {
  Pull pull = labelled({.machines = machines, .seed = 58, .fault = "none", .seconds = seconds}).pull;
  for (int64_t s = 300; s < seconds; ++s) pull.row(kCpuMetric, s)[slow] *= 0.4f;
  return pull;
}

TEST(Detector, NamesTheMachineTheMetricAndTheSecond) {
  for (const Variant variant : kVariants) {
    const CallReport report = call(with_slow_machine(16, 11), small_models(), {.variant = variant});
    const bool of_one_metric = variant == Variant::kMinder || variant == Variant::kRaw,
               md = variant == Variant::kMd;
    // All metrics in one vector dilute the one that tells: whoever joins them may be late or see nothing, but
    // names nobody else.
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
  for (int64_t s = 0; s < 600; ++s)
    std::fill(pull.row(5, s), pull.row(5, s) + 16, std::numeric_limits<float>::quiet_NaN());
  pull.missing = {9};
  pull.dead_counters = {{.machine = 4, .metric = 5, .seconds = 20},
                        {.machine = 6, .metric = 5, .seconds = 2}};  // two seconds are a wrong sample
  const std::string all = ::testing::PrintToString(call(pull, small_models(), {}).not_judged);
  EXPECT_THAT(all, HasSubstr("pfc_tx_packet_rate has one value"));
  EXPECT_THAT(all, HasSubstr("gpu_tensor_activity has no samples in 600 of 900"));
  EXPECT_THAT(all, HasSubstr("gpu_memory_bandwidth has no samples"));
  EXPECT_THAT(all, HasSubstr("of machine-0004 stood at 0 in 20 seconds"));
  EXPECT_THAT(all, Not(HasSubstr("machine-0006")));
}

TEST(Detector, SeveralAtOnce) {
  Pull pull = with_slow_machine(32, 3);
  for (int64_t s = 320; s < 900; ++s) pull.row(kCpuMetric, s)[20] *= 0.4f;
  // machine 17 has an offset of its own
  DetectOptions options{.variant = Variant::kRaw, .top = 3, .distance_threshold = 0.2};
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

// Among 110 machines: 7 is off in one metric for little more than four minutes, 9 as long in two, 11 in one
// for nearly nine minutes, 13 in one for five minutes while another metric jitters for one.
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
  DetectOptions options{
      .variant = Variant::kRaw, .metrics = {kCpuMetric, duty}, .top = 8, .distance_threshold = 0.15};
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
  EXPECT_THAT(
      names_of(call(pull, small_models(), options).alerts),
      ::testing::UnorderedElementsAre("machine-0007", "machine-0009", "machine-0011", "machine-0013"));
  EXPECT_EQ(streamed().size(), 4u);
  options.agreement_from = 110;  // no more machines than that
  EXPECT_EQ(call(pull, small_models(), options).alerts.size(), 4u);
}

// Above a hundred machines too thresholds are chosen by what a call would say: a metric alone is not believed
// there, so low thresholds, which healthy machines with one bad metric pass, cost nothing and find a fault
// that is small in both of its metrics.
TEST(Tune, ChoosesByTheDecisionsOfACall) {
  const size_t duty = metric_named("gpu_duty_cycle", "");
  DetectOptions options{.variant = Variant::kRaw, .metrics = {kCpuMetric, duty}};
  Models models = small_models();
  std::vector<LabelledCase> cases;
  for (const bool faulty : {true, false, true, false}) {
    LabelledCase each{.pull = labelled({.machines = 110, .seed = 58, .fault = "none"}).pull};
    // a metric alone, for little more than four minutes
    for (int64_t s = 300; s < 560; ++s) each.pull.row(kCpuMetric, s)[7] *= 0.4f;
    if (faulty) {
      for (int64_t s = 300; s < 600; ++s)
        each.pull.row(kCpuMetric, s)[9] *= 0.6f, each.pull.row(duty, s)[9] *= 0.6f;
      each.faults = {
          {.type = "ecc_error", .machine = 9, .onset_s = 300, .end_s = 600, .metrics = options.metrics}};
    }
    cases.push_back(std::move(each));
  }
  const std::vector<Channel> channels = models.channels(options.variant, order_of(models, options));
  std::vector<CaseTraces> traces;
  for (const LabelledCase& each : cases) traces.push_back(traces_of(each, channels, options));
  const Tuned tuned = tune(traces, channels, options);
  models.thresholds["raw"].assign(models.metrics.size(), {});
  for (size_t c = 0; c < channels.size(); ++c) {
    const auto at = std::find(models.metrics.begin(), models.metrics.end(), channels[c].metrics.front()) -
                    models.metrics.begin();
    models.thresholds["raw"][static_cast<size_t>(at)] = tuned.thresholds[c];
  }
  Tally called;
  for (const LabelledCase& each : cases) {
    const CallReport report = call(each.pull, models, options);
    for (const Verdict& verdict :
         verdicts_of(each.faults, each.pull.machines, report.alerts, {}, options.continuity_s))
      called.add(verdict);
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
      for (size_t i = 0; i < 6; ++i)
        row[6 * m + i] = i == 2 && s >= 100 && s < 200 ? std::nanf("") : pull.row(m, s)[i];
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

TEST(Page, ShowsTheSuspectAgainstTheRest) {
  const Pull pull = with_slow_machine(12, 7);
  const RunReport report = run_calls(pull, small_models(), {.variant = Variant::kRaw});
  const std::string html = suspect_page(pull, report, "machine-0007", small_models(), "a <case>");
  EXPECT_THAT(html, HasSubstr("machine-0007"));
  EXPECT_THAT(html, HasSubstr("a &lt;case&gt;"));
  EXPECT_THAT(html, HasSubstr("<b>cpu_usage</b>"));
  for (const size_t metric : metric_choice("used"))
    EXPECT_THAT(html, HasSubstr("id=\"" + std::string(metrics()[metric].name) + "\""));
}

}  // namespace
}  // namespace longhaul::detect
