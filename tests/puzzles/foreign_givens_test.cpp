// Puzzles of files that others wrote: whatever stands in a `given`, each function of a task takes it or says,
// as an error of data, which key is wrong, what is expected and what was found. Nothing else is thrown, and
// nothing is read that is not there.
#include <gtest/gtest.h>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

using Pointer = nlohmann::json::json_pointer;

// All places of a value, of long lists the first, the second and the last alone.
void add_places(const nlohmann::json& value, const Pointer& at, std::vector<Pointer>& places) {
  places.push_back(at);
  if (value.is_object()) {
    for (const auto& [key, each] : value.items()) add_places(each, at / key, places);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      if (i < 2 || i + 1 == value.size()) add_places(value[i], at / i, places);
    }
  }
}

std::vector<nlohmann::json> strange_values() {
  return {nullptr,
          true,
          -1,
          0,
          7,
          1'000'000'007,
          std::numeric_limits<int64_t>::min(),
          std::numeric_limits<uint64_t>::max(),
          2.5,
          "",
          "X",
          "no such thing",
          std::string(300, '('),
          nlohmann::json::array(),
          nlohmann::json::object(),
          nlohmann::json::array({1}),
          nlohmann::json::array({nlohmann::json::array()}),
          nlohmann::json::array({"a", "b", "c", "d", "e", "f", "g", "h"}),
          {{"key", 1}}};
}

class ForeignGiven {
 public:
  ForeignGiven(const TaskEntry& task, std::string solution) : task_(task), solution_(std::move(solution)) {}

  void judge(const nlohmann::json& given) {
    expect_data_error("verify", given, [&] { (void)task_.verify(given, solution_); });
    expect_data_error("canonical", given, [&] { (void)task_.canonical(given); });
    for (const Language language : {Language::kEnglish, Language::kChinese}) {
      expect_data_error("prompt", given, [&] { (void)task_.prompt(given, language, 1); });
      if (task_.in_language != nullptr)
        expect_data_error("in_language", given, [&] {
          (void)task_.in_language({given, solution_}, language);
        });
    }
    if (task_.count_solutions == nullptr) return;
    SearchBudget budget{.nodes = 500};
    expect_data_error("count_solutions", given, [&] { (void)task_.count_solutions(given, 2, budget); });
  }

  int64_t refused() const { return refused_; }

 private:
  template <class Body>
  void expect_data_error(const char* what, const nlohmann::json& given, const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      ++refused_;
      const ErrorFields& fields = error.fields();
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_TRUE(fields.what.find(task_.key) != std::string::npos || !fields.where.empty())
          << task_.key << " " << what << ": " << error.what();
      EXPECT_FALSE(fields.expected.empty()) << task_.key << " " << what << ": " << error.what();
      EXPECT_FALSE(fields.found.empty())
          << task_.key << " " << what << ": " << error.what() << " of " << given.dump().substr(0, 300);
    } catch (const std::exception& error) {
      ADD_FAILURE() << task_.key << " " << what << ": " << error.what() << " of "
                    << given.dump().substr(0, 300);
    }
  }

  const TaskEntry& task_;
  std::string solution_;
  int64_t refused_ = 0;
};

class PuzzleForeignGivens : public ::testing::TestWithParam<std::string> {};

TEST_P(PuzzleForeignGivens, AreTakenOrRefusedWithTheirKey) {
  const TaskEntry& task = task_named(GetParam());
  const MadePuzzle made = make_puzzle(task, at_level(task.knobs, 1), 5, 0).value();
  ForeignGiven foreign(task, made.puzzle.solution);
  std::vector<Pointer> places;
  add_places(made.puzzle.given, Pointer(), places);
  for (const Pointer& place : places) {
    for (const nlohmann::json& value : strange_values()) {
      nlohmann::json given = made.puzzle.given;
      given[place] = value;
      foreign.judge(given);
      if (::testing::Test::HasFailure())
        FAIL() << task.key << " at " << place.to_string() << ": " << value.dump().substr(0, 60);
    }
    if (place.empty()) continue;
    nlohmann::json given = made.puzzle.given;
    nlohmann::json& holder = given[place.parent_pointer()];
    if (holder.is_object()) {
      holder.erase(place.back());
    } else {
      holder.erase(static_cast<size_t>(std::stoull(place.back())));
    }
    foreign.judge(given);
    if (::testing::Test::HasFailure()) FAIL() << task.key << " without " << place.to_string();
  }
  EXPECT_GT(foreign.refused(), 50) << task.key;
}

std::vector<std::string> keys() {
  std::vector<std::string> all;
  for (const TaskEntry* task : tasks()) all.emplace_back(task->key);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Tasks, PuzzleForeignGivens, ::testing::ValuesIn(keys()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace longhaul::puzzles
