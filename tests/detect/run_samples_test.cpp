// A run's rings as one pull: whose samples these are, which seconds, who is left out and what is said of it;
// and a fault found in them as in CSV.
#include "detect/samples/run_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "detect/minder/detector.h"
#include "detect/minder/train.h"
#include "detect/samples/metric_files.h"
#include "detect/trials/case_files.h"
#include "detect/trials/simulate.h"

namespace longhaul::detect {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kBegin = 1'800'000'000;  // Unix time
const size_t kCpuUsage = metric_named("cpu_usage", ""), kMemoryUsage = metric_named("memory_usage", "");

class RunSamplesTest : public ::testing::Test {
 protected:
  // A node whose CPU is at `cpu` percent in each second from first to last after kBegin.
  void node(const std::string& name, const std::string& host, int first, int last, float cpu = 50,
            bool ended = false) const {
    SampleRingWriter ring = ring_of({.node = name, .host = host, .boot = "boot of " + host});
    for (int second = first; second <= last; ++second) {
      SampleValues values = no_values();
      values[kCpuUsage] = cpu;
      ring.write(kBegin + second + 0.003, values);
    }
    if (ended) ring.end(kBegin + last + 0.7);
  }
  SampleRingWriter ring_of(const RingOwner& owner) const {
    return SampleRingWriter::open(samples_folder(run_) / (owner.node + ".ring"), owner);
  }
  RunSamples read(const RunTime& time = {}, const std::vector<size_t>& wanted = {kCpuUsage}) const {
    return read_run_samples(run_, wanted, {}, time);
  }
  std::string refusal(const RunTime& time = {}) const {
    try {
      read(time);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      return error.what();
    }
    return "none";
  }

  TemporaryFolder folder_;
  std::filesystem::path run_ = folder_ / "run";
};

TEST_F(RunSamplesTest, OneGridOfSecondsAndMachinesByTheirHosts) {
  for (int i = 0; i < 4; ++i)
    node(fmt::format("node-{}", i), fmt::format("h{}", 9 - i), 0, 29, static_cast<float>(10 * i));
  const RunSamples samples = read({}, {kCpuUsage, kMemoryUsage});
  EXPECT_THAT(samples.pull.machines, ElementsAre("h6", "h7", "h8", "h9"));
  EXPECT_EQ(samples.pull.first_s, kBegin);
  EXPECT_EQ(samples.pull.seconds, 30);
  EXPECT_THAT(samples.pull.metrics, ElementsAre(kCpuUsage));
  EXPECT_THAT(samples.pull.missing, ElementsAre(kMemoryUsage)) << "missing, not zero";
  for (int64_t second = 0; second < 30; ++second) {
    const float* row = samples.pull.row(0, second);
    for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(row[i], .1f * static_cast<float>(3 - i));
  }
  EXPECT_EQ(samples.pull.statistics.filled, 0);
  EXPECT_THAT(samples.remarks, IsEmpty());
  write_text_atomically(samples_folder(run_) / "machines.csv",
                        "machine,class\nh6,first stage\nh9,last stage\n");
  EXPECT_THAT(read().pull.classes, ElementsAre("all", "first stage", "last stage"));
}

TEST_F(RunSamplesTest, OnlyTheSecondsAskedFor) {
  for (int i = 0; i < 4; ++i) node(fmt::format("node-{}", i), fmt::format("h{}", i), 0, 599);
  const Pull last = read({.seconds = 100}).pull;
  EXPECT_EQ(last.first_s, kBegin + 500);
  EXPECT_EQ(last.seconds, 100);
  const Pull earlier = read({.end_s = kBegin + 299, .seconds = 100}).pull;
  EXPECT_EQ(earlier.first_s, kBegin + 200);
  EXPECT_EQ(earlier.seconds, 100);
  EXPECT_THAT(refusal({.end_s = kBegin - 10}), HasSubstr("without samples in that time"));
}

TEST_F(RunSamplesTest, SeveralNodesOfAHostAreToldApart) {
  for (int i = 0; i < 3; ++i) node(fmt::format("node-{}", i), "here", 0, 9);
  node("node-3", "there", 0, 9);
  const RunSamples samples = read();
  EXPECT_THAT(samples.pull.machines, ElementsAre("here/node-0", "here/node-1", "here/node-2", "there"));
  EXPECT_THAT(samples.remarks,
              ElementsAre(HasSubstr("here/node-0, here/node-1, here/node-2 are one machine")));
}

TEST_F(RunSamplesTest, WhoEndedLongAgoAndWhoseClockIsAheadAreLeftOut) {
  for (int i = 0; i < 5; ++i) node(fmt::format("node-{}", i), fmt::format("h{}", i), 10'000, 10'299);
  node("node-7", "replaced", 0, 100);
  node("node-8", "tomorrow", 86'400, 86'500);
  const RunSamples samples = read({.now_s = kBegin + 10'310});
  EXPECT_EQ(samples.pull.count(), 5);
  EXPECT_EQ(samples.pull.seconds, 300);
  EXPECT_THAT(samples.remarks,
              ElementsAre(HasSubstr("samples of replaced ended before the time looked at"),
                          HasSubstr("samples of tomorrow begin after the last second of the others")));
  const RunSamples later = read({.now_s = kBegin + 10'299 + 7200});
  EXPECT_THAT(later.remarks, Contains(HasSubstr("the last samples are 2 h 00 min old")));
}

TEST_F(RunSamplesTest, OneThatIsAheadOrLateDoesNotMoveTheEnd) {
  for (int i = 0; i < 4; ++i) node(fmt::format("node-{}", i), fmt::format("h{}", i), 0, 99);
  node("node-4", "ahead", 0, 130);
  node("node-5", "late", 0, 70);
  const Pull pull = read().pull;
  EXPECT_EQ(pull.count(), 6);
  EXPECT_EQ(pull.seconds, 100);
}

TEST_F(RunSamplesTest, TooFewMachinesAreAnErrorThatSaysWhatBecameOfTheOthers) {
  EXPECT_THAT(refusal(), HasSubstr("no such folder"));
  make_folders(run_);
  EXPECT_THAT(refusal(), HasSubstr("samples/NODE.ring"));
  for (int i = 0; i < 3; ++i) node(fmt::format("node-{}", i), fmt::format("h{}", i), 0, 299);
  EXPECT_EQ(read().pull.count(), 3) << "the detector's own error is the better one here";
  node("node-3", "h3", 5000, 5299);
  EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr("at least 4"), HasSubstr("compare the clocks")));
  std::filesystem::resize_file(samples_folder(run_) / "node-3.ring", 5000);
  EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr("node-3.ring"), HasSubstr("5000")));
}

TEST_F(RunSamplesTest, DamagedRowsAndRingsAreSaid) {
  for (int i = 0; i < 6; ++i) node(fmt::format("node-{}", i), fmt::format("h{}", i), 0, 99);
  const auto flip = [&](const char* ring, int64_t offset) {
    File::open(samples_folder(run_) / ring, File::Mode::kReadWrite)
        .write_at(offset, std::as_bytes(std::span("x", 1)));
  };
  flip("node-1.ring", 4096 + 112 * 50 + 20);
  flip("node-2.ring", 40);
  const RunSamples samples = read();
  EXPECT_EQ(samples.pull.count(), 5);
  EXPECT_EQ(samples.pull.statistics.filled, 1) << "the second of the damaged row";
  EXPECT_THAT(samples.remarks,
              ElementsAre(::testing::AllOf(HasSubstr("node-2.ring"), HasSubstr("no whole ring")),
                          HasSubstr("1 sample of h1: damaged")));
}

// A machine that dies is a sign; one whose ranks the run has ended is none.
TEST_F(RunSamplesTest, SilenceCountsOnlyWhileTheRunWantsTheMachine) {
  for (int i = 0; i < 6; ++i) node(fmt::format("node-{}", i), fmt::format("h{}", i), 0, 599);
  node("node-6", "died", 0, 299);
  node("node-7", "released", 0, 299, 50, true);
  const Pull pull = read().pull;
  std::vector<std::string> silent;
  for (const Silence& each : silences(pull, 60))
    silent.push_back(pull.machines[static_cast<size_t>(each.machine)]);
  EXPECT_THAT(silent, ElementsAre("died"));
  node("node-7", "released", 400, 449);  // it was taken again, and died
  const Pull later = read().pull;
  silent.clear();
  for (const Silence& each : silences(later, 60))
    silent.push_back(later.machines[static_cast<size_t>(each.machine)]);
  EXPECT_THAT(silent, ElementsAre("died", "released"));
  silent.clear();
  for (const Silence& each : silences(later.part(0, 390), 60))
    silent.push_back(later.machines[static_cast<size_t>(each.machine)]);
  EXPECT_THAT(silent, ElementsAre("died"));
}

TEST_F(RunSamplesTest, FoldersOfEitherKind) {
  node("node-0", "h0", 0, 9);
  make_folders(folder_ / "case");
  write_text_atomically(folder_ / "case/cpu_usage.csv", "time,a\n0,1\n");
  make_folders(folder_ / "other");
  EXPECT_TRUE(has_samples(run_) && has_samples(folder_ / "case") && !has_samples(folder_ / "other"));
  EXPECT_THAT(case_folders(std::vector<std::string>{folder_.path().string()}),
              ElementsAre(folder_ / "case", run_));
  EXPECT_EQ(read_samples(folder_ / "case", {kCpuUsage}, {}).pull.machines.front(), "a");
  EXPECT_EQ(read_samples(run_, {kCpuUsage}, {}).pull.machines.front(), "h0");
}

// Simulated machines, one of them with a NIC that drops out: the same alert from rings as from CSV files,
// where the rings have every metric and where they have CPU alone, as machines without GPUs do.
TEST_F(RunSamplesTest, AFaultIsFoundAsInCsv) {
  const Case made = simulate({.machines = 8, .seed = 8, .fault = "nic_dropout"});
  ASSERT_EQ(made.faults.size(), 1u);
  write_case(folder_ / "csv", made);
  const Pull& truth = made.pull;
  // of which nothing but the list of metrics is used
  const Models models = train_models({&made.pull, 1}, {.steps = 10, .batch = 16});
  for (const bool cpu_alone : {false, true}) {
    std::filesystem::remove_all(run_);
    for (int64_t i = 0; i < 8; ++i) {
      const std::string name = truth.machines[static_cast<size_t>(i)];
      SampleRingWriter ring = ring_of({.node = fmt::format("node-{}", i), .host = name, .boot = name});
      for (int64_t second = 0; second < truth.seconds; ++second) {
        SampleValues values = no_values();
        for (size_t m = 0; m < truth.metrics.size(); ++m) {
          const Metric& metric = metrics()[truth.metrics[m]];
          if (!cpu_alone || truth.metrics[m] == kCpuUsage)
            values[truth.metrics[m]] = static_cast<float>(
                metric.low + (metric.high - metric.low) * static_cast<double>(truth.row(m, second)[i]));
        }
        ring.write(kBegin + static_cast<double>(second), values);
      }
    }
    const DetectOptions options{
        .variant = Variant::kRaw,
        .metrics = cpu_alone ? std::vector<size_t>{kCpuUsage} : std::vector<size_t>{}};
    const RunReport of_csv =
        run_calls(read_samples(folder_ / "csv", models.metrics, {}).pull, models, options);
    const RunReport of_rings =
        run_calls(read_samples(run_, models.metrics, {}).pull, models, {.variant = Variant::kRaw});
    ASSERT_EQ(of_csv.alerts.size(), 1u);
    ASSERT_EQ(of_rings.alerts.size(), 1u);
    const Alert &csv = of_csv.alerts[0], &ring = of_rings.alerts[0];
    EXPECT_EQ(ring.machine, truth.machines[static_cast<size_t>(made.faults[0].machine)]);
    EXPECT_EQ(ring.machine, csv.machine);
    EXPECT_EQ(ring.metric, csv.metric);
    EXPECT_EQ(ring.first_s - kBegin, csv.first_s);
    EXPECT_EQ(ring.raised_s - kBegin, csv.raised_s);
    EXPECT_NEAR(ring.score, csv.score, 1e-3);  // CSV has four digits
    const std::string said = ::testing::PrintToString(of_rings.not_judged);
    for (const char* metric : {"pfc_tx_packet_rate", "gpu_duty_cycle", "nvlink_bandwidth"})
      EXPECT_EQ(said.find(std::string(metric) + " has no samples") != std::string::npos, cpu_alone) << said;
  }
}

}  // namespace
}  // namespace longhaul::detect
