#include "control/driver/status_answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/wire/messages.h"

namespace longhaul::control {
namespace {

nlohmann::ordered_json status_of(int64_t ranks, int64_t incidents) {
  nlohmann::ordered_json status{
      {"run", "r"}, {"ranks", nlohmann::json::array()}, {"incidents", nlohmann::json::array()}};
  for (int64_t rank = 0; rank < ranks; ++rank)
    status["ranks"].push_back({{"rank", rank}, {"text", std::string(800, 'r')}});
  for (int64_t id = 0; id < incidents; ++id)
    status["incidents"].push_back({{"id", id}, {"text", std::string(3000, '"')}});
  return status;
}

TEST(StatusAnswer, AShortOneIsWhole) {
  const auto status = status_of(4, 3);
  const Answer answer = answer_from_text(status_answer(status), "test");
  EXPECT_TRUE(answer.good);
  EXPECT_EQ(nlohmann::ordered_json::parse(answer.text), status);
}

// A thousand ranks take 0.85 MB of a frame of 1 MiB. The newest incidents are those that are asked for.
TEST(StatusAnswer, ALongOneFitsIntoAFrame) {
  const auto status = status_of(1000, 100);
  const std::string text = status_answer(status);
  EXPECT_LE(text.size(), kFrameLimit - 1024);
  const Answer answer = answer_from_text(text, "test");
  EXPECT_TRUE(answer.good);
  const auto told = nlohmann::ordered_json::parse(answer.text);
  EXPECT_EQ(told.at("ranks").size(), 1000);
  const auto& incidents = told.at("incidents");
  ASSERT_GT(incidents.size(), 5);
  ASSERT_LT(incidents.size(), 100);
  EXPECT_EQ(incidents.back().at("id"), 99);
  EXPECT_EQ(incidents.front().at("id"), 100 - incidents.size()) << "none between them is missing";
}

TEST(StatusAnswer, OneThatCannotFitSaysWhereItIs) {
  const Answer answer = answer_from_text(status_answer(status_of(2000, 2)), "test");
  EXPECT_FALSE(answer.good);
  EXPECT_NE(answer.text.find("control/status.json"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::control
