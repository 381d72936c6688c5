#include "posttrain/reinforce/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/net/http_server.h"
#include "base/process/process.h"
#include "support/refused.h"

namespace longhaul::posttrain {
namespace {

using ::longhaul::testing::refused;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ReinforceOptions rewarded(std::vector<RewardPart> reward) {
  ReinforceOptions options;
  options.reward = std::move(reward);
  options.verifier_seconds = 20;
  options.verifier_bytes = int64_t{1} << 30;
  return options;
}

std::vector<double> sums(const ReinforceOptions& options, const std::vector<std::string>& texts,
                         const Prompt& prompt) {
  std::vector<double> all;
  const auto rewards = Judge(options).judge({{&prompt, texts}});
  for (const Reward& reward : rewards.at(0)) all.push_back(reward.sum);
  return all;
}

Prompt question() { return {.number = 7, .text = "3 + 4 =", .task = "sums", .answer = "7"}; }

Prompt sudoku() {
  ReinforceOptions options;
  options.puzzles = {"sudoku"};
  static const data::Tokenizer tokenizer = data::Tokenizer::bytes();
  return Prompts(options, tokenizer, 10000).prompt(0);
}

TEST(Judge, ComparesTexts) {
  EXPECT_THAT(sums(rewarded({{"exact", 1}}), {"7", " 7\n", "8", "7 7", ""}, question()),
              ElementsAre(1, 1, 0, 0, 0));
  Prompt brackets = question();
  brackets.answer = "])}";
  EXPECT_THAT(sums(rewarded({{"prefix", 1}}), {"])}", "])", "])}}", ")", ""}, brackets),
              ElementsAre(1, 2 / 3.0, 0.75, 0, 0));
  ReinforceOptions options = rewarded({{"regex", 1}});
  options.regex = "answer: ([0-9]+)";
  EXPECT_THAT(sums(options, {"answer: 8, no, answer: 7", "answer: 7, no, answer: 8", "7"}, question()),
              ElementsAre(1, 0, 0));
}

TEST(Judge, AddsUpWhatCounts) {
  const ReinforceOptions options = rewarded({{"exact", 2}, {"format", 0.5}});
  const Prompt prompt = question();
  const auto rewards =
      Judge(options).judge({{&prompt, {"7", "<think>so</think><answer>7</answer>", "8"}}}).at(0);
  EXPECT_EQ(rewards[0].sum, 2);
  EXPECT_THAT(rewards[0].parts, ElementsAre(1, 0));
  EXPECT_FALSE(rewards[0].formatted);
  EXPECT_EQ(rewards[1].sum, 0.5);
  EXPECT_TRUE(rewards[1].formatted);
  EXPECT_EQ(rewards[2].sum, 0);
}

TEST(Judge, AsksTheVerifierOfAPuzzle) {
  const Prompt prompt = sudoku();
  const std::string right = "<think>so</think><answer>" + prompt.answer + "</answer>";
  EXPECT_THAT(sums(rewarded({{"puzzle", 1}}), {right, prompt.answer, "<think></think><answer>[[1]]</answer>"},
                   prompt),
              ElementsAre(1, 0, 0));
  EXPECT_THAT(sums(rewarded({{"puzzle_answer", 1}}), {right, prompt.answer}, prompt), ElementsAre(0, 1));
  // The format alone is a quarter, and that it can be read another one.
  EXPECT_THAT(
      sums(rewarded({{"puzzle_parts", 1}}), {right, "<think></think><answer>[[1]]</answer>", "?"}, prompt),
      ElementsAre(1, 0.5, 0));
}

class JudgeByProgram : public ::testing::Test {
 protected:
  ReinforceOptions program(const std::string& script) const {
    ReinforceOptions options = rewarded({{"program", 1}});
    write_text_atomically(folder_ / "judge.sh", script);
    options.program = "/bin/sh " + (folder_ / "judge.sh").string();
    return options;
  }
  std::string told(const ReinforceOptions& options) const {
    return refused([&] { sums(options, {"a", "b"}, question()); });
  }
  TemporaryFolder folder_;
};

TEST_F(JudgeByProgram, GetsALineForEachAnswer) {
  const auto options = program(
      "while read -r line; do case $line in *'\"response\":\"yes\"'*'\"answer\":\"7\"'*) echo 0.25;; *) echo "
      "-1;; esac; done\n");
  EXPECT_THAT(sums(options, {"yes", "no", "yes"}, question()), ElementsAre(0.25, -1, 0.25));
}

TEST_F(JudgeByProgram, WhatIsNoVerdictIsAnErrorAndNeverZero) {
  const auto where = AllOf(HasSubstr("reinforce.program, prompt 7 (sums)"));
  EXPECT_THAT(told(program("echo 1\necho nan\n")), AllOf(HasSubstr("a reward is not finite"), where));
  EXPECT_THAT(told(program("echo 1\necho inf\n")), HasSubstr("a reward is not finite"));
  EXPECT_THAT(told(program("echo 1\necho perhaps\n")),
              AllOf(HasSubstr("a verdict is no number"), HasSubstr("perhaps")));
  EXPECT_THAT(told(program("echo 1\n")),
              AllOf(HasSubstr("another number of verdicts"), HasSubstr("1 for 2 answers")));
  EXPECT_THAT(told(program("echo no room >&2\nexit 3\n")),
              AllOf(HasSubstr("exit code 3"), HasSubstr("no room")));
  EXPECT_THAT(told(program("kill -SEGV $$\n")), HasSubstr("exit code 139"));
}

TEST_F(JudgeByProgram, ThatHangsIsKilledWithAllItHasStarted) {
  ReinforceOptions options =
      program("sleep 1000 & echo $! > " + (folder_ / "child").string() + "\nsleep 1000\n");
  options.verifier_seconds = 0.3;
  EXPECT_THAT(told(options), HasSubstr("the verifier took longer than 0.3 s and was killed"));
  const std::string child = read_text(folder_ / "child");
  // A process that was killed is gone, or waits for its parent to notice.
  const std::filesystem::path status = "/proc/" + child.substr(0, child.size() - 1) + "/stat";
  const Stopwatch watch;
  const auto lives = [&] {
    std::error_code none;
    return std::filesystem::exists(status, none) && read_text(status).find(") Z") == std::string::npos;
  };
  while (lives() && watch.seconds() < 30) pause_briefly();
  EXPECT_FALSE(lives());
}

TEST_F(JudgeByProgram, ThatLeavesProcessesBehindIsTold) {
  EXPECT_THAT(told(program("sleep 1000 >/dev/null 2>&1 &\necho 1\necho 1\n")),
              HasSubstr("left processes behind, which were killed"));
}

TEST_F(JudgeByProgram, HasALimitOfMemory) {
  ReinforceOptions options =
      program("dd if=/dev/zero of=/dev/null bs=300M count=1 || exit 5\necho 1\necho 1\n");
  options.verifier_bytes = int64_t{64} << 20;
  EXPECT_THAT(told(options), HasSubstr("exit code 5"));
}

TEST(JudgeByServer, IsAskedForAllAnswersAtOnce) {
  std::string body, reply = R"({"scores": [1, 0.5]})";
  int status = 200;
  HttpServer server({.longest_body = 1 << 20}, [&](const HttpRequest& request) {
    body = request.body;
    HttpReply answer{.body = reply};
    answer.status = status;
    return answer;
  });
  ReinforceOptions options = rewarded({{"http", 1}});
  options.http = server.url() + "verify";
  EXPECT_THAT(sums(options, {"7", "8"}, question()), ElementsAre(1, 0.5));
  const auto asked = nlohmann::json::parse(body);
  EXPECT_EQ(asked["solution_strs"], (nlohmann::json{"7", "8"}));
  EXPECT_EQ(asked["data_sources"], (nlohmann::json{"sums", "sums"}));
  EXPECT_EQ(asked["ground_truths"], (nlohmann::json{"7", "7"}));
  const auto told = [&] { return refused([&] { sums(options, {"7", "8"}, question()); }); };
  reply = R"({"scores": [1]})";
  EXPECT_THAT(told(), HasSubstr("1 for 2 answers"));
  reply = R"({"scores": [1, null]})";
  EXPECT_THAT(told(), HasSubstr("a verdict is no number"));
  status = 422;
  EXPECT_THAT(told(), AllOf(HasSubstr("the verifier refused"), HasSubstr("422")));
}

}  // namespace
}  // namespace longhaul::posttrain
