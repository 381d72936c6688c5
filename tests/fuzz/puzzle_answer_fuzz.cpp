// Fuzz target of answers to puzzles: any text as a model's whole response, and as the payload of puzzles of
// every task. Nothing throws, without a pair of tags there is no payload, and a reward needs the format and
// an accepted answer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "puzzles/engine/answers/answer.h"
#include "puzzles/grade/benchmark.h"
#include "puzzles/grade/math_answer.h"
#include "puzzles/maker.h"
#include "puzzles/records.h"
#include "puzzles/score.h"
#include "puzzles/tasks.h"

// The graders of benchmarks read the same bytes. What a text is, it is equal to.
static void grade_all_forms(const std::string& text) {
  using namespace longhaul::puzzles;
  static const std::vector<std::pair<const char*, BenchmarkProblem>> kProblems = {
      {"kor-bench", {"puzzle", {{"answer", "[[1 2]]"}}, "x"}},
      {"bbeh", {"x", {{"input", "?"}, {"target", "(A)"}}, "x"}},
      {"math", {"x", {{"problem", "?"}, {"answer", "\\frac{1}{2}"}}, "x"}},
      {"zebra-logic",
       {"x",
        {{"solution",
          {{"header", {"House", "Name"}},
           {"rows", nlohmann::json::parse(R"([["1", "Ann"], ["2", "Bob"]])")}}}},
        "x"}}};
  for (const auto& [format, problem] : kProblems) grade(problem, format, text);
  if (same_math_answer(text, "17") != same_math_answer("17", text)) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::puzzles;
  static const std::vector<ReadRecord> records = [] {
    std::vector<ReadRecord> all;
    for (const TaskEntry* task : tasks()) {
      for (const int64_t level : {0, 5}) {
        if (auto made = make_puzzle(*task, at_level(task->knobs, level), 1, 0))
          all.push_back({.task = task, .given = made->puzzle.given});
      }
    }
    return all;
  }();
  const std::string text(reinterpret_cast<const char*>(data), size);
  grade_all_forms(text);
  const auto payload = payload_of(text);
  if (payload && text.find("</answer>") == std::string::npos) std::abort();
  for (const ReadRecord& record : records) {
    record.task->verify(record.given, text);
    const Verdict verdict = verdict_on(record, text);
    if (verdict.accepted() && !payload) std::abort();
    const Score score = score_of(text, verdict);
    if ((score.reward() == 1) != (score.cascade() == 1)) std::abort();
  }
  return 0;
}
