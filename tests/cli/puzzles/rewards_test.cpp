// ctest: label=multi timeout=200
// `longhaul puzzles serve-rewards` as trainers use it: the module of docs/puzzles.md, run by Python against
// the server; and its end.
#include <nlohmann/json.hpp>
#include <regex>

#include "base/files/file.h"
#include "cli/started_program.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

class PuzzleRewards : public StartedProgram {
 protected:
  // The one block of Python that stands under the heading.
  std::string module_of_docs() const {
    const std::string page = read_text(source_folder() + "/docs/puzzles.md");
    const size_t begin = page.find("```python\n", page.find("## Rewards for other trainers"));
    if (begin == std::string::npos) return "no Python in docs/puzzles.md";
    const size_t from = begin + std::string("```python\n").size();
    return page.substr(from, page.find("```", from) - from);
  }
};

// Waits for the server's first line, has the module score answers, then ends the server and prints what it
// said.
constexpr const char* kDrive = R"(
import json, os, signal, subprocess, sys
server = subprocess.Popen([sys.argv[1], "puzzles", "serve-rewards", "--port", "0"], stdout=subprocess.PIPE, text=True)
try:
    os.environ["PUZZLE_REWARDS"] = server.stdout.readline().split()[0].removesuffix("/verify")
    import puzzle_rewards
    rows = [json.loads(line) for line in open("puzzles.jsonl")]
    def scores(answer):
        return [puzzle_rewards.compute_score(data_source=row["data_source"], solution_str=answer(row),
                                             ground_truth=row["reward_model"]["ground_truth"], extra_info=row["extra_info"]) for row in rows]
    right = lambda row: "<think>so</think><answer>" + row["solution"] + "</answer>"
    columns = {name: [row[name] for row in rows] for name in ("data_source", "extra_info", "level")}
    told = {"right": scores(right), "wrong": scores(lambda row: "<answer>[[9]]</answer>"),
            "trl": puzzle_rewards.puzzle_reward(prompts=["?"] * len(rows), completions=[right(row) for row in rows], **columns),
            "chat": puzzle_rewards.puzzle_reward(completions=[[{"role": "assistant", "content": right(row)}] for row in rows], **columns)}
    try:
        puzzle_rewards.compute_score("chess", "e4", "", {})
    except ValueError as error:
        told["chess"] = str(error)
finally:
    server.send_signal(signal.SIGTERM)
    told["rest"], told["status"] = server.stdout.read(), server.wait()
print(json.dumps(told))
)";

TEST_F(PuzzleRewards, TheModuleOfTheDocumentationScoresAnswers) {
  write("puzzle_rewards.py", module_of_docs());
  write("drive.py", kDrive);
  ASSERT_EQ(run({"puzzles", "generate", "sudoku", "mathador", "--count", "3", "--level", "1", "--out",
                 path("puzzles.jsonl")})
                .status,
            0);
  const ProcessResult driven = run_process(
      {"sh", "-c", "cd '" + folder_.path().string() + "' && python3 drive.py " + program_file()}, {}, 100);
  ASSERT_EQ(driven.status, 0) << driven.errors;
  const nlohmann::json told = nlohmann::json::parse(driven.output);
  ASSERT_EQ(told["right"].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(told["right"][i],
              nlohmann::json::parse(R"({"score": 1.0, "accepted": 1.0, "strict_format": 1.0})"));
    EXPECT_EQ(told["wrong"][i],
              nlohmann::json::parse(R"({"score": 0.0, "accepted": 0.0, "strict_format": 0.0})"));
  }
  EXPECT_EQ(told["trl"], nlohmann::json::parse("[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]"));
  EXPECT_EQ(told["chat"], told["trl"]);
  EXPECT_THAT(told["chess"].get<std::string>(), HasSubstr("there is no such puzzle"));
  EXPECT_EQ(told["status"], 0);
  EXPECT_THAT(told["rest"].get<std::string>(), HasSubstr("ended: 24 answers in 15 requests, 18 accepted"));
}

TEST_F(PuzzleRewards, SaysWhatIsWrong) {
  write("token", "0123456789abcdef\n");
  expect_error(run({"puzzles", "serve-rewards", "--port", "0", "--token-file", path("token")}), 64,
               "its owner alone");
  expect_error(run({"puzzles", "serve-rewards", "--port", "65536"}), 64, "--port");
  expect_error(run({"puzzles", "serve-rewards", "--port", "0", "--score", "half"}), 64,
               "format-and-accuracy");
}

}  // namespace
}  // namespace longhaul::cli
