// What is read and how it is brought onto one grid: missing, late, constant, broken and impossible samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "detect/samples/metric_files.h"
#include "detect/samples/samples.h"

namespace longhaul::detect {
namespace {

using ::testing::HasSubstr;

constexpr float kGap = std::numeric_limits<float>::quiet_NaN();
const size_t kCpu = metric_named("cpu_usage", ""), kPfc = metric_named("pfc_tx_packet_rate", "");

template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Series one_machine(size_t metric, std::vector<double> times, std::vector<float> values) {
  return {.metric = metric,
          .where = "test",
          .machines = {"m"},
          .times_s = std::move(times),
          .values = std::move(values)};
}

TEST(Metrics, TwentyOneOfWhichSevenAreUsed) {
  EXPECT_EQ(metrics().size(), 21u);
  EXPECT_EQ(metric_choice("used").size(), 7u);
  EXPECT_EQ(metrics()[0].name, "pfc_tx_packet_rate");
  EXPECT_THAT(error_of([] { metric_choice("cpu_usage,gpu_duty_cycel"); }), HasSubstr("gpu_duty_cycle"));
  EXPECT_THAT(error_of([] { limits_with(std::vector<std::string>{"gpu_power_draw=400"}); }),
              HasSubstr("METRIC=LOW:HIGH"));
  EXPECT_EQ(limits_with(std::vector<std::string>{"gpu_power_draw=50:400"})[3].high, 400);
}

TEST(Aligned, MissingSamplesTakeTheNearestInTime) {
  const Pull pull = aligned({one_machine(kCpu, {0, 1, 4, 5}, {10, 20, 50, 60})}, {kCpu}, {});
  const std::vector<float> expected = {.1f, .2f, .2f, .5f, .5f, .6f};
  EXPECT_EQ(pull.values, expected);
  EXPECT_EQ(pull.statistics.filled, 2);
}

TEST(Aligned, LongGapsStayWithoutDataAndAreNeverZero) {
  const Pull pull =
      aligned({one_machine(kCpu, {0, 1, 2, 3, 40, 41, 42, 43}, {10, 10, 10, 10, 90, 90, 90, 90})}, {kCpu},
              {.fill_s = 8});
  EXPECT_FLOAT_EQ(pull.row(0, 11)[0], .1f);
  EXPECT_TRUE(std::isnan(pull.row(0, 12)[0]));
  EXPECT_FLOAT_EQ(pull.row(0, 32)[0], .9f);
  EXPECT_EQ(pull.statistics.without_data, 20);
}

TEST(Aligned, CoarseSamplesAndClocksBetweenSeconds) {
  const Pull pull =
      // every 15 s: filled all the same
      aligned({one_machine(kCpu, {0.3, 15.3, 30.3}, {10, 20, 30})}, {kCpu}, {.fill_s = 1});
  EXPECT_EQ(pull.seconds, 31);
  EXPECT_FLOAT_EQ(pull.row(0, 7)[0], .1f);
  EXPECT_FLOAT_EQ(pull.row(0, 8)[0], .2f);
  EXPECT_EQ(pull.statistics.without_data, 0);
}

TEST(Aligned, LateMetricsHaveNoDataBefore) {
  std::vector<double> early, late;
  for (int s = 0; s < 60; ++s) early.push_back(s), late.push_back(s + 30);
  const Pull pull = aligned({one_machine(kCpu, early, std::vector<float>(60, 50)),
                             one_machine(kPfc, late, std::vector<float>(60, 50))},
                            {kCpu, kPfc}, {});
  EXPECT_EQ(pull.seconds, 90);
  EXPECT_TRUE(std::isnan(pull.row(1, 10)[0]));
  EXPECT_TRUE(std::isnan(pull.row(0, 80)[0]));
}

TEST(Aligned, MetricsOfOtherTimesAreRefused) {
  const auto cpu = one_machine(kCpu, {0, 1, 2}, {1, 2, 3}), pfc = one_machine(kPfc, {3600, 3601}, {1, 2});
  const std::string text = error_of([&] { aligned({cpu, pfc}, {kCpu, kPfc}, {}); });
  EXPECT_THAT(text, HasSubstr("cpu_usage ends at second 2"));
  EXPECT_THAT(text, HasSubstr("pfc_tx_packet_rate begins at 3600"));
}

TEST(Aligned, ImpossibleValuesAreRefusedByNameAndUnit) {
  const std::string text = error_of([] { aligned({one_machine(kCpu, {0, 1}, {50, 3200})}, {kCpu}, {}); });
  EXPECT_THAT(text, HasSubstr("cpu_usage"));
  EXPECT_THAT(text, HasSubstr("0 to 100 %"));
  EXPECT_THAT(text, HasSubstr("3200 % on m at second 1"));
  // a cap is a choice
  EXPECT_EQ(aligned({one_machine(kPfc, {0, 1}, {50, 32000})}, {kPfc}, {}).statistics.clamped, 1);
  EXPECT_THAT(
      error_of([] {
        aligned({one_machine(kCpu, {0, 1}, {50, std::numeric_limits<float>::infinity()})}, {kCpu}, {});
      }),
      HasSubstr("inf %"));
}

TEST(Aligned, TimesMustIncrease) {
  EXPECT_THAT(error_of([] {
                aligned({one_machine(kCpu, {0, 2, 1}, {1, 1, 1})}, {kCpu}, {});
              }),
              HasSubstr("1 after 2"));
}

// docs/sources/reliability.md §7.2: DCGM's profiling counters stop at 0; with the GPUs at 100 % that is no
// data, not a machine that stands apart.
TEST(Aligned, AProfilingCounterThatStandsAtZeroWhileTheGpuIsBusyIsNoData) {
  const size_t duty = metric_named("gpu_duty_cycle", ""), tensor = metric_named("gpu_tensor_activity", ""),
               power = metric_named("gpu_power_draw", "");
  Series busy{.metric = duty, .machines = {"a", "b"}}, pipes{.metric = tensor, .machines = {"a", "b"}},
      watts{.metric = power, .machines = {"a", "b"}};
  for (int s = 0; s < 60; ++s) {
    for (Series* each : {&busy, &pipes, &watts}) each->times_s.push_back(s);
    busy.values.insert(busy.values.end(), {100.0f, s < 40 ? 100.0f : 0.0f});
    pipes.values.insert(pipes.values.end(),
                        // b: dead from 20 on; from 40 on the GPU is idle, and 0 is true
                        {45.0f, s < 20 ? 45.0f : 0.0f});
    watts.values.insert(watts.values.end(), {300.0f, 0.0f});  // no profiling counter: 0 stays 0
  }
  const Pull pull = aligned({busy, pipes, watts}, {duty, tensor, power}, {});
  for (int64_t s = 0; s < 60; ++s) {
    EXPECT_FLOAT_EQ(pull.row(1, s)[0], 0.45f);
    const float seen = pull.row(1, s)[1];
    EXPECT_TRUE(s < 20   ? std::abs(seen - 0.45f) < 1e-6f
                : s < 40 ? std::isnan(seen)
                         : seen == 0)
        << s << ": " << seen;
    EXPECT_EQ(pull.row(2, s)[1], 0);
  }
  ASSERT_EQ(pull.dead_counters.size(), 1u);
  EXPECT_EQ(pull.dead_counters[0].machine, 1);
  EXPECT_EQ(pull.dead_counters[0].metric, tensor);
  EXPECT_EQ(pull.dead_counters[0].seconds, 20);
}

TEST(Silences, AreToldWhileOthersGoOn) {
  Series series{.metric = kCpu, .where = "test", .machines = {"a", "b", "c"}};
  for (int s = 0; s < 200; ++s) {
    series.times_s.push_back(s);
    for (int i = 0; i < 3; ++i) series.values.push_back(i == 1 && s >= 100 ? kGap : 50.0f);
  }
  const Pull pull = aligned({series}, {kCpu}, {});
  const auto found = silences(pull, 60);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].machine, 1);
  EXPECT_EQ(found[0].since_s, 108);  // eight seconds were carried on
  EXPECT_TRUE(silences(pull, 120).empty());
  EXPECT_EQ(constant_metrics(pull), std::vector<size_t>{kCpu});
}

// Where half of the machines are silent it is whoever collects the samples.
TEST(Silences, OfMostMachinesAreNoMachines) {
  for (const int silent : {1, 2, 3}) {
    Series series{.metric = kCpu, .where = "test", .machines = {"a", "b", "c", "d"}};
    for (int s = 0; s < 200; ++s) {
      series.times_s.push_back(s);
      for (int i = 0; i < 4; ++i) series.values.push_back(i < silent && s >= 100 ? kGap : 50.0f);
    }
    EXPECT_EQ(silences(aligned({series}, {kCpu}, {}), 60).size(), silent == 1 ? 1u : 0u) << silent;
  }
}

class Csv : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& text) {
    write_text_atomically(folder_ / "cpu_usage.csv", text);
    return folder_ / "cpu_usage.csv";
  }
  std::string refusal(const std::string& text) {
    return error_of([&] { read_metric_file(file(text), kCpu); });
  }
  TemporaryFolder folder_;
};

TEST_F(Csv, ReadsWhatItWrites) {
  const Series series{
      .metric = kCpu, .machines = {"a", "b"}, .times_s = {1.5, 2, 3}, .values = {1, 2, kGap, 4, 5, 66.25f}};
  write_metric_file(folder_ / "cpu_usage.csv", series);
  const Series read = read_metric_file(folder_ / "cpu_usage.csv", kCpu);
  EXPECT_EQ(read.machines, series.machines);
  EXPECT_EQ(read.times_s, series.times_s);
  ASSERT_EQ(read.values.size(), 6u);
  EXPECT_TRUE(std::isnan(read.values[2]));
  EXPECT_NEAR(static_cast<double>(read.values[5]), 66.25, 0.05);
}

TEST_F(Csv, NamesOfMachinesMayHoldCommas) {
  const Series series{.metric = kCpu, .machines = {"rack 1, node 2", "b"}, .times_s = {1}, .values = {1, 2}};
  write_metric_file(folder_ / "cpu_usage.csv", series);
  EXPECT_EQ(read_metric_file(folder_ / "cpu_usage.csv", kCpu).machines, series.machines);
}

TEST_F(Csv, MissingCellsAndForeignForms) {
  const Series read =
      read_metric_file(file("\xEF\xBB\xBFtime,\"a\", b\r\n0,1,\r\n1,NaN,2\r\n\r\n2,null,3\r\n"), kCpu);
  EXPECT_EQ(read.machines, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read.times_s.size(), 3u);
  EXPECT_TRUE(std::isnan(read.values[1]) && std::isnan(read.values[2]) && std::isnan(read.values[4]));
}

TEST_F(Csv, SaysWhereAndInWhichUnit) {
  EXPECT_THAT(refusal("time,a,b\n0,1,2\n1,abc,2\n"),
              ::testing::AllOf(HasSubstr("cpu_usage.csv:3"), HasSubstr("(%)"), HasSubstr("column a"),
                               HasSubstr("abc")));
  EXPECT_THAT(refusal("time,a,b\n0,1,inf\n"), HasSubstr("column b"));
  EXPECT_THAT(refusal("time,a,b\n0,1\n"), HasSubstr("2 values"));
  EXPECT_THAT(refusal("time,a,b\n0,1,2,3\n"), HasSubstr("2 values"));
  EXPECT_THAT(refusal("seconds,a\n0,1\n"), HasSubstr("time as the first heading"));
  EXPECT_THAT(refusal("time,a,a\n0,1,1\n"), HasSubstr("a twice"));
  EXPECT_THAT(refusal("time,a\n"), HasSubstr("headings alone"));
  EXPECT_THAT(refusal(""), HasSubstr("an empty file"));
  EXPECT_THAT(refusal("time,a\nnoon,1\n"), HasSubstr("seconds"));
}

TEST_F(Csv, FoldersSayWhatIsMissing) {
  EXPECT_THAT(error_of([&] { read_folder(folder_.path(), {kCpu}, {}); }), HasSubstr("cpu_usage.csv"));
  file("time,a,b\n0,1,2\n1,1,2\n");
  write_text_atomically(folder_ / "machines.csv", "machine,class\nb,last\n");
  const Pull pull = read_folder(folder_.path(), {kCpu, kPfc}, {});
  EXPECT_EQ(pull.missing, std::vector<size_t>{kPfc});
  EXPECT_EQ(pull.classes, (std::vector<std::string>{"all", "last"}));
  EXPECT_EQ(pull.class_of, (std::vector<int32_t>{0, 1}));
}

}  // namespace
}  // namespace longhaul::detect
