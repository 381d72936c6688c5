// Levels for models that are pretended here: functions, and a small server of chat completions.
#include "puzzles/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/net/http_server.h"
#include "base/process/signals.h"
#include "puzzles/calibrate/chat_model.h"
#include "puzzles/mathador/mathador.h"
#include "puzzles/sudoku/sudoku.h"

namespace longhaul::puzzles {
namespace {

using ::testing::HasSubstr;

LevelResult level_of(int64_t level, const std::vector<Tried>& puzzles) {
  return {.level = level, .puzzles = puzzles};
}

template <class Work>
std::string calibration_error(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CalibrationBand, LiesBetweenTooEasyAndUnsolved) {
  const std::vector<LevelResult> levels = {level_of(0, {{10, 10}, {10, 9}}), level_of(1, {{10, 6}, {10, 5}}),
                                           level_of(2, {{10, 5}, {10, 5}}),  // 0.95, 0.55, 0.5
                                           level_of(3, {{10, 1}, {10, 0}}),  // pass@10: 0.5
                                           level_of(4, {{10, 0}, {10, 0}})};
  EXPECT_EQ(lower_level(levels), 2);
  EXPECT_EQ(upper_level(levels), 3);
  // One of twenty puzzles solved once: pass@10 is 0.05, which is no more than noise.
  std::vector<Tried> rarely(20, Tried{10, 0});
  rarely[3].accepted = 1;
  EXPECT_EQ(upper_level({level_of(0, rarely)}), std::nullopt);
  rarely[4].accepted = 1;
  EXPECT_EQ(upper_level({level_of(0, rarely)}), 0);
  EXPECT_EQ(lower_level({level_of(0, {{10, 0}})}), std::nullopt);
  EXPECT_EQ(lower_level({level_of(0, {{10, 9}})}), std::nullopt);
}

class Calibrating : public ::testing::Test {
 protected:
  CalibrateSettings settings(std::vector<const TaskEntry*> tasks) const {
    return {.tasks = std::move(tasks),
            .easiest = 0,
            .hardest = 2,
            .puzzles = 4,
            .answers = 3,
            .model = {{"name", "pretended"}},
            .journal = folder_.path() / "levels.json.unfinished"};
  }
  // The answers of a model that solves the puzzles of levels below `solves`, one answer of three at that
  // level, none above. It looks the puzzle up.
  std::vector<std::string> answers(const std::string& prompt, int64_t count, int64_t solves) {
    ++asked_;
    std::vector<std::string> all;
    for (int64_t level = 0; level <= 2; ++level) {
      for (int64_t index = 0; index < 4; ++index) {
        const auto made =
            make_puzzle(mathador::kTask, at_level(mathador::kTask.knobs, level), kValidationSeeds, index);
        if (!made ||
            asked_prompt(mathador::kTask.prompt(made->puzzle.given, Language::kEnglish, template_of(index)),
                         Language::kEnglish) != prompt)
          continue;
        for (int64_t i = 0; i < count; ++i) {
          const bool right = level < solves || (level == solves && i == 0);
          all.push_back("<think>so</think><answer>" + (right ? made->puzzle.solution : std::string("1 + 1")) +
                        "</answer>");
        }
        return all;
      }
    }
    ADD_FAILURE() << "no puzzle of validation: " << prompt;
    return std::vector<std::string>(static_cast<size_t>(count));
  }

  TemporaryFolder folder_;
  std::atomic<int> asked_ = 0;
};

TEST_F(Calibrating, CountsWhatIsAccepted) {
  for (const int64_t at_once : {1, 3}) {
    CalibrateSettings with = settings({&mathador::kTask});
    with.at_once = at_once;
    std::atomic<int> told = 0;
    const Calibration all = calibrate(
        with, [&](const std::string& prompt, int64_t count, uint64_t) { return answers(prompt, count, 1); },
        [&] { ++told; });
    const TaskLevels& mathador = all.at("mathador");
    ASSERT_EQ(mathador.levels.size(), 3u);
    const double rates[] = {1, 1.0 / 3, 0};
    for (size_t level = 0; level < 3; ++level) {
      EXPECT_DOUBLE_EQ(average(mathador.levels[level].puzzles).mean, rates[level]);
      EXPECT_EQ(mathador.levels[level].strict_format, 12);
    }
    EXPECT_EQ(mathador.lower, 1);
    EXPECT_EQ(mathador.upper, 1);
    EXPECT_EQ(told, 12);
    std::filesystem::remove(with.journal);
  }
}

TEST_F(Calibrating, GoesOnWhereItWasKilled) {
  const CalibrateSettings with = settings({&mathador::kTask});
  const auto dies = [&](const std::string& prompt, int64_t count, uint64_t) {
    if (asked_ == 5) throw Error({.what = "killed"});
    return answers(prompt, count, 1);
  };
  EXPECT_THAT(calibration_error([&] { calibrate(with, dies); }), HasSubstr("killed"));
  {
    File half = File::open(with.journal, File::Mode::kAppend);
    half.write("[\"mathador\", 1, 1, 3,");  // as a process leaves it that is killed while it writes
  }
  std::atomic<int> told = 0;
  const Calibration all = calibrate(
      with, [&](const std::string& prompt, int64_t count, uint64_t) { return answers(prompt, count, 1); },
      [&] { ++told; });
  EXPECT_EQ(asked_, 12) << "what was finished is not asked again";
  EXPECT_EQ(told, 12);
  EXPECT_DOUBLE_EQ(average(all.at("mathador").levels[1].puzzles).mean, 1.0 / 3);
  EXPECT_EQ(all.at("mathador").levels[0].strict_format, 12);
  calibrate(with, [&](const std::string&, int64_t, uint64_t) -> std::vector<std::string> {
    throw Error({.what = "asked again"});
  });
}

TEST_F(Calibrating, AnotherCalibrationDoesNotGoOnWithIt) {
  CalibrateSettings with = settings({&mathador::kTask});
  const auto ask = [&](const std::string& prompt, int64_t count, uint64_t) {
    return answers(prompt, count, 1);
  };
  calibrate(with, ask);
  with.answers = 2;
  EXPECT_THAT(calibration_error([&] { calibrate(with, ask); }), HasSubstr("other settings"));
  write_text_atomically(with.journal, "{}\n");
  EXPECT_THAT(calibration_error([&] { calibrate(with, ask); }), HasSubstr("other settings"));
}

TEST_F(Calibrating, ItsFileIsReadAgain) {
  const CalibrateSettings with = settings({&mathador::kTask});
  Calibration all = calibrate(
      with, [&](const std::string& prompt, int64_t count, uint64_t) { return answers(prompt, count, 1); });
  all["sudoku"] = {.levels = {level_of(0, {{10, 0}, {10, 0}})}};
  const std::filesystem::path file = folder_.path() / "levels.json";
  const nlohmann::ordered_json json = calibration_json(with, all);
  EXPECT_EQ(json["tasks"]["mathador"]["levels"][0]["pass_rate"], nlohmann::ordered_json::parse("[1.0, 0.0]"));
  write_text_atomically(file, json.dump());
  const auto bands = read_bands(file);
  ASSERT_EQ(bands.size(), 1u) << "sudoku has no band";
  EXPECT_EQ(bands.at("mathador").lower, 1);
  EXPECT_EQ(bands.at("mathador").upper, 1);
  write_text_atomically(
      file, R"({"tasks": {"mathador": {"lower": 4, "upper": 7}, "sudoku": {"lower": 2, "upper": null}}})");
  take_upper_levels(all, file);
  EXPECT_EQ(all["mathador"].lower, 1);
  EXPECT_EQ(all["mathador"].upper, 7);
  EXPECT_EQ(all["sudoku"].upper, std::nullopt);
  write_text_atomically(file, R"({"tasks": {"mathador": {"lower": 1, "upper": 11}}})");
  EXPECT_THAT(calibration_error([&] { read_bands(file); }), HasSubstr("mathador/upper"));
}

TEST(ChatModelAddress, MayEndInTheVersionOrNot) {
  for (const char* url :
       {"http://h:8000", "http://h:8000/", "http://h:8000/v1", "http://h:8000/v1/chat/completions"})
    EXPECT_EQ(chat_address(url).path, "/v1/chat/completions") << url;
}

// A server that is busy twice, and then answers with what it was asked.
TEST(ChatModelAnswers, AreAskedForAgainWhereTheServerIsBusy) {
  std::atomic<int> busy = 2, asked = 0;
  const HttpServer server({.longest_body = 100'000}, [&](const HttpRequest& request) {
    ++asked;
    if (busy-- > 0) return HttpReply{.status = 503, .body = "later"};
    const auto json = nlohmann::json::parse(request.body);
    const std::string content = json["model"].get<std::string>() + "|" +
                                json["messages"][0]["content"].get<std::string>() + "|" +
                                json["seed"].dump() + "|" + json["max_tokens"].dump() + "|" + request.path;
    return HttpReply{.body = nlohmann::json{{"choices", {{{"message", {{"content", content}}}}}}}.dump()};
  });
  ChatModel model{.address = chat_address(server.url()), .model = "m", .tokens = 7, .first_pause_s = 0.001};
  EXPECT_EQ(
      chat_answers(model, "why?", 2, 40),
      (std::vector<std::string>{"m|why?|40|7|/v1/chat/completions", "m|why?|41|7|/v1/chat/completions"}));
  EXPECT_EQ(asked, 4);
  busy = 2;
  model.retries = 1;
  EXPECT_THAT(calibration_error([&] { chat_answers(model, "why?", 1, 0); }), HasSubstr("within 2 tries"));
}

TEST(ChatModelAnswers, WhatIsRefusedIsSaidWithTheServersWords) {
  int status = 404;
  std::string body = "no model of that name";
  const HttpServer server({.token = "key", .longest_body = 100'000},
                          [&](const HttpRequest&) { return HttpReply{.status = status, .body = body}; });
  ChatModel model{.address = chat_address(server.url()), .model = "m", .key = "key", .retries = 0};
  EXPECT_THAT(calibration_error([&] { chat_answers(model, "?", 1, 0); }), HasSubstr("no model of that name"));
  status = 200;
  body = R"({"choices": []})";
  EXPECT_THAT(calibration_error([&] { chat_answers(model, "?", 1, 0); }),
              HasSubstr("choices[0].message.content"));
  body = R"({"choices": [{"message": {"content": null}}]})";
  EXPECT_EQ(chat_answers(model, "?", 1, 0), std::vector<std::string>{""});
  model.key = "";
  EXPECT_THAT(calibration_error([&] { chat_answers(model, "?", 1, 0); }), HasSubstr("401"));
}

}  // namespace
}  // namespace longhaul::puzzles
