// ctest: label=full timeout=120
// Metrics as text, by hand; then read by promtool and by a real Prometheus, where they are installed
// (scripts/packages-test.txt), with our alert rules; and the dashboard names nothing that is not there.
#include "observe/open_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "base/net/http.h"
#include "base/net/network.h"
#include "base/process/process.h"
#include "base/process/signals.h"
#include "observe/watch/live_site.h"
#include "observe/watch/run_metrics.h"
#include "supervised_run.h"
#include "support/places.h"

namespace longhaul::observe {
namespace {

using test::SupervisedRun;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(OpenMetricsText, ByHand) {
  OpenMetrics metrics;
  metrics.counter("a_things", "", "Things with a \\ and a\nline.").add({{"kind", "say \"no\"\n\\"}}, 3);
  metrics.gauge("a_size_bytes", "bytes", "Size.").add({}, 0.1);
  metrics.counter("a_things", "", "").add({{"kind", "b"}}, std::nan(""));
  const double bounds[] = {0.5, 10};
  const int64_t counts[] = {1, 2, 4};
  metrics.family(MetricFamily::Type::kHistogram, "a_time_seconds", "seconds", "Time.")
      .add_histogram({}, bounds, counts, 12.5);
  const std::string_view states[] = {"on", "off"};
  metrics.family(MetricFamily::Type::kStateSet, "a_state", "", "State.")
      .add_states({{"job", "x"}}, states, "off");
  metrics.family(MetricFamily::Type::kInfo, "a_build", "", "Build.").add({{"version", "1"}}, 1);
  metrics.gauge("a_nothing", "", "Left out.");
  EXPECT_EQ(metrics.text(true),
            "# TYPE a_things counter\n# HELP a_things Things with a \\\\ and a\\nline.\n"
            "a_things_total{kind=\"say \\\"no\\\"\\n\\\\\"} 3\na_things_total{kind=\"b\"} NaN\n"
            "# TYPE a_size_bytes gauge\n# UNIT a_size_bytes bytes\n# HELP a_size_bytes Size.\na_size_bytes "
            "0.10000000000000001\n"
            "# TYPE a_time_seconds histogram\n# UNIT a_time_seconds seconds\n# HELP a_time_seconds Time.\n"
            "a_time_seconds_bucket{le=\"0.5\"} 1\na_time_seconds_bucket{le=\"10.0\"} "
            "3\na_time_seconds_bucket{le=\"+Inf\"} 7\na_time_seconds_count 7\na_time_seconds_sum 12.5\n"
            "# TYPE a_state stateset\n# HELP a_state State.\na_state{job=\"x\",a_state=\"on\"} "
            "0\na_state{job=\"x\",a_state=\"off\"} 1\n"
            "# TYPE a_build info\n# HELP a_build Build.\na_build_info{version=\"1\"} 1\n# EOF\n");
  const std::string older = metrics.text(false);
  EXPECT_THAT(older,
              AllOf(HasSubstr("# TYPE a_things_total counter\n"), HasSubstr("# TYPE a_state gauge\n"),
                    HasSubstr("# TYPE a_build_info gauge\n"), Not(HasSubstr("UNIT")), Not(HasSubstr("EOF"))));
  EXPECT_TRUE(wants_open_metrics("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"));
  EXPECT_FALSE(wants_open_metrics("text/html,*/*"));
}

class RunMetrics : public ::testing::Test {
 protected:
  RunMetrics()
      : run_(folder_ / "big \"run\"", {.stuck_rank = 2}),
        plain_(folder_ / "plain", {.steps = 30, .incidents = false}),
        site_({folder_ / "big \"run\"", folder_ / "plain"}, false) {
    std::filesystem::remove_all(folder_ / "plain" / "control");
    site_.poll(run_.now());
  }
  std::string text(bool open = true, bool by_rank = false) const {
    const RunView* const views[] = {&site_.run(0), &site_.run(1)};
    return run_metrics(views, by_rank).text(open);
  }
  TemporaryFolder folder_;
  SupervisedRun run_, plain_;
  LiveSite site_;
};

// Names of samples in a text of metrics.
std::set<std::string> sample_names(const std::string& text) {
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) names.insert(line.substr(0, line.find_first_of("{ ")));
  }
  return names;
}

TEST_F(RunMetrics, SayWhatTheRunSays) {
  const std::string all = text();
  for (const char* part :
       {"longhaul_step{job=\"big \\\"run\\\"\"} 394\n",
        "longhaul_state{job=\"big \\\"run\\\"\",longhaul_state=\"TRAIN\"} 1\n",
        "longhaul_state{job=\"plain\",longhaul_state=\"running\"}",
        "longhaul_tokens_total{job=\"big \\\"run\\\"\"} 3276800\n",
        "longhaul_faults_total{job=\"big \\\"run\\\"\",class=\"hang\"} 1\n",
        "longhaul_progress_age_seconds{job=\"big \\\"run\\\"\",node=\"node-1\"} 300\n",
        "longhaul_spares{job=\"big \\\"run\\\"\"} 1\n", "longhaul_ettr_ratio{job=\"big \\\"run\\\"\"} 0.96",
        "longhaul_step_time_seconds_count{job=\"big \\\"run\\\"\"} 400\n",
        "longhaul_alarms_total{job=\"big \\\"run\\\"\",kind=\"disk_full\"} 1\n",
        "longhaul_samples_total{job=\"big \\\"run\\\"\"} 1600\n",
        "longhaul_node_sample{job=\"big \\\"run\\\"\",node=\"node-3\",metric=\"cpu_usage\"} 37.5\n",
        "longhaul_checkpoint_failures_total{job=\"big \\\"run\\\"\"} 1\n",
        "longhaul_samples_total{job=\"plain\"} 120\n"})
    EXPECT_THAT(all, HasSubstr(part));
  EXPECT_THAT(all, Not(HasSubstr("rank=\""))) << "nodes, unless ranks are asked for";
  EXPECT_THAT(
      text(true, true),
      HasSubstr("longhaul_progress_age_seconds{job=\"big \\\"run\\\"\",node=\"node-1\",rank=\"2\"} 300\n"));
  EXPECT_THAT(all, HasSubstr("longhaul_straggler_score"));
}

// A run as its events tell it: a start from a checkpoint, a step of a model with experts beside other
// programs, a save, alerts of Minder.
std::string text_of_told_run(const std::filesystem::path& folder) {
  RunStart start;
  start.peak_flops_per_second = 1e12;
  const std::vector<EventBody> bodies = {
      start, Resume{.step = 4, .source = "memory", .loading_seconds = 1.5, .bytes = 3000},
      StepReport{.step = 5,
                 .milliseconds = 900,
                 .mfu = 0.25,
                 .taken_by_others = 0.375,
                 .metrics = {{"router/busiest_over_mean", 1.75},
                             {"router/dropped_share", 0.125},
                             {"accuracy", 0.5}}},
      CheckpointSaved{.step = 5,
                      .path = "checkpoints/a",
                      .blocking_milliseconds = 2,
                      .writing_seconds = 12.5,
                      .bytes = 4000}};
  std::string text, of_driver;
  for (const EventBody& body : bodies)
    text += to_json({.common = {.run = "r", .generation = 1, .wall_time = 10}, .body = body}) + "\n";
  for (const char* metric : {"network_sent", "cpu", "network_sent"}) {
    of_driver += to_json({.common = {.run = "r", .wall_time = 10},
                          .body = Alarm{.kind = "minder", .message = "node-1: differs", .metric = metric}}) +
                 "\n";
  }
  make_folders(folder / "events");
  write_text_atomically(folder / "events.jsonl", text);
  write_text_atomically(folder / "events/driver-0.jsonl", of_driver);
  LiveRun run(folder, "r");
  run.poll(20);
  const RunView* const views[] = {&run.view()};
  return run_metrics(views).text(true);
}

TEST(ToldRunMetrics, AreThoseOfItsEvents) {
  const TemporaryFolder folder;
  const std::string all = text_of_told_run(folder / "r");
  for (const char* line :
       {"longhaul_checkpoint_persist_seconds{job=\"r\",tier=\"disk\"} 12.5\n",
        "longhaul_checkpoint_bytes{job=\"r\",tier=\"disk\"} 4000\n",
        "longhaul_checkpoint_load_seconds{job=\"r\",tier=\"memory\"} 1.5\n",
        "longhaul_checkpoint_load_bytes{job=\"r\",tier=\"memory\"} 3000\n",
        "longhaul_moe_load_imbalance_ratio{job=\"r\"} 1.75\n",
        "longhaul_moe_dropped_ratio{job=\"r\"} 0.125\n", "longhaul_taken_by_others_ratio{job=\"r\"} 0.375\n",
        "longhaul_minder_alerts_total{job=\"r\",metric=\"network_sent\"} 2\n",
        "longhaul_minder_alerts_total{job=\"r\",metric=\"cpu\"} 1\n",
        "longhaul_alarms_total{job=\"r\",kind=\"minder\"} 3\n"})
    EXPECT_THAT(all, HasSubstr(line));
  const std::string guide = read_text(source_folder() + "/docs/guides/watch.md");
  for (const std::string& name : sample_names(all))
    EXPECT_THAT(guide, HasSubstr("`" + std::regex_replace(name, std::regex("_(bucket|count|sum)$"), "")))
        << name;
}

// Families stand together, each introduced once, and no series twice.
TEST_F(RunMetrics, KeepTheRulesOfTheFormat) {
  for (const bool open : {true, false}) {
    std::istringstream lines(text(open, true));
    std::set<std::string> families, series;
    std::string family;
    std::string last;
    for (std::string line; std::getline(lines, line);) {
      last = line;
      if (line.starts_with("# TYPE ")) {
        family = line.substr(7, line.find(' ', 7) - 7);
        EXPECT_TRUE(families.insert(family).second) << line;
      } else if (!line.starts_with('#')) {
        EXPECT_TRUE(line.starts_with(family)) << line;
        EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
      }
    }
    EXPECT_EQ(last == "# EOF", open);
  }
}

TEST_F(RunMetrics, EveryOneIsInTheGuideAndTheDashboardHasNoOthers) {
  const std::string guide = read_text(source_folder() + "/docs/guides/watch.md");
  std::set<std::string> names = sample_names(text());
  for (const std::string& name : names) {
    const std::string family = std::regex_replace(name, std::regex("_(bucket|count|sum)$"), "");
    EXPECT_THAT(guide, HasSubstr("`" + family)) << name;
  }
  names.insert("longhaul_evictions_total");
  const nlohmann::json dashboard =
      nlohmann::json::parse(read_text(source_folder() + "/deploy/grafana/longhaul.json"));
  std::set<std::string> kinds;
  for (const auto& panel : dashboard.at("panels")) {
    kinds.insert(panel.at("type"));
    EXPECT_LE(panel.at("gridPos").at("x").get<int>() + panel.at("gridPos").at("w").get<int>(), 24);
    for (const auto& target : panel.at("targets")) {
      const std::string expression = target.at("expr");
      const std::regex name("longhaul_[a-z_]+");
      for (std::sregex_iterator each(expression.begin(), expression.end(), name), end; each != end; ++each) {
        if (each->str() == "longhaul_state") continue;  // a label too
        EXPECT_TRUE(names.contains(each->str())) << panel.at("title") << " asks for " << each->str();
      }
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"heatmap", "stat", "state-timeline", "timeseries"}));
}

class Promtool : public RunMetrics {
 protected:
  void SetUp() override {
    if (std::system("command -v promtool >/dev/null") != 0)
      GTEST_SKIP() << "promtool is not installed: apt-get install prometheus (scripts/packages-test.txt)";
  }
};

TEST_F(Promtool, AcceptsMetricsRulesAndTheDashboard) {
  write_text_atomically(folder_ / "metrics", text(false));
  const auto checked =
      run_process({"sh", "-c", "promtool check metrics < " + (folder_ / "metrics").string()});
  EXPECT_EQ(checked.status, 0) << checked.output << checked.errors;

  const std::string rules = source_folder() + "/deploy/prometheus/longhaul-alerts.yml";
  std::string test = read_text(source_folder() + "/tests/observe/promtool/alerts_test.yml");
  test.replace(test.find("- RULES") + 2, 5, rules);
  write_text_atomically(folder_ / "test.yml", test);
  const auto tested = run_process({"promtool", "test", "rules", (folder_ / "test.yml").string()});
  EXPECT_EQ(tested.status, 0) << tested.output << tested.errors;

  // Every expression of the dashboard, as a rule.
  std::string as_rules = "groups:\n  - name: dashboard\n    rules:\n";
  int count = 0;
  const nlohmann::json dashboard =
      nlohmann::json::parse(read_text(source_folder() + "/deploy/grafana/longhaul.json"));
  for (const auto& panel : dashboard.at("panels")) {
    for (const auto& target : panel.at("targets")) {
      std::string expression = target.at("expr");
      for (const auto& [variable, value] :
           {std::pair("$job", ".*"), {"$node", ".*"}, {"$__rate_interval", "1m"}}) {
        for (size_t at = expression.find(variable); at != std::string::npos; at = expression.find(variable))
          expression.replace(at, std::string(variable).size(), value);
      }
      as_rules += "      - {record: \"panel:" + std::to_string(++count) + "\", expr: '" + expression + "'}\n";
    }
  }
  write_text_atomically(folder_ / "dashboard.yml", as_rules);
  const auto parsed = run_process({"promtool", "check", "rules", (folder_ / "dashboard.yml").string()});
  EXPECT_EQ(parsed.status, 0) << parsed.output << parsed.errors;
  EXPECT_THAT(parsed.output, HasSubstr(std::to_string(count) + " rules found"));
}

// A real Prometheus asks for OpenMetrics, takes every series, and our rules fire in it.
TEST_F(Promtool, ARealPrometheusReadsAllAndWarns) {
  const HttpServer server({}, [this](const HttpRequest& request) { return site_.answer(request); });
  std::string config = read_text(source_folder() + "/deploy/prometheus/prometheus.yml");
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = config.find(from); at != std::string::npos; at = config.find(from, at + to.size()))
      config.replace(at, from.size(), to);
  };
  replace("127.0.0.1:8080", "127.0.0.1:" + std::to_string(server.port()));
  replace("longhaul-alerts.yml\n", source_folder() + "/deploy/prometheus/longhaul-alerts.yml\n");
  replace("_interval: 5s", "_interval: 1s");
  write_text_atomically(folder_ / "prometheus.yml", config);
  const uint16_t port = free_port();
  const auto started =
      run_process({"sh", "-c",
                   fmt::format("prometheus --config.file={0}/prometheus.yml --storage.tsdb.path={0}/data "
                               "--web.listen-address=127.0.0.1:{1} "
                               ">{0}/log 2>&1 </dev/null & echo $!",
                               folder_.path().string(), port)});
  const HttpAddress address{.host = "127.0.0.1", .port = port};
  const auto ask = [&](const std::string& target) {
    try {
      return nlohmann::json::parse(http_get(address, target, 5).body, nullptr, false);
    } catch (const Error&) {
      return nlohmann::json();
    }
  };
  nlohmann::json steps, alerts;
  const Stopwatch watch;
  while (watch.seconds() < 60) {
    pause_unless_stopped(0.3);
    steps = ask("/api/v1/query?query=longhaul_step");
    alerts = ask("/api/v1/alerts");
    if (steps.is_object() && steps["data"]["result"].size() == 2 && alerts.is_object() &&
        alerts["data"]["alerts"].size() > 0)
      break;
  }
  const nlohmann::json targets = ask("/api/v1/targets");
  run_process({"kill", started.output.substr(0, started.output.find('\n'))});
  ASSERT_EQ(steps["data"]["result"].size(), 2u) << read_text(folder_ / "log");
  EXPECT_EQ(targets["data"]["activeTargets"][0]["lastError"], "");
  std::set<std::string> jobs, firing;
  for (const auto& result : steps["data"]["result"]) jobs.insert(result["metric"]["job"].get<std::string>());
  EXPECT_EQ(jobs, (std::set<std::string>{"big \"run\"", "plain"})) << "the run's name, not Prometheus' own";
  for (const auto& alert : alerts["data"]["alerts"])
    firing.insert(alert["labels"]["alertname"].get<std::string>());
  EXPECT_TRUE(firing.contains("LonghaulNoProgress")) << alerts.dump();
}

}  // namespace
}  // namespace longhaul::observe
