// ctest: label=full timeout=300
// `longhaul detect` as a user types it: from simulated cases to models, alerts, a page and scores; and what
// is said about wrong input.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "cli/started_program.h"
#include "detect/samples/metric_files.h"
#include "detect/samples/run_samples.h"

namespace longhaul::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Detect : public StartedProgram {
 protected:
  json answer(const std::vector<std::string>& words) const {
    const ProcessResult result = run(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.status == 0 ? json::parse(result.output) : json();
  }
  void trained() const {
    ASSERT_EQ(run({"detect", "simulate", "--machines", "8", "--seed", "100", "--cases", "6", "--out",
                   path("train")})
                  .status,
              0);
    const json report = answer({"detect", "train", path("train"), "--out", path("m.safetensors"), "--steps",
                                "300", "--batch", "128", "--json"});
    EXPECT_EQ(report["metrics"].size(), 7u);
    EXPECT_EQ(report["metrics"][0]["parameters"], 421);
  }
};

TEST_F(Detect, FromCasesToAlertsAndScores) {
  trained();
  const json made = answer({"detect", "simulate", "--machines", "16", "--seed", "7", "--fault",
                            "machine_unreachable", "--structure", "stops", "--out", path("one"), "--json"});
  EXPECT_EQ(made["faults"], 1);
  const json truth = json::parse(read_text(path("one/truth.json")))["faults"][0];
  const json found = answer({"detect", "run", path("one"), "--models", path("m.safetensors"), "--page",
                             path("suspect.html"), "--timing", "--json"});
  ASSERT_EQ(found["alerts"].size(), 1u);
  EXPECT_EQ(found["alerts"][0]["machine"], truth["machine"]);
  EXPECT_EQ(found["alerts"][0]["metric"], "no_data");
  EXPECT_THAT(read_text(path("suspect.html")), HasSubstr(truth["machine"].get<std::string>()));
  EXPECT_GT(found["timing"]["slowest_call_seconds"], 0);
  const json scores =
      answer({"detect", "score", path("train"), path("one"), "--models", path("m.safetensors"), "--json"});
  EXPECT_EQ(scores["cases"], 7);
  for (const char* field : {"precision", "recall", "f1", "ceiling"})
    EXPECT_TRUE(scores[field].is_number()) << field;
  EXPECT_THAT(run({"detect", "run", path("one"), "--models", path("m.safetensors"), "--stream"}).output,
              HasSubstr(truth["machine"].get<std::string>()));
}

// The metrics of a CSV file each, as a run's nodes would have kept them.
void write_rings(const std::string& csv, const std::string& run, double begin_s,
                 const std::vector<std::string>& kept) {
  std::vector<detect::Series> all;
  for (const std::string& metric : kept)
    all.push_back(detect::read_metric_file(std::filesystem::path(csv) / (metric + ".csv"),
                                           detect::metric_named(metric, "")));
  for (size_t machine = 0; machine < all[0].machines.size(); ++machine) {
    const std::string node = "node-" + std::to_string(machine);
    detect::SampleRingWriter ring =
        detect::SampleRingWriter::open(detect::samples_folder(run) / (node + ".ring"),
                                       {.node = node, .host = all[0].machines[machine], .boot = node});
    for (size_t time = 0; time < all[0].times_s.size(); ++time) {
      detect::SampleValues values = detect::no_values();
      for (const detect::Series& series : all)
        values[series.metric] = series.values[time * series.machines.size() + machine];
      ring.write(begin_s + all[0].times_s[time], values);
    }
  }
}

TEST_F(Detect, ARunsOwnSamplesGiveTheAlertOfCsv) {
  trained();
  const json made = answer({"detect", "simulate", "--machines", "8", "--seed", "8", "--fault", "nic_dropout",
                            "--out", path("csv"), "--json"});
  ASSERT_EQ(made["faults"], 1);
  std::vector<std::string> used;
  for (const size_t metric : detect::metric_choice("used")) used.emplace_back(detect::metrics()[metric].name);
  const double begin_s = std::floor(wall_time_s()) - 900;
  const auto looked = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"detect", "run", path(folder), "--models", path("m.safetensors"),
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return answer(words);
  };
  const json truth = json::parse(read_text(path("csv/truth.json")))["faults"][0];
  const auto expect_same = [&](const json& rings, const json& csv) {
    ASSERT_EQ(csv["alerts"].size(), 1u) << csv;
    ASSERT_EQ(rings["alerts"].size(), 1u) << rings;
    EXPECT_EQ(rings["alerts"][0]["machine"], truth["machine"]);
    for (const char* field : {"machine", "metric", "peers", "score"})
      EXPECT_EQ(rings["alerts"][0][field], csv["alerts"][0][field]) << field;
    EXPECT_EQ(rings["alerts"][0]["first_second"], csv["alerts"][0]["first_second"].get<double>() + begin_s);
  };
  const std::vector<std::string> raw = {"--variant", "raw", "--share", "0.7", "--distance-threshold", "0.05"};
  const auto also = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = raw;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  write_rings(path("csv"), path("run"), begin_s, used);
  expect_same(looked("run", {}), looked("csv", {}));
  expect_same(looked("run", raw), looked("csv", raw));
  expect_same(looked("run", also({"--stream"})), looked("csv", also({"--stream"})));
  // Machines without GPUs: CPU alone is judged, and the rest is said not to be.
  write_rings(path("csv"), path("cpu"), begin_s, {"cpu_usage"});
  const json alone = looked("cpu", raw);
  expect_same(alone, looked("csv", also({"--metrics", "cpu_usage"})));
  EXPECT_EQ(alone["not_judged"].size(), 6u) << alone["not_judged"];
  EXPECT_THAT(alone["not_judged"].dump(), HasSubstr("gpu_duty_cycle has no samples"));
  // Models of what there is.
  expect_error(run({"detect", "train", path("cpu"), "--out", path("c.safetensors"), "--steps", "10"}), 65,
               "--metrics cpu_usage");
  EXPECT_EQ(answer({"detect", "train", path("cpu"), "--metrics", "cpu_usage", "--steps", "10", "--batch",
                    "16", "--out", path("c.safetensors"), "--json"})["metrics"][0]["metric"],
            "cpu_usage");
}

TEST_F(Detect, RunsWithoutEnoughSamplesAreRefused) {
  const auto csv_of = [&](int machines) {
    std::string csv = "time";
    for (int machine = 0; machine < machines; ++machine) csv += fmt::format(",m{}", machine);
    for (int second = 0; second < 300; ++second) {
      csv += fmt::format("\n{}", second);
      for (int machine = 0; machine < machines; ++machine)
        csv += fmt::format(",{}", 40 + second % (5 + machine));
    }
    std::filesystem::create_directories(path("csv"));
    write("csv/cpu_usage.csv", csv + "\n");
  };
  csv_of(4);
  answer({"detect", "train", path("csv"), "--metrics", "cpu_usage", "--steps", "10", "--batch", "16", "--out",
          path("m.safetensors"), "--json"});
  write_rings(path("csv"), path("old"), 1'700'000'000, {"cpu_usage"});
  const ProcessResult old = run({"detect", "run", path("old"), "--models", path("m.safetensors")});
  EXPECT_EQ(old.status, 0) << old.errors;
  EXPECT_THAT(old.output,
              HasSubstr("not judged: what came after 2023-11-14T22:18:19Z: the last samples are"));
  const auto refused = [&](const std::string& folder, const std::string& part) {
    expect_error(run({"detect", "run", path(folder), "--models", path("m.safetensors")}), 65, part);
  };
  csv_of(3);
  write_rings(path("csv"), path("three"), 1'700'000'000, {"cpu_usage"});
  refused("three", "at least 4");
  std::filesystem::create_directories(path("plain"));
  write("plain/events.jsonl", "");
  refused("plain", "plain `train` keeps none");
}

TEST_F(Detect, WrongInputIsToldByNameAndUnit) {
  trained();
  const auto refused = [&](const std::string& csv, const std::string& part) {
    write("one/cpu_usage.csv", csv);
    const ProcessResult result = run({"detect", "run", path("one"), "--models", path("m.safetensors")});
    EXPECT_EQ(result.status, 65) << csv;
    EXPECT_THAT(result.errors, HasSubstr(part));
  };
  std::filesystem::create_directories(path("one"));
  refused("time,a,b,c,d\n0,1,2,3,x\n", "(%) in column d");
  refused("time,a,b,c,d\n0,1,2,3,4\n1,1,2,3,4000\n", "4000 % on d");
  refused("time,a,b\n0,1,2\n1,1,2\n", "at least 4");
  refused("time,a,b,c,d\n0,1,2,3,4\n1,1,2,3,4\n", "at least 247 seconds");
  expect_error(run({"detect", "run", path("nothing"), "--models", path("m.safetensors")}), 65,
               "no such folder");
  expect_error(run({"detect", "run", path("one"), "--models", path("other")}), 66, "detect train");
  expect_error(
      run({"detect", "run", path("one"), "--models", path("m.safetensors"), "--metrics", "cpu_usge"}), 64,
      "cpu_usage");
  expect_error(run({"detect", "run", "--models", path("m.safetensors")}), 64, "where are the metrics");
  expect_error(run({"detect", "simulate", "--fault", "ecc", "--out", path("x")}), 64, "ecc_error");
  expect_error(
      run({"detect", "run", "--prometheus", "http://127.0.0.1:1", "--models", path("m.safetensors")}), 69,
      "127.0.0.1:1");
}

}  // namespace
}  // namespace longhaul::cli
