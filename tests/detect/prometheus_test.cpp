// Answers of Prometheus by hand, and a real one where it is installed (scripts/packages-test.txt): metrics
// are put into its store by promtool, and read back by range queries.
#include "detect/samples/prometheus.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/net/http.h"
#include "base/net/network.h"
#include "base/process/process.h"
#include "base/process/signals.h"

namespace longhaul::detect {
namespace {

using ::testing::HasSubstr;

template <class Work>
std::string prometheus_error(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Prometheus, ReadsAnAnswer) {
  const Series series = series_of_answer(
      R"({"status":"success","data":{"resultType":"matrix","result":[)"
      R"({"metric":{"instance":"b"},"values":[[1,"0.5"],[2,"NaN"]]},{"metric":{"instance":"a"},"values":[[2,"7"],[3.5,"8"]]}]}})",
      1, "instance", "test");
  EXPECT_EQ(series.machines, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(series.times_s, (std::vector<double>{1, 2, 3.5}));
  EXPECT_FLOAT_EQ(series.values[0], 0.5f);
  EXPECT_TRUE(std::isnan(series.values[1]) && std::isnan(series.values[2]) && std::isnan(series.values[4]));
  EXPECT_FLOAT_EQ(series.values[3], 7);
}

TEST(Prometheus, RefusesWhatDoesNotSayWhichMachine) {
  const auto read = [](const char* text) {
    return prometheus_error([&] { series_of_answer(text, 1, "instance", "test"); });
  };
  EXPECT_THAT(
      read(
          R"({"status":"success","data":{"resultType":"matrix","result":[{"metric":{"gpu":"0"},"values":[[1,"1"]]}]}})"),
      HasSubstr("the label instance"));
  EXPECT_THAT(
      read(
          R"({"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"a","gpu":"0"},"values":[[1,"1"]]},)"
          R"({"metric":{"instance":"a","gpu":"1"},"values":[[1,"1"]]}]}})"),
      HasSubstr("a twice"));
  EXPECT_THAT(read(R"({"status":"error","errorType":"bad_data","error":"parse error at char 4"})"),
              HasSubstr("parse error at char 4"));
  EXPECT_THAT(
      read(
          R"({"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"a"},"values":[[1,"+Inf"]]}]}})"),
      HasSubstr("finite"));
  EXPECT_THAT(read("<html>"), HasSubstr("test"));
  EXPECT_THAT(prometheus_error([] { queries_of({"cpu_usage"}); }), HasSubstr("METRIC=PROMQL"));
}

// A server of the test's own, ended with it.
class RealPrometheus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v prometheus >/dev/null && command -v promtool >/dev/null") != 0)
      GTEST_SKIP() << "prometheus is not installed: apt-get install prometheus (scripts/packages-test.txt)";
  }
  void TearDown() override {
    if (!pid_.empty()) run_process({"kill", pid_});
  }
  void store(const std::string& open_metrics) {
    write_text_atomically(folder_ / "metrics.txt", open_metrics);
    const auto made = run_process({"promtool", "tsdb", "create-blocks-from", "openmetrics",
                                   (folder_ / "metrics.txt").string(), (folder_ / "data").string()});
    ASSERT_EQ(made.status, 0) << made.output << made.errors;
    write_text_atomically(folder_ / "prometheus.yml", "global:\n  scrape_interval: 1h\n");
    const uint16_t port = free_port();
    url_ = fmt::format("http://127.0.0.1:{}", port);
    const auto started =
        run_process({"sh", "-c",
                     fmt::format("prometheus --config.file={0}/prometheus.yml --storage.tsdb.path={0}/data "
                                 "--web.listen-address=127.0.0.1:{1} "
                                 "--storage.tsdb.retention.time=100y >{0}/log 2>&1 </dev/null & echo $!",
                                 folder_.path().string(), port)});
    pid_ = started.output.substr(0, started.output.find('\n'));
    for (int i = 0; i < 200 && !ready(); ++i) pause_unless_stopped(0.1);
    ASSERT_TRUE(ready()) << read_text(folder_ / "log");
  }
  bool ready() const {
    try {
      return http_get(http_address(url_), "/-/ready", 2).status == 200;
    } catch (const Error&) {
      return false;
    }
  }
  TemporaryFolder folder_;
  std::string pid_, url_;
};

// Of two GPUs of a machine one has a counter that stands at 0 while it is busy: the machine's mean is that of
// the other, not half of it. Where both stand there is no sample. A GPU at rest has a true 0.
TEST_F(RealPrometheus, ProfilingCountersThatStandAreLeftOut) {
  constexpr int64_t kBegin = 1'700'000'000;
  std::string busy = "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n",
              pipes = "# TYPE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge\n";
  const auto add = [&](const char* machine, int gpu, double utilisation, double tensor) {
    for (int64_t s = 0; s < 60; ++s) {
      busy += fmt::format("DCGM_FI_DEV_GPU_UTIL{{instance=\"{}\",gpu=\"{}\"}} {} {}\n", machine, gpu,
                          utilisation, kBegin + s);
      pipes += fmt::format("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{instance=\"{}\",gpu=\"{}\"}} {} {}\n", machine,
                           gpu, tensor, kBegin + s);
    }
  };
  add("half", 0, 100, 0.4), add("half", 1, 100, 0);
  add("dead", 0, 100, 0), add("dead", 1, 100, 0);
  add("idle", 0, 0, 0), add("idle", 1, 100, 0.4);
  add("well", 0, 100, 0.4), add("well", 1, 100, 0.4);
  store(busy + pipes + "# EOF\n");
  ASSERT_FALSE(HasFatalFailure());
  const size_t tensor = metric_named("gpu_tensor_activity", "");
  const auto series = read_prometheus({.url = url_}, {tensor}, kBegin + 30, kBegin + 50);
  ASSERT_EQ(series.size(), 1u);
  std::map<std::string, float> last;
  for (size_t i = 0; i < series[0].machines.size(); ++i)
    last[series[0].machines[i]] = series[0].values[series[0].values.size() - series[0].machines.size() + i];
  EXPECT_EQ(last.count("dead"), 0u);
  EXPECT_NEAR(static_cast<double>(last["half"]), 40, 1e-4);
  EXPECT_NEAR(static_cast<double>(last["idle"]), 20, 1e-4);
  EXPECT_NEAR(static_cast<double>(last["well"]), 40, 1e-4);
}

TEST_F(RealPrometheus, RangeQueriesGiveWhatWasStored) {
  constexpr int64_t kBegin = 1'700'000'000;
  std::string text = "# TYPE my_cpu gauge\n";
  const auto value_of = [](int machine, int64_t s) {
    return 40 + machine + 0.25 * static_cast<double>(s % 7);
  };
  for (int machine = 0; machine < 5; ++machine) {
    for (int64_t s = 0; s < 300; ++s) {
      if (machine == 3 && s >= 200) continue;  // it falls silent
      text +=
          fmt::format("my_cpu{{instance=\"node-{}\"}} {} {}\n", machine, value_of(machine, s), kBegin + s);
    }
  }
  store(text + "# EOF\n");
  ASSERT_FALSE(HasFatalFailure());
  const PrometheusSource source{
      .url = url_, .queries = queries_of({"cpu_usage=avg by (instance) (last_over_time(my_cpu[3s]))"})};
  const auto series = read_prometheus(source, {1}, kBegin, kBegin + 299);
  ASSERT_EQ(series.size(), 1u);
  EXPECT_EQ(series[0].machines.size(), 5u);
  const Pull pull = aligned(series, {1}, {});
  ASSERT_EQ(pull.seconds, 300);
  for (int64_t s = 0; s < 300; ++s) {
    for (int machine = 0; machine < 5; ++machine) {
      if (machine == 3 && s >= 200) continue;
      ASSERT_NEAR(static_cast<double>(pull.row(0, s)[machine]), value_of(machine, s) / 100, 1e-6) << s;
    }
  }
  const auto silent = silences(pull, 60);
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_EQ(silent[0].machine, 3);
  EXPECT_NEAR(silent[0].since_s, kBegin + 200, 12);
  const PrometheusSource wrong{.url = url_, .queries = queries_of({"cpu_usage=avg by (instance"})};
  EXPECT_THAT(prometheus_error([&] { read_prometheus(wrong, {1}, kBegin, kBegin + 10); }),
              HasSubstr("parse error"));
  EXPECT_TRUE(read_prometheus({.url = url_}, {1}, kBegin, kBegin + 10).empty());  // no node exporter there
}

}  // namespace
}  // namespace longhaul::detect
