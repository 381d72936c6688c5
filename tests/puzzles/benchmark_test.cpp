// Benchmarks in the forms in which they are published, with problems and answers of our own; verdicts by
// hand.
#include "puzzles/grade/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "puzzles/grade/benchmark_results.h"

namespace longhaul::puzzles {
namespace {

using ::testing::HasSubstr;

class Benchmarks : public ::testing::Test {
 protected:
  std::vector<BenchmarkProblem> read(const std::string& text, const std::string& format = "") {
    write_text_atomically(folder_.path() / "file.jsonl", text);
    return read_benchmark(folder_.path() / "file.jsonl", format);
  }
  double share(const std::string& record, const std::string& response, const std::string& format = "") {
    const auto problems = read(record, format);
    return grade(problems.front(), format.empty() ? format_of(problems) : format, response).share;
  }
  std::string refused(const std::string& text, const std::string& format = "") {
    try {
      read(text, format);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      return error.what();
    }
    return "taken";
  }

  TemporaryFolder folder_;
};

TEST_F(Benchmarks, KorBench) {
  const char* const kOne = R"({"idx": "1", "question": "?", "answer": "[[X=12]]", "category": "operation"})";
  EXPECT_EQ(share(kOne, "so [[X=3]], no: [[X = 12]]"), 1) << "the last one counts, blanks do not";
  EXPECT_EQ(share(kOne, "so [[X=12]], no: [[X=3]]"), 0);
  EXPECT_EQ(share(kOne, "[[-12]]"), 0);
  EXPECT_EQ(share(kOne, "<think>[[X=12]]</think> I do not know"), 0);
  const char* const kAny = R"({"question": "?", "answer": "[[A]] or [[B]]", "category": "logic"})";
  EXPECT_EQ(share(kAny, "[[b]]"), 1);
  EXPECT_EQ(share(kAny, "[[C]]"), 0);
  const char* const kTwo = R"({"question": "?", "answer": "[[A]],[[B]]", "category": "logic"})";
  EXPECT_EQ(share(kTwo, "[[A]] and [[B]]"), 1);
  EXPECT_EQ(share(kTwo, "[[B]] and [[A]]"), 0);
  EXPECT_EQ(share(kTwo, "[[B]]"), 0);
  const char* const kPuzzle = R"({"question": "?", "answer": "[[1 2,3 4]]", "category": "puzzle"})";
  EXPECT_EQ(share(kPuzzle, "[[1 2\n3 4]]"), 1);
  EXPECT_EQ(share(kPuzzle, "[[1 2,4 3]]"), 0);
  EXPECT_EQ(share(R"({"question": "?", "answer": "[[-3]]", "category": "operation"})", "[[3]]"), 0)
      << "a sign is no ornament";
}

TEST_F(Benchmarks, BigBenchHard) {
  const auto bbh = [&](const char* target, const char* response) {
    return share(nlohmann::json{{"input", "?"}, {"target", target}}.dump(), response);
  };
  EXPECT_EQ(bbh("(B)", "So the answer is (B)."), 1);
  EXPECT_EQ(bbh("(B)", "The answer is B."), 1);
  EXPECT_EQ(bbh("(B)", "The answer is (A). Wait: the answer is (b)"), 1);
  EXPECT_EQ(bbh("(B)", "(B)"), 0) << "nothing says that this is the answer";
  EXPECT_EQ(bbh("True", "<answer>true</answer>"), 1);
  EXPECT_EQ(bbh("True", "The answer is not True."), 0);
  EXPECT_EQ(bbh("24", "**Answer:** 24"), 1);
  EXPECT_EQ(bbh("24", "\\boxed{24.0}"), 1);
  EXPECT_EQ(bbh("24", "The answer is 2"), 0);
  EXPECT_EQ(bbh("apple, pear", "The answer is apple,pear"), 1);
  EXPECT_EQ(bbh("] ) }", "The answer is ] ) }"), 1);
  const auto problems =
      read(R"({"canary": "x", "examples": [{"input": "a", "target": "1"}, {"input": "b", "target": 2}]})");
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[1].group, "file");
  EXPECT_TRUE(grade(problems[1], "bbh", "The answer is 2.").right());
}

TEST_F(Benchmarks, BigBenchExtraHardIsMoreLenient) {
  const char* const kList = R"({"input": "?", "target": "1, 3"})";
  EXPECT_EQ(share(kList, "The answer is: [1,3]", "bbeh"), 1);
  EXPECT_EQ(share(kList, "The answer is: [1,3]", "bbh"), 0);
  EXPECT_EQ(share(R"({"input": "?", "target": "it's"})", "The answer is its", "bbeh"), 1);
  EXPECT_EQ(share(kList, "The answer is: [1,2]", "bbeh"), 0);
}

TEST_F(Benchmarks, ZebraLogicCountsCells) {
  const char* const kZebra =
      R"({"id": "1", "size": "2*2", "puzzle": "?", "solution": {"header": ["House", "Name", "Pet"], "rows": [["1", "Ann", "cat"], ["2", "Bob", "dog"]]}})";
  EXPECT_EQ(
      share(
          kZebra,
          R"(so {"reasoning": "…", "solution": {"House 1": {"Name": "ann", "Pet": "Cat"}, "House 2": {"Name": "Bob", "Pet": "dog"}}} it is)"),
      1);
  EXPECT_EQ(share(kZebra, R"(```json
{"House 1": {"Name": "Ann", "Pet": "dog"}, "House 2": {"Name": "Bob", "Pet": "cat"}}
```)"),
            0.5);
  EXPECT_EQ(share(kZebra, R"({"House 1": {"Name": "Ann"}})"), 0.25);
  EXPECT_EQ(
      share(
          kZebra,
          R"({"House 1": {"Name": "Ann", "Pet": "cat"}, "House 2": {"Name": "Bob", "Pet": "dog"}} or {"House 1": 3})"),
      0);
  EXPECT_EQ(share(kZebra, std::string(100'000, '}')), 0);
  EXPECT_FALSE(grade(read(kZebra).front(), "zebra-logic", "Ann has the cat").answered);
}

TEST_F(Benchmarks, Mathematics) {
  const char* const kSolution =
      R"({"problem": "?", "solution": "It is \\boxed{\\frac{1}{2}}.", "subject": "Algebra"})";
  EXPECT_EQ(share(kSolution, "so $\\boxed{0.5}$"), 1);
  EXPECT_EQ(share(kSolution, "\\boxed{1} … \\boxed{\\frac{2}{4}} and \\boxed{3"), 1) << "the last whole one";
  EXPECT_EQ(share(kSolution, "<think>\\boxed{0.5}</think>\\boxed{0.6}"), 0);
  EXPECT_EQ(share(kSolution, "<answer>\\boxed{1/2}</answer>"), 1);
  EXPECT_EQ(share(kSolution, "0.5"), 0);
  EXPECT_EQ(share(R"({"question": "?", "answer": 204})", "The answer is 204."), 1);
  EXPECT_EQ(share(R"({"question": "?", "answer": "025"})", "\\boxed{25}"), 1);
  EXPECT_EQ(read(kSolution).front().group, "Algebra");
}

TEST_F(Benchmarks, BadFilesAreToldByLineAndField) {
  EXPECT_THAT(refused("{\"problem\": \"?\", \"answer\": 1}\n\n{\"problem\": \"?\"}\n"),
              HasSubstr("file.jsonl:3"));
  EXPECT_THAT(refused("{\"problem\": \"?\", \"answer\": 1}\n{\n"), HasSubstr("file.jsonl:2"));
  EXPECT_THAT(refused("[3]"), HasSubstr("an object"));
  EXPECT_THAT(refused(""), HasSubstr("none"));
  EXPECT_THAT(refused("{\"a\": 1}"), HasSubstr("--format"));
  EXPECT_THAT(refused("{\"input\": \"?\"}", "bbh"), HasSubstr("target"));
  EXPECT_THAT(refused(R"({"problem": "?", "solution": "no box"})"), HasSubstr("boxed"));
}

TEST_F(Benchmarks, ResultsAreToldByGroup) {
  const auto problems = read(
      R"([{"problem": "?", "answer": 1, "subject": "a"}, {"problem": "?", "answer": 2, "subject": "a"}, {"problem": "?", "answer": 3, "subject": "b"}])");
  const BenchmarkResults results = grade_all(
      problems, "math", {{"\\boxed{1}", "\\boxed{2}"}, {"\\boxed{2}", "\\boxed{2}"}, {"none", "\\boxed{4}"}},
      "answers");
  EXPECT_DOUBLE_EQ(average(results.groups.at("a").problems).mean, 0.75);
  EXPECT_DOUBLE_EQ(average(results.all.problems).mean, 0.5);
  EXPECT_DOUBLE_EQ(pass_at_k(results.all.problems, 2).mean, 2.0 / 3);
  EXPECT_EQ(results.all.answers, 6);
  EXPECT_EQ(results.all.answered, 5);
  EXPECT_THROW(grade_all(problems, "math", {{"1"}}, "answers"), Error);
  EXPECT_EQ(read_responses(R"({"response": ["a", "b"]})", "x").size(), 2u);
  EXPECT_EQ(read_responses(R"("a")", "x").size(), 1u);
  for (const char* bad : {"[]", "3", "{}", R"(["a", 3])", "{\"response\": []}"})
    EXPECT_THROW(read_responses(bad, "x"), Error) << bad;
}

}  // namespace
}  // namespace longhaul::puzzles
