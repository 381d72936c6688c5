// ctest: label=full timeout=300
// `longhaul detect` as a user types it: from simulated cases to models, alerts, a page and scores; and what is said about wrong input.
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/started_program.h"

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
    ASSERT_EQ(run({"detect", "simulate", "--machines", "8", "--seed", "100", "--cases", "6", "--out", path("train")}).status, 0);
    const json report =
        answer({"detect", "train", path("train"), "--out", path("m.safetensors"), "--steps", "300", "--batch", "128", "--json"});
    EXPECT_EQ(report["metrics"].size(), 7u);
    EXPECT_EQ(report["metrics"][0]["parameters"], 421);
  }
};

TEST_F(Detect, FromCasesToAlertsAndScores) {
  trained();
  const json made = answer({"detect", "simulate", "--machines", "16", "--seed", "7", "--fault", "machine_unreachable", "--structure",
                            "stops", "--out", path("one"), "--json"});
  EXPECT_EQ(made["faults"], 1);
  const json truth = json::parse(read_text(path("one/truth.json")))["faults"][0];
  const json found =
      answer({"detect", "run", path("one"), "--models", path("m.safetensors"), "--page", path("suspect.html"), "--timing", "--json"});
  ASSERT_EQ(found["alerts"].size(), 1u);
  EXPECT_EQ(found["alerts"][0]["machine"], truth["machine"]);
  EXPECT_EQ(found["alerts"][0]["metric"], "no_data");
  EXPECT_THAT(read_text(path("suspect.html")), HasSubstr(truth["machine"].get<std::string>()));
  EXPECT_GT(found["timing"]["slowest_call_seconds"], 0);
  const json scores = answer({"detect", "score", path("train"), path("one"), "--models", path("m.safetensors"), "--json"});
  EXPECT_EQ(scores["cases"], 7);
  for (const char* field : {"precision", "recall", "f1", "ceiling"}) EXPECT_TRUE(scores[field].is_number()) << field;
  EXPECT_THAT(run({"detect", "run", path("one"), "--models", path("m.safetensors"), "--stream"}).output,
              HasSubstr(truth["machine"].get<std::string>()));
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
  expect_error(run({"detect", "run", path("nothing"), "--models", path("m.safetensors")}), 65, "no such folder");
  expect_error(run({"detect", "run", path("one"), "--models", path("other")}), 66, "detect train");
  expect_error(run({"detect", "run", path("one"), "--models", path("m.safetensors"), "--metrics", "cpu_usge"}), 64, "cpu_usage");
  expect_error(run({"detect", "run", "--models", path("m.safetensors")}), 64, "where are the metrics");
  expect_error(run({"detect", "simulate", "--fault", "ecc", "--out", path("x")}), 64, "ecc_error");
  expect_error(run({"detect", "run", "--prometheus", "http://127.0.0.1:1", "--models", path("m.safetensors")}), 69, "127.0.0.1:1");
}

}  // namespace
}  // namespace longhaul::cli
