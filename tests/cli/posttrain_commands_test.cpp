// ctest: label=full timeout=300
// `longhaul rollouts` and `longhaul rewards` as a person types them, behind tiny runs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "cli/started_program.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PosttrainCommands : public StartedProgram {
 protected:
  static std::string model(const std::string& task) {
    return "version = 1\n[model]\nlayers = 1\nhidden = 16\nheads = 2\nkv_heads = 2\nhead_dim = 8\n"
           "vocabulary = 258\nmixers = [\"softmax\"]\nintermediate = 16\nrotary_dim = 4\n"
           "[data]\ntokenizer = \"bytes\"\n[train]\ntask = \"" +
           task +
           "\"\nsteps = 2\ndtype = \"fp32\"\nbatch = 2\nmicro_batch = 2\nsequence = 32\nevaluate_every = 0\n"
           "threads = 1\n[sample]\ntokens = 0\n[observe]\ncompression_baseline = false\nreport = false\n"
           "tensorboard = false\n";
  }
  void train(const std::string& task, const std::string& section) const {
    write(task + ".toml", model(task) + section);
    const ProcessResult trained = run({"train", path(task + ".toml"), "--run", path(task)});
    ASSERT_EQ(trained.status, 0) << trained.errors;
  }
};

// The rewards 1, 2, 3, 4 of a group are the lines that the verifier counts.
TEST_F(PosttrainCommands, RolloutsShowsWhatStepsWereTrainedOn) {
  std::string prompts;
  for (int i = 0; i < 4; ++i) prompts += fmt::format("{{\"prompt\": \"say {}\", \"task\": \"saying\"}}\n", i);
  write("prompts.jsonl", prompts);
  write("judge.sh", "while read -r line; do echo $((i += 1)); done\n");
  train("reinforce",
        fmt::format("[reinforce]\nprompts_file = \"{}\"\nreward = [\"program\"]\nprogram = \"sh {}\"\n"
                    "prompts = 2\ngroup = 4\ntokens = 6\n",
                    path("prompts.jsonl"), path("judge.sh")));
  const ProcessResult written = run({"rollouts", path("reinforce"), "--step", "1", "--json"});
  ASSERT_EQ(written.status, 0) << written.errors;
  const auto told = nlohmann::json::parse(written.output);
  EXPECT_EQ(told.at("step"), 1);
  EXPECT_EQ(told.at("steps"), nlohmann::json({1, 2}));
  ASSERT_EQ(told.at("answers").size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const auto& answer = told.at("answers")[i];
    EXPECT_EQ(answer.at("reward"), 1 + static_cast<double>(i % 4));
    // (1 − 2.5) / (1.290994 + 1e-6) and so on
    EXPECT_NEAR(answer.at("advantage"), (static_cast<double>(i % 4) - 1.5) / 1.290995, 1e-5);
    for (const double ratio : answer.at("ratios")) EXPECT_EQ(ratio, 1);
  }
  const ProcessResult shown = run({"rollouts", path("reinforce"), "--answers", "3"});
  EXPECT_THAT(shown.output,
              AllOf(HasSubstr("step 2: 8 answers, mean reward 2.5"), HasSubstr("(saying)"),
                    HasSubstr("reward 3"), Not(HasSubstr("reward 4")), HasSubstr("5 answers more")));
  const ProcessResult missing = run({"rollouts", path("reinforce"), "--step", "7"});
  EXPECT_NE(missing.status, 0);
  EXPECT_THAT(missing.errors, HasSubstr("7"));
}

TEST_F(PosttrainCommands, RewardsScoresTheAnswersOfAFile) {
  std::string pairs;
  for (int i = 0; i < 20; ++i)
    pairs += fmt::format("{{\"prompt\": \"item {}\", \"chosen\": \"yes\", \"rejected\": \"no\"}}\n", i);
  write("pairs.jsonl", pairs);
  train("reward", fmt::format("[preference]\ndata = \"{}\"\n", path("pairs.jsonl")));
  const ProcessResult printed = run({"rewards", path("reward"), "--data", path("pairs.jsonl")});
  ASSERT_EQ(printed.status, 0) << printed.errors;
  int64_t right = 0, lines = 0;
  for (const std::string_view line : split(trimmed(printed.output), '\n')) {
    const auto row = nlohmann::json::parse(line);
    ASSERT_EQ(row.at("scores").size(), 2u);
    right += row.at("scores")[0] > row.at("scores")[1] ? 1 : 0;
    ++lines;
  }
  EXPECT_EQ(lines, 20);
  const ProcessResult filed =
      run({"rewards", path("reward"), "--data", path("pairs.jsonl"), "--out", path("scores.jsonl")});
  EXPECT_THAT(filed.output,
              AllOf(HasSubstr("scores of 20 rows"),
                    HasSubstr(fmt::format("{:.1f} % of 20 pairs", 5.0 * static_cast<double>(right)))));
  // A model of another task has no scores.
  write("prompts.jsonl", "{\"prompt\": \"a\", \"answer\": \"b\"}\n{\"prompt\": \"c\", \"answer\": \"d\"}\n");
  train("reinforce",
        fmt::format("[reinforce]\nprompts_file = \"{}\"\nprompts = 2\ngroup = 2\ntokens = 2\nrounds = 1\n",
                    path("prompts.jsonl")));
  const ProcessResult refused = run({"rewards", path("reinforce"), "--data", path("pairs.jsonl")});
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.errors, HasSubstr("was not trained to score answers"));
}

TEST_F(PosttrainCommands, BenchTellsWhatStepsCost) {
  const ProcessResult told = run({"bench",
                                  "posttrain",
                                  "--steps",
                                  "2",
                                  "--rounds",
                                  "1",
                                  "--sequence",
                                  "128",
                                  "--batch",
                                  "1",
                                  "--answer",
                                  "4",
                                  "--json",
                                  "model.layers=1",
                                  "model.hidden=32",
                                  "model.heads=2",
                                  "model.head_dim=16",
                                  "model.rotary_dim=8",
                                  "model.intermediate=32",
                                  "model.mixers=softmax",
                                  "train.threads=1"});
  ASSERT_EQ(told.status, 0) << told.errors;
  std::map<std::string, nlohmann::json> lines;
  for (const std::string_view line : split(trimmed(told.output), '\n')) {
    const auto json = nlohmann::json::parse(line);
    lines[json.at("way")] = json;
    EXPECT_GT(json.at("milliseconds"), 0) << line;
    EXPECT_GT(json.at("peak_bytes"), 0) << line;
    EXPECT_GT(json.at("planned_bytes"), 0) << line;
  }
  ASSERT_EQ(lines.size(), 4u) << told.output;
  EXPECT_GT(lines.at("chat").at("time_of_pretrain"), 0);
  EXPECT_GT(lines.at("chat, LoRA").at("time_of_chat"), 0);
  // Two moments of eight rows and eight columns a matrix beside those of whole matrices and of the embedding.
  EXPECT_LT(lines.at("chat, LoRA").at("state_bytes"), lines.at("chat").at("state_bytes"));
  const nlohmann::json& steps = lines.at("reinforce");
  const double shares = steps.at("generation").get<double>() + steps.at("judging").get<double>() +
                        steps.at("preparing").get<double>() + steps.at("update").get<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_GT(steps.at("generation"), 0.01) << "four tokens of 64 answers";
  EXPECT_GT(steps.at("update"), 0.01);
}

}  // namespace
}  // namespace longhaul::cli
