// ctest: label=multi timeout=300
// `longhaul puzzles` play, calibrate, generate --levels and grade as they are typed.
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/files/file.h"
#include "base/net/http_server.h"
#include "cli/started_program.h"
#include "puzzles/calibrate/calibrate.h"
#include "puzzles/mathador/mathador.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PuzzleCommands : public StartedProgram {
 protected:
  ProcessResult typed(const std::string& words, const std::string& input) const {
    return run_process({"sh", "-c", "printf '" + input + "' | " + program_file() + " puzzles " + words},
                       {"NO_COLOR=1"}, 60);
  }
  std::vector<nlohmann::json> lines_of(const std::string& name) const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(read_text(path(name)));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

TEST_F(PuzzleCommands, PlayReadsAPipe) {
  const ProcessResult shown = run({"puzzles", "show", "mathador", "--level", "0", "--json"});
  const std::string solution = nlohmann::json::parse(shown.output)["solution"];
  const ProcessResult solved = typed("play mathador --level 0", "1 + 1\\nhint\\n" + solution + "\\n");
  EXPECT_EQ(solved.status, 0) << solved.errors;
  EXPECT_THAT(solved.output, AllOf(HasSubstr("Not right ("), HasSubstr("The answer begins with"),
                                   HasSubstr("Right, with 2 answers and 1 hint.")));
  EXPECT_THAT(solved.output, Not(HasSubstr("> "))) << "nobody is asked in a pipe";
  const ProcessResult left = typed("play sudoku --level 0", "");
  EXPECT_EQ(left.status, 0) << left.errors;
  EXPECT_THAT(left.output, AllOf(HasSubstr("┌"), HasSubstr("The input has ended")));
  expect_error(run({"puzzles", "play", "sudoko"}), 64, "did you mean sudoku");
}

TEST_F(PuzzleCommands, PairsAreWrittenForPreferenceLearning) {
  ASSERT_EQ(run({"puzzles", "generate", "dyck_language", "--level", "2", "--count", "20", "--out",
                 path("made.jsonl")})
                .status,
            0);
  const ProcessResult texts = run({"puzzles", "pairs", path("made.jsonl"), "--out", path("pairs.jsonl")});
  EXPECT_EQ(texts.status, 0) << texts.errors;
  EXPECT_THAT(texts.output, HasSubstr("20 pairs in"));
  ASSERT_EQ(lines_of("pairs.jsonl").size(), 20u);
  EXPECT_NE(lines_of("pairs.jsonl")[0]["chosen"], lines_of("pairs.jsonl")[0]["rejected"]);
  EXPECT_EQ(run({"puzzles", "pairs", path("made.jsonl"), "--messages", "--out", path("said.jsonl")}).status,
            0);
  EXPECT_EQ(lines_of("said.jsonl")[0]["chosen"][0]["role"], "assistant");
  expect_error(run({"puzzles", "pairs", path("made.jsonl"), "--out", path("pairs.parquet")}), 64,
               "FILE.jsonl");
  ASSERT_EQ(run({"puzzles", "generate", "dyck_language", "--level", "2", "--count", "1", "--out",
                 path("one.jsonl")})
                .status,
            0);
  expect_error(run({"puzzles", "pairs", path("one.jsonl"), "--out", path("none.jsonl")}), 65,
               "no pair can be made");
}

// A server that solves mathador at level 0, one answer of two at level 1, and nothing above; it is out of
// order after so many answers.
class SolvingServer {
 public:
  explicit SolvingServer(int answers)
      : left_(answers),
        server_({.longest_body = 100'000}, [this](const HttpRequest& request) { return answer(request); }) {
    for (int64_t level = 0; level <= 2; ++level) {
      for (int64_t index = 0; index < 6; ++index) {
        const auto made = puzzles::make_puzzle(puzzles::mathador::kTask,
                                               puzzles::at_level(puzzles::mathador::kTask.knobs, level),
                                               puzzles::kValidationSeeds, index);
        if (!made) continue;
        const std::string question = puzzles::mathador::kTask.prompt(
            made->puzzle.given, puzzles::Language::kEnglish, puzzles::template_of(made->index));
        of_prompt_[puzzles::asked_prompt(question, puzzles::Language::kEnglish)] = {level,
                                                                                    made->puzzle.solution};
      }
    }
  }
  std::string url() const { return server_.url(); }
  void repair() { left_ = 1000; }
  int answered() const { return answered_; }

 private:
  HttpReply answer(const HttpRequest& request) {
    if (left_-- <= 0) return {.status = 503, .body = "out of order"};
    ++answered_;
    const auto json = nlohmann::json::parse(request.body);
    const auto found = of_prompt_.find(json["messages"][0]["content"].get<std::string>());
    if (found == of_prompt_.end()) return {.status = 400, .body = "unknown puzzle"};
    const auto& [level, solution] = found->second;
    const bool right = level == 0 || (level == 1 && json["seed"].get<int64_t>() % 2 == 0);
    const std::string content =
        "<think>so</think><answer>" + (right ? solution : std::string("7")) + "</answer>";
    return {.body = nlohmann::json{{"choices", {{{"message", {{"content", content}}}}}}}.dump()};
  }

  std::map<std::string, std::pair<int64_t, std::string>> of_prompt_;
  std::atomic<int> left_, answered_ = 0;
  HttpServer server_;
};

TEST_F(PuzzleCommands, CalibratedLevelsAreGenerated) {
  SolvingServer server(7);
  const std::vector<std::string> words = {
      "puzzles",  "calibrate", "mathador",  "--url", server.url(),       "--model", "m",
      "--levels", "0-2",       "--puzzles", "3",     "--answers",        "2",       "--at-once",
      "1",        "--retries", "0",         "--out", path("levels.json")};
  const ProcessResult broken = run(words);
  expect_error(broken, 69, "out of order");
  EXPECT_FALSE(std::filesystem::exists(path("levels.json")));
  server.repair();
  const ProcessResult whole = run(words);
  ASSERT_EQ(whole.status, 0) << whole.errors;
  EXPECT_EQ(server.answered(), 19) << "18 answers, and one whose puzzle had not been finished";
  EXPECT_THAT(whole.output,
              AllOf(HasSubstr("1.000 ± 0.000"), HasSubstr("0.500 ± 0.000"), HasSubstr("levels 1 to 1")));
  EXPECT_FALSE(std::filesystem::exists(path("levels.json.unfinished")));
  const auto levels = nlohmann::json::parse(read_text(path("levels.json")));
  EXPECT_EQ(levels["tasks"]["mathador"]["lower"], 1);

  write("band.json", R"({"tasks": {"mathador": {"lower": 2, "upper": 4}}})");
  const ProcessResult made = run({"puzzles", "generate", "mathador", "--levels", path("band.json"), "--count",
                                  "8", "--out", path("train.jsonl")});
  ASSERT_EQ(made.status, 0) << made.errors;
  std::map<int64_t, int64_t> of_level;
  std::set<std::string> hashes;
  for (const auto& line : lines_of("train.jsonl")) {
    ++of_level[line["level"].get<int64_t>()];
    hashes.insert(line["payload_hash"]);
    const ProcessResult again = run({"puzzles", "show", "mathador", "--level", line["level"].dump(),
                                     "--index", line["index"].dump(), "--json"});
    EXPECT_EQ(nlohmann::json::parse(again.output)["solution"], line["solution"])
        << "its level, seed and index make it again";
  }
  EXPECT_EQ(of_level, (std::map<int64_t, int64_t>{{2, 3}, {3, 3}, {4, 2}}));
  EXPECT_EQ(hashes.size(), 8u);
  expect_error(
      run({"puzzles", "generate", "sudoku", "--levels", path("band.json"), "--out", path("x.jsonl")}), 65,
      "no band of levels");
}

TEST_F(PuzzleCommands, ACheckpointIsCalibrated) {
  write("tiny.toml",
        "version = 1\n[model]\nlayers = 1\nhidden = 32\nheads = 2\nkv_heads = 1\nhead_dim = 16\nvocabulary = "
        "512\nmixers = [\"lightning\"]\n"
        "intermediate = 32\n[data]\nsource = [\"" +
            path("texts") +
            "\"]\ntokenizer = \"bytes\"\n[train]\nsteps = 1\ndtype = \"fp32\"\nbatch = 1\n"
            "micro_batch = 1\nsequence = 32\n");
  const ProcessResult trained = run({"train", path("tiny.toml"), "--run", path("run")});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const ProcessResult told =
      run({"puzzles", "calibrate", "dyck_language", "--checkpoint", path("run"), "--levels", "0", "--puzzles",
           "2", "--answers", "2", "--tokens", "4", "--out", path("levels.json")});
  ASSERT_EQ(told.status, 0) << told.errors;
  EXPECT_THAT(told.output, AllOf(HasSubstr("0.000 ± 0.000"), HasSubstr("too hard at every level")));
}

TEST_F(PuzzleCommands, SaysWhatCannotBeCalibrated) {
  const auto refused = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.begin(), {"puzzles", "calibrate", "--out", path("levels.json")});
    expect_error(run(words), 64, part);
  };
  refused({}, "--checkpoint");
  refused({"--url", "http://localhost:1"}, "--model");
  refused({"--url", "http://localhost:1", "--model", "m", "--levels", "3-11"}, "--levels 0-10");
  refused({"sudoko", "--url", "http://localhost:1", "--model", "m"}, "did you mean sudoku");
}

TEST_F(PuzzleCommands, ImportsPublicFiles) {
  std::filesystem::create_directory(path("arc"));
  write(
      "arc/a.json",
      R"({"train": [{"input": [[0, 1]], "output": [[1, 0]]}], "test": [{"input": [[0, 2]], "output": [[2, 0]]}]})");
  write("arc/b.json", R"({"train": [{"input": [[3]], "output": [[4]]}],
                         "test": [{"input": [[3, 3]], "output": [[4, 4]]}, {"input": [[0]], "output": [[0]]}]})");
  write("arc/notes.txt", "no puzzle");
  const ProcessResult imported =
      run({"puzzles", "import", "arc_agi", path("arc"), "--out", path("arc.jsonl")});
  ASSERT_EQ(imported.status, 0) << imported.errors;
  EXPECT_THAT(imported.output, HasSubstr("3 puzzles"));
  const std::vector<nlohmann::json> records = lines_of("arc.jsonl");
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0]["data_source"], "arc_agi");
  EXPECT_EQ(records[0]["solution"], "[[2, 0]]");
  EXPECT_EQ(records[0]["n_solutions"], 0);  // nothing is proved
  EXPECT_THAT(records[0]["prompt"][0]["content"].get<std::string>(), HasSubstr("Input: [[0, 2]]"));
  const ProcessResult judged = run({"puzzles", "verify", path("arc.jsonl")});
  EXPECT_EQ(judged.status, 0) << judged.errors;
  write("answers.jsonl",
        "\"<answer>[[2, 0]]</answer>\"\n\"<answer>[[4], [4]]</answer>\"\n\"<answer>[[0]]</answer>\"\n");
  const ProcessResult answers =
      run({"puzzles", "verify", path("arc.jsonl"), "--answers", path("answers.jsonl"), "--json"});
  EXPECT_THAT(answers.output, HasSubstr("\"code\":\"shape\"")) << answers.errors;
  const auto with_variants = [&](const char* out) {
    EXPECT_EQ(run({"puzzles", "import", "arc_agi", path("arc"), "--variants", "2", "--seed", "5", "--out",
                   path(out)})
                  .status,
              0);
    return lines_of(out);
  };
  const std::vector<nlohmann::json> variants = with_variants("more.jsonl");
  ASSERT_EQ(variants.size(), 9u);
  EXPECT_EQ(variants[0]["solution"], "[[2, 0]]");
  EXPECT_EQ(variants, with_variants("again.jsonl"));
  EXPECT_EQ(run({"puzzles", "verify", path("more.jsonl")}).status, 0);
  expect_error(run({"puzzles", "import", "zebra_puzzle", path("zebra.json"), "--variants", "1", "--out",
                    path("bad.jsonl")}),
               64, "--variants");
  write(
      "zebra.json",
      R"([{"puzzle": "There are 2 houses.", "solution": {"header": ["House", "Name"], "rows": [["1", "Tom"], ["2", "Ann"]]}}])");
  EXPECT_EQ(
      run({"puzzles", "import", "zebra_puzzle", path("zebra.json"), "--out", path("zebra.jsonl")}).status, 0);
  EXPECT_EQ(lines_of("zebra.jsonl").size(), 1u);
  write("arc/c.json",
        R"({"train": [{"input": [[10]], "output": [[4]]}], "test": [{"input": [[3]], "output": [[4]]}]})");
  expect_error(run({"puzzles", "import", "arc_agi", path("arc"), "--out", path("bad.jsonl")}), 65, "c.json");
  EXPECT_FALSE(std::filesystem::exists(path("bad.jsonl")));
  expect_error(run({"puzzles", "import", "sudoku", path("arc"), "--out", path("bad.jsonl")}), 64,
               "one of arc_agi, zebra_puzzle");
}

TEST_F(PuzzleCommands, GradesWithErrors) {
  write("aime.jsonl",
        "{\"problem\": \"6 * 34\", \"answer\": \"204\"}\n{\"problem\": \"?\", \"solution\": "
        "\"\\\\boxed{\\\\frac{3}{4}}\"}\n");
  write("answers.jsonl",
        "[\"\\\\boxed{204}\", \"The answer is 205.\"]\n{\"responses\": [\"<answer>0.75</answer>\", "
        "\"\\\\boxed{3/4}\"]}\n");
  const ProcessResult graded =
      run({"puzzles", "grade", path("aime.jsonl"), "--answers", path("answers.jsonl"), "--k", "1,2"});
  ASSERT_EQ(graded.status, 0) << graded.errors;
  EXPECT_THAT(graded.output,
              AllOf(HasSubstr("avg@2"), HasSubstr("0.750 ± 0.250"), HasSubstr("1.000 ± 0.000")));
  const ProcessResult json =
      run({"puzzles", "grade", path("aime.jsonl"), "--answers", path("answers.jsonl"), "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.output)["all"]["pass@2"]["mean"], 1.0);
  expect_error(run({"puzzles", "grade", path("aime.jsonl"), "--answers", path("answers.jsonl"), "--k", "3"}),
               64, "k from 1 to 2");
  write("short.jsonl", "\"a\"\n");
  expect_error(run({"puzzles", "grade", path("aime.jsonl"), "--answers", path("short.jsonl")}), 65,
               "2 lines, one for each problem");
}

}  // namespace
}  // namespace longhaul::cli
