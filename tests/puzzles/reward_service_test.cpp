// What trainers ask of the reward server, and what they are told. Puzzles and answers here are written by
// hand.
#include "puzzles/rewards/reward_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::puzzles {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// 1 2 3 4 / 3 4 1 2 / X 1 4 3 / 4 3 2 X
const char* const kGame =
    R"({"question": "?", "metadata": {"original_sudoku": [[1,2,3,4],[3,4,1,2],["X",1,4,3],[4,3,2,"X"]]}})";
const char* const kRight = "<think>so</think><answer>[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]</answer>";
const char* const kRightWithoutThought = "<answer>[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]</answer>";
const char* const kRightAfterOpenThink =
    "so</think><answer>[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]</answer>";
const char* const kTwice = "<think>so</think><answer>[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,2]]</answer>";
const char* const kChanged = "<think>so</think><answer>[[2,1,3,4],[3,4,1,2],[1,2,4,3],[4,3,2,1]]</answer>";

class Rewards : public ::testing::Test {
 protected:
  json ask(const json& body, int status = 200) { return ask_text(body.dump(), status); }
  json ask_text(const std::string& body, int status = 200) {
    const HttpReply reply = service_.answer({.method = "POST", .path = "/verify", .body = body});
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.type, "application/json");
    return json::parse(reply.body);
  }
  json extra() const { return {{"game_data_str", kGame}, {"index", 3}}; }
  json one(const std::string& response) const {
    return {
        {"data_source", "sudoku"}, {"solution_str", response}, {"ground_truth", ""}, {"extra_info", extra()}};
  }

  RewardService service_{RewardRules{}};
};

TEST_F(Rewards, OneAnswerAsVerlAsks) {
  const json right = ask(one(kRight));
  EXPECT_EQ(
      right,
      json::parse(
          R"({"score": 1.0, "accepted": true, "strict_format": true, "code": "accepted", "text": "", "task": "sudoku"})"));
  const json twice = ask(one(kTwice));
  EXPECT_EQ(twice["score"], 0.0);
  EXPECT_EQ(twice["code"], "rule_broken");
  EXPECT_EQ(twice["text"], "2 stands twice in row 4");
  EXPECT_EQ(ask(one(kChanged))["code"], "given_changed");
  EXPECT_EQ(ask(one("nothing"))["code"], "no_payload");
  json of_validation = one(kRight);
  of_validation["data_source"] = "val/sudoku";
  EXPECT_EQ(ask(of_validation)["score"], 1.0);
}

TEST_F(Rewards, ManyAnswersInEveryForm) {
  const json scores = {1.0, 0.0, 1.0};
  const json list = json::array({one(kRight), one(kTwice), one(kRight)});
  EXPECT_EQ(ask(list)["scores"], scores);
  const json verl = {{"data_sources", {"sudoku", "sudoku", "sudoku"}},
                     {"solution_strs", {kRight, kTwice, kRight}},
                     {"ground_truths", {nullptr, "", kGame}},
                     {"extra_infos", {extra(), extra(), nullptr}}};
  const json told = ask(verl);
  EXPECT_EQ(told["scores"], scores);
  EXPECT_EQ(told["verdicts"][1]["code"], "rule_broken");
  const json trl = {{"prompts", {"a", "b", "c"}},
                    {"completions", {kRight, kTwice, kRight}},
                    {"data_source", {"sudoku", "sudoku", "sudoku"}},
                    {"extra_info", {extra(), extra(), extra()}}};
  EXPECT_EQ(ask(trl)["scores"], scores);
  json messages = trl;
  messages["completions"] = {json::array({{{"role", "assistant"}, {"content", kTwice}},
                                          {{"role", "assistant"}, {"content", kRight}}}),
                             json::array({{{"role", "assistant"}, {"content", kTwice}}}),
                             json::array({{{"role", "assistant"}, {"content", kRight}}})};
  EXPECT_EQ(ask(messages)["scores"], scores);
  EXPECT_EQ(ask(json::array()), json::parse(R"({"scores": [], "verdicts": []})"));
}

TEST_F(Rewards, ThePuzzleMayStandInTheGroundTruth) {
  EXPECT_EQ(ask({{"data_source", "sudoku"}, {"solution_str", kRight}, {"ground_truth", kGame}})["score"],
            1.0);
  EXPECT_EQ(ask({{"data_source", "sudoku"},
                 {"solution_str", kTwice},
                 {"ground_truth", json::parse(kGame)}})["score"],
            0.0);
}

TEST_F(Rewards, WhatCannotBeJudgedHasNoScore) {
  const auto refused = [&](json body, const char* expected, const char* where) {
    const json told = ask(body, 422);
    EXPECT_FALSE(told.contains("score") || told.contains("scores")) << told;
    EXPECT_THAT(told["error"].dump(), HasSubstr(expected));
    EXPECT_THAT(told["error"]["where"].dump(), HasSubstr(where));
  };
  json unknown = one(kRight);
  unknown["data_source"] = "sudoko";
  refused(unknown, "did you mean sudoku", "the request");
  refused(json::array({one(kRight), unknown}), "there is no such puzzle", "answer 1");
  json no_puzzle = one(kRight);
  no_puzzle["extra_info"] = nullptr;
  refused(json::array({one(kRight), one(kRight), no_puzzle}), "the puzzle", "answer 2");
  json wrong_puzzle = one(kRight);
  wrong_puzzle["extra_info"]["game_data_str"] = R"({"metadata": {"original_sudoku": 3}})";
  refused(json::array({one(kRight), wrong_puzzle}), "original_sudoku", "answer 1");
  json no_answer = one(kRight);
  no_answer["solution_str"] = 7;
  refused(no_answer, "a text", "the request");
  refused({{"data_source", "sudoku"}}, "solution_str", "the request");
  refused(3, "solution_str", "the request");
  refused(json::array({3}), "an object", "answer 0");
  refused({{"completions", {kRight, kRight}}, {"data_source", {"sudoku"}}}, "a list of 2", "the request");
  EXPECT_THAT(ask_text("{\"data", 400)["error"]["expected"].dump(), HasSubstr("JSON"));
  std::string many = "[0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  EXPECT_THAT(ask_text(many + "]", 400)["error"]["expected"].dump(), HasSubstr("at most 1000000 values"));
  EXPECT_EQ(ask({{"data_source", "sudoku"},
                 {"solution_str", std::string(2'000'000, ',') + kRight},
                 {"ground_truth", kGame}})["score"],
            1.0)
      << "commas of a text are no values";
}

TEST_F(Rewards, TheFormatMayBeAskedForToo) {
  EXPECT_EQ(ask(one(kRightWithoutThought))["score"], 1.0);
  RewardService strict({.needs_format = true}), open({.needs_format = true, .think_is_open = true});
  const auto score = [&](RewardService& service, const char* response) {
    return json::parse(service.answer({.method = "POST", .path = "/verify", .body = one(response).dump()})
                           .body)["score"]
        .get<double>();
  };
  EXPECT_EQ(score(strict, kRight), 1);
  EXPECT_EQ(score(strict, kTwice), 0);
  EXPECT_EQ(score(strict, kRightWithoutThought), 0);
  EXPECT_EQ(score(strict, kRightAfterOpenThink), 0);
  EXPECT_EQ(score(open, kRightAfterOpenThink), 1);
  EXPECT_EQ(score(open, kRight), 0) << "the tag stands twice";
}

TEST_F(Rewards, TellsWhatItHasDone) {
  ask(json::array({one(kRight), one(kTwice), one(kRightWithoutThought)}));
  ask(3, 422);
  const json health = json::parse(service_.answer({.path = "/health"}).body);
  EXPECT_EQ(health["status"], "ok");
  EXPECT_EQ(health["requests"], 2);
  EXPECT_EQ(health["refused"], 1);
  EXPECT_EQ(health["of_task"],
            json::parse(R"({"sudoku": {"answers": 3, "accepted": 2, "strict_format": 2}})"));
  bool has_sudoku = false;
  for (const json& task : json::parse(service_.answer({.path = "/tasks"}).body))
    has_sudoku |= task["key"] == "sudoku";
  EXPECT_TRUE(has_sudoku);
}

TEST_F(Rewards, PathsAndMethods) {
  EXPECT_EQ(service_.answer({.path = "/verify"}).status, 405);
  EXPECT_EQ(service_.answer({.method = "POST", .path = "/health"}).status, 405);
  EXPECT_EQ(service_.answer({.path = "/"}).status, 404);
}

}  // namespace
}  // namespace longhaul::puzzles
