// LONGHAUL_LOG_FORMAT=json: every line that a run, its ranks and a failed command write to standard error.
// ctest: label=full timeout=300
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "started_program.h"

namespace longhaul::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class JsonLogs : public StartedProgram {
 protected:
  JsonLogs() {
    write(
        "tiny.toml",
        "version = 1\n[model]\nlayers = 1\nhidden = 16\nheads = 2\nkv_heads = 1\nhead_dim = 8\n"
        "vocabulary = 257\nmixers = [\"softmax\"]\nintermediate = 16\nrotary_dim = 8\n[data]\nsource = [\"" +
            path("texts") +
            "\"]\ntokenizer = \"bytes\"\nheld_out_percent = 20\n[train]\nsteps = 3\nbatch = 2\nmicro_batch = "
            "2\n"
            "sequence = 16\nevaluate_every = 0\nthreads = 1\n[optim]\nlr = 100\nclip_norm = 0\n"
            "warmup_steps = 0\nmomentum = 0.5\n[sample]\ntokens = 0\n");
  }
  ProcessResult run_in_json(std::vector<std::string> words) const {
    words.insert(words.begin(), program_file());
    return run_process(words, {cache_variable(path("cache")), "LONGHAUL_LOG_FORMAT=json"}, 180);
  }
  // Each line, which must be an object with the fields of every line.
  static std::vector<json> lines_of(const std::string& errors) {
    std::vector<json> lines;
    std::istringstream in(errors);
    for (std::string line; std::getline(in, line);) {
      const json found = json::parse(line, nullptr, false);
      EXPECT_TRUE(found.is_object()) << line;
      if (!found.is_object()) continue;
      EXPECT_TRUE(found.value("text", json()).is_string()) << line;
      EXPECT_THAT(found.value("level", ""), ::testing::AnyOf("info", "warning", "error")) << line;
      EXPECT_NEAR(found.value("wall_time", 0.0), wall_time_s(), 600) << line;
      EXPECT_TRUE(found.contains("process") && found.contains("host") && found.contains("monotonic_ns"))
          << line;
      lines.push_back(found);
    }
    return lines;
  }
};

// The rate makes the second step's loss no number, which is an alarm, and the run fails in the end; it has an
// option that nothing reads, which is a warning.
TEST_F(JsonLogs, EveryLineOfARunThatFails) {
  const ProcessResult result =
      run_in_json({"train", path("tiny.toml"), "--run", path("run"), "train.nonfinite_limit=1"});
  EXPECT_NE(result.status, 0);
  const std::vector<json> lines = lines_of(result.errors);
  std::set<std::string> levels;
  std::string texts;
  for (const json& line : lines)
    levels.insert(line["level"]), texts += line["text"].get<std::string>() + "\n";
  EXPECT_EQ(levels.count("warning"), 1u) << result.errors;
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back()["level"], "error") << result.errors;
  EXPECT_EQ(lines.back().value("rank", -1), 0);
  EXPECT_THAT(texts, HasSubstr("nan"));
  EXPECT_THAT(result.output, HasSubstr("step")) << "lines of steps are a result";
}

TEST_F(JsonLogs, ACommandThatIsRefused) {
  const ProcessResult result = run_in_json({"train", path("nowhere.toml")});
  const std::vector<json> lines = lines_of(result.errors);
  ASSERT_EQ(lines.size(), 1u) << result.errors;
  EXPECT_EQ(lines[0]["level"], "error");
  EXPECT_THAT(lines[0]["text"].get<std::string>(), HasSubstr("nowhere.toml"));
  EXPECT_FALSE(lines[0].contains("rank"));
}

TEST_F(JsonLogs, AnUnknownFormIsRefused) {
  const ProcessResult result = run_process({program_file(), "version"}, {"LONGHAUL_LOG_FORMAT=yaml"}, 60);
  EXPECT_EQ(result.status, 64);
  EXPECT_THAT(result.errors, HasSubstr("LONGHAUL_LOG_FORMAT"));
}

}  // namespace
}  // namespace longhaul::cli
