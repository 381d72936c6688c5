// The program itself, started as a user starts it: exit codes, messages, and the forms that scripts rely on.
// ctest: label=full timeout=600
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/register.h"
#include "cli/started_program.h"
#include "storage/commit.h"
#include "support/text.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Program : public StartedProgram {};

TEST_F(Program, BadCommandLinesAre64AndNameTheNearest) {
  expect_error(run({"tokeniser", "train"}), 64, "longhaul tokenizer");
  expect_error(run({"checkpoint", "verfy", "x"}), 64, "longhaul checkpoint verify");
  expect_error(run({"config", "show", path("recipe.toml"), "--jsn"}), 64, "did you mean --json?");
  expect_error(run({"checkpoint"}), 64, "longhaul checkpoint --help");
  expect_error(run({"config", "show"}), 64, "RECIPE");
  expect_error(run({"tokenizer", "train", "--vocabulary", "many", "--out", "t", "p"}), 64, "many");
  expect_error(run({"test", "fast"}), 64, "./longhaul test");
  EXPECT_EQ(run({}).status, 64);
}

TEST_F(Program, NumbersAndPathsThatCannotBeMeantAreRefused) {
  const auto refused = [&](std::vector<std::string> words, const std::string& part) {
    const ProcessResult result = run(std::move(words));
    expect_error(result, 64, part);
    EXPECT_LT(result.errors.size(), 600u) << result.errors;  // no limit of 309 digits
    EXPECT_EQ(result.output, "");
  };
  refused({"sample", "run", "--seed", "-1"}, "--seed: -1 is not a whole number of at least 0");
  refused({"sample", "run", "--seed", "18446744073709551616"},
          "--seed: 18446744073709551616 does not fit into 64 bits");
  refused({"sample", "run", "--tokens", "99999999999999999999"}, "does not fit into 64 bits");
  refused({"sample", "run", "--tokens", "-1"}, "--tokens: -1 is not a whole number of at least 0");
  refused({"sample", "run", "--tokens", "5x"}, "5x");
  refused({"sample", "run", "--tokens", "1e2"}, "1e2");
  refused({"sample", "run", "--top-p", "0"}, "--top-p: 0 is not a number above 0 and at most 1");
  refused({"sample", "run", "--temperature", "nan"}, "--temperature: nan is not a number from 0 to 1000");
  refused({"sample", "run", "--tokens", "3", "--min-tokens", "4"}, "--min-tokens 4");
  refused({"checkpoint", "prune", "run", "--keep", "0"}, "--keep: 0 is not a whole number from 1 to");
  refused({"bench", "train", "--batch", "0"}, "--batch: 0 is not a whole number of at least 1");
  refused({"bench", "train", "--dtype", "fp16"}, "fp16");
  refused({"train", path("recipe.toml"), "--run", ""}, "--run: it is empty");
  refused({"score", "run", "--ids", "", "--out", "o"}, "--ids: it is empty");
}

TEST_F(Program, RecipesThatComeWithItAreFoundByName) {
  const ProcessResult shown = run({"config", "show", "first-run"});
  EXPECT_EQ(shown.status, 0) << shown.errors;
  EXPECT_THAT(shown.output, HasSubstr("recipes/first-run.toml:"));
  EXPECT_EQ(run({"config", "check", "minimax/1-pretrain"}).status, 0);
  expect_error(run({"config", "show", "frist-run"}), 64, "try       first-run");
  // A file of that name comes first.
  write("first-run", "version = 1\n[train]\nsteps = 7\n");
  const ProcessResult own = run_process(
      {"bash", "-c", "cd \"$1\" && \"$2\" config show first-run", "bash", path(""), program_file()},
      {cache_variable(path("cache")), "NO_COLOR=1"}, 180);
  EXPECT_EQ(own.status, 0) << own.errors;
  EXPECT_THAT(own.output, HasSubstr("first-run:3"));
  EXPECT_THAT(own.output, Not(HasSubstr("first-run.toml:")));
}

// A log on a full disk (nohup … > log 2>&1) takes nothing from what the program's code says: of a result that
// cannot be written too.
TEST_F(Program, ExitCodesAreTheSameWhereNothingCanBeSaid) {
  const auto unsaid = [&](const std::string& streams, const std::vector<std::string>& words) {
    std::vector<std::string> shell = {"bash", "-c", "\"$@\" " + streams, "bash", program_file()};
    shell.insert(shell.end(), words.begin(), words.end());
    return run_process(shell, {cache_variable(path("cache")), "NO_COLOR=1"}, 180).status;
  };
  EXPECT_EQ(unsaid("> /dev/full 2>&1", {"config", "check", path("none.toml")}), 64);
  EXPECT_EQ(unsaid("2> /dev/full", {"--no-such-option"}), 64);
  EXPECT_EQ(unsaid("2> /dev/full", {"checkpoint", "list", path("none")}), 66);
  EXPECT_EQ(unsaid("> /dev/full 2>&1", {"config", "show", path("recipe.toml")}), 73);
  EXPECT_EQ(unsaid("> /dev/full", {"--help"}), 73);
  EXPECT_EQ(unsaid("2> /dev/full", {"config", "show", path("recipe.toml")}), 0);
}

// A recipe's options are set as key=value, and other programs' habits are answered with that.
TEST_F(Program, OptionsOfTheRecipeTypedAsOptionsAreAnsweredWithWhatToType) {
  expect_error(run({"train", path("recipe.toml"), "--steps", "5"}), 64, "did you mean train.steps=5?");
  expect_error(run({"config", "show", path("recipe.toml"), "--steps=5"}), 64, "did you mean train.steps=5?");
  expect_error(run({"train", path("recipe.toml"), "--learning-rate", "1e-3"}), 64,
               "did you mean optim.lr=1e-3?");
  expect_error(run({"train", path("recipe.toml"), "--seed", "5"}), 64, "data.seed=5 or train.seed=5");
  expect_error(run({"train", path("recipe.toml"), "--prompt", "it's"}), 64, "sample.prompt='it'\\''s'");
  expect_error(run({"train", path("recipe.toml"), "--fersh"}), 64, "did you mean --fresh?");
}

// What other launchers are told: which program to start. Each command has its own way to several ranks.
TEST_F(Program, LaunchOfAnotherCommandIsAnsweredWithHowThatOneIsStarted) {
  expect_error(run({"launch", "-n", "2", "evaluate", "runs/a", "--data", "my texts"}), 64,
               "evaluate runs/a --data 'my texts' --ranks 2");
  expect_error(run({"launch", "-n", "4", "evaluate", "runs/a", "--task", "needle"}), 64,
               "evaluate runs/a --task needle --ranks 4");
  expect_error(run({"launch", "evaluate", "runs/a", "-n", "2"}), 64, "evaluate runs/a --ranks 2");
  expect_error(run({"launch", "-n", "2", "prove", path("recipe.toml"), "--json"}), 64,
               "prove " + path("recipe.toml") + " --json");
  expect_error(run({"launch", "-n", "2", "train", path("recipe.toml"), "train.steps=1"}), 64,
               "launch -n 2 " + path("recipe.toml") + " train.steps=1");
  expect_error(run({"launch", "-n", "2", "no-recipe.toml"}), 64, "no-recipe.toml");
}

TEST_F(Program, ARecipeWhoseTextIsNotUtf8IsRefusedBeforeAnyWork) {
  expect_error(run({"train", path("recipe.toml"), "sample.prompt=a\xff", "--run", path("run")}), 64,
               "sample.prompt");
  EXPECT_FALSE(fs::exists(path("run")));
}

// What is said to type begins with what was typed, here under a name and in a folder that are not the
// program's own.
TEST_F(Program, KnowsTheNameItWasStartedBy) {
  const auto named = [&](const std::string& words) {
    return run_process({"bash", "-c", "exec -a ./longhaul \"$0\" " + words, program_file()},
                       {"LONGHAUL_CACHE=" + path("cache")}, 180);
  };
  expect_error(named("bench gem"), 64, "try       ./longhaul bench gemm");
  expect_error(named("config explain zzzz"), 64, "./longhaul config explain train");
  EXPECT_THAT(named("train --help").output, HasSubstr("\n  ./longhaul train recipes/first-run.toml\n"));
  EXPECT_THAT(named("bench --ops-library").output, ::testing::EndsWith("/liblonghaul_ops.so\n"));
}

// As main() has it, in this process: what it prints needs no start of the program each.
std::string help_of(std::vector<std::string> words) {
  words.insert(words.begin(), program_file());
  words.push_back("--help");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  set_program_name(program_file());
  longhaul::cli::Program program("", {}, [] { return std::string(); });
  register_commands(program.root());
  ::testing::internal::CaptureStdout();
  program.read(static_cast<int>(arguments.size()), arguments.data());
  return ::testing::internal::GetCapturedStdout();
}

TEST_F(Program, EveryCommandHasHelpWithThreeExamples) {
  const std::vector<std::vector<std::string>> commands = {{"config"},
                                                          {"config", "check"},
                                                          {"config", "show"},
                                                          {"config", "diff"},
                                                          {"config", "explain"},
                                                          {"tokenizer"},
                                                          {"tokenizer", "train"},
                                                          {"tokenizer", "encode"},
                                                          {"tokenizer", "decode"},
                                                          {"data"},
                                                          {"data", "prepare"},
                                                          {"data", "verify"},
                                                          {"data", "show"},
                                                          {"data", "clean"},
                                                          {"checkpoint"},
                                                          {"checkpoint", "list"},
                                                          {"checkpoint", "show"},
                                                          {"checkpoint", "verify"},
                                                          {"checkpoint", "diff"},
                                                          {"checkpoint", "prune"},
                                                          {"compare"},
                                                          {"detect"},
                                                          {"detect", "simulate"},
                                                          {"detect", "train"},
                                                          {"detect", "run"},
                                                          {"detect", "score"},
                                                          {"detect", "trial"},
                                                          {"doctor"},
                                                          {"diagnose"},
                                                          {"diagnose", "blocked"},
                                                          {"diagnose", "spares"},
                                                          {"footprint"},
                                                          {"footprint", "plan"},
                                                          {"footprint", "run"},
                                                          {"footprint", "compare"},
                                                          {"footprint", "tables"},
                                                          {"plan"},
                                                          {"plan", "explain"},
                                                          {"plan", "validate"},
                                                          {"bench"}};
  const std::string typed = "\n  " + program_file() + " ";  // as it was started: what is shown can be typed
  for (const auto& words : commands) {
    const std::string help = help_of(words);
    EXPECT_EQ(testing::count_of(help, typed), 3u) << words[0] << "\n" << help;
  }
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"checkpoint", "--help"}}) {
    const ProcessResult result = run(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(testing::count_of(result.output, typed), 3u) << result.output;
  }
  const ProcessResult version = run({"--version"});
  EXPECT_EQ(version.status, 0);
  for (const char* part : {"longhaul ", "commit ", "compiler ", "LibTorch ", "CPU features "})
    EXPECT_THAT(version.output, HasSubstr(part));
}

// OpenMP prints its settings when it is loaded: once for the start that was typed, once for the program's
// own.
TEST_F(Program, WaitingThreadsSleepUnlessTheEnvironmentSaysOtherwise) {
  const auto settings = [](const std::string& more) {
    std::vector<std::string> words = {
        "env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", "OMP_DISPLAY_ENV=VERBOSE"};
    if (!more.empty()) words.push_back(more);
    words.insert(words.end(), {program_file(), "--version"});
    return run_process(words, {}, 180).errors;
  };
  EXPECT_THAT(settings(""), HasSubstr("GOMP_SPINCOUNT = '1000'"));
  EXPECT_THAT(settings("OMP_WAIT_POLICY=passive"), Not(HasSubstr("GOMP_SPINCOUNT = '1000'")));
  EXPECT_THAT(settings("GOMP_SPINCOUNT=7"),
              AllOf(HasSubstr("GOMP_SPINCOUNT = '7'"), Not(HasSubstr("GOMP_SPINCOUNT = '1000'"))));
}

TEST_F(Program, AModelLargerThanTheMachineIsRefusedBeforeAnythingIsAllocated) {
  // By hand: 12 bytes of masters and moments for each of 456 billion parameters.
  expect_error(run({"train", path("recipe.toml"), "model.preset=minimax-text-01", "--run", path("large")}),
               68, "optimizer state        5.5 TB");
  EXPECT_FALSE(fs::exists(path("large")));
  expect_error(run({"bench", "train", "--preset", "minimax-text-01"}), 68, "does not fit into memory");
}

TEST_F(Program, ConfigShowsChecksComparesAndExplains) {
  const ProcessResult shown = run({"config", "show", path("recipe.toml"), "train.steps=20", "--json"});
  ASSERT_EQ(shown.status, 0) << shown.errors;
  const json recipe = json::parse(shown.output);
  EXPECT_EQ(recipe["train"]["steps"], 20);
  EXPECT_EQ(recipe["origins"]["train.steps"], "command line");

  EXPECT_EQ(run({"config", "check", path("recipe.toml")}).status, 0);
  expect_error(run({"config", "check", path("recipe.toml"), "train.stps=20"}), 64, "train.steps");
  expect_error(run({"config", "check", path("recipe.toml"), "train.steps=ten"}), 64, "train.steps");
  expect_error(run({"config", "check", path("missing.toml")}), 64, "missing.toml");

  write("old.toml", "version = 1\nbase = \"recipe.toml\"\n[model]\nchunk = 64\n");
  const ProcessResult old = run({"config", "check", path("old.toml"), "model.chunk=8"});
  EXPECT_EQ(old.status, 0) << old.errors;
  const std::string warning = "model.chunk is no option any more and is ignored: ";
  EXPECT_THAT(old.errors, HasSubstr(warning));
  EXPECT_EQ(old.errors.find(warning), old.errors.rfind(warning)) << "said twice: " << old.errors;

  EXPECT_EQ(run({"config", "diff", path("recipe.toml"), path("recipe.toml")}).status, 0);
  write("other.toml", "version = 1\n[train]\nsteps = 7\n");
  const ProcessResult different = run({"config", "diff", path("recipe.toml"), path("other.toml"), "--json"});
  EXPECT_EQ(different.status, 1);
  EXPECT_FALSE(json::parse(different.output)["equal"].get<bool>());

  const ProcessResult explained = run({"config", "explain", path("recipe.toml"), "optim.lr"});
  EXPECT_EQ(explained.status, 0);
  EXPECT_THAT(explained.output, HasSubstr("optim.lr"));

  // Without a recipe as well, with and without overrides.
  const ProcessResult alone = run({"config", "explain", "optim.lr"});
  EXPECT_EQ(alone.status, 0) << alone.errors;
  EXPECT_THAT(alone.output, AllOf(HasSubstr("optim.lr = 0.001\n"), HasSubstr("default    0.001")));
  EXPECT_THAT(run({"config", "explain", "optim.lr", "optim.lr=0.5", "optim.eps=0.1"}).output,
              HasSubstr("optim.lr = 0.5\n"));
  EXPECT_THAT(run({"config", "explain", path("recipe.toml"), "data.held_out_percent", "data.seed=1"}).output,
              HasSubstr("= 20\n"));
  EXPECT_THAT(run({"config", "explain", "sample"}).output,
              AllOf(HasSubstr("sample.prompt"), HasSubstr("sample.seed")));
  expect_error(run({"config", "explain", path("recipe.toml")}), 64,
               "config explain " + path("recipe.toml") + " optim.lr");
  expect_error(run({"config", "explain"}), 64, "nothing to explain");
  expect_error(run({"config", "explain", "train.stps"}), 64, "config explain train.steps");
}

TEST_F(Program, DoctorAndBenchMeasure) {
  const std::vector<std::string> environment = {"LONGHAUL_CACHE=" + path("empty"), "NO_COLOR=1"};
  const ProcessResult doctor = run_process({program_file(), "doctor", "--json"}, environment, 180);
  EXPECT_THAT(doctor.status, ::testing::AnyOf(0, 1));  // 1: this machine is short of something
  const json found = json::parse(doctor.output);
  std::vector<std::string> names;
  for (const json& check : found["checks"]) {
    names.push_back(check["name"]);
    EXPECT_THAT(check["status"].get<std::string>(), ::testing::AnyOf("ok", "warn", "fix"));
    EXPECT_EQ(check["status"] == "ok", check["advice"].get<std::string>().empty()) << check;
    if (check["name"] == "fp32 products") {
      EXPECT_GT(check["values"]["flops_per_second"].get<double>(), 1e8);
    }
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"compiler", "LibTorch", "CPU features", "GPUs", "limits",
                                              "memory rate", "disk of the cache"}));

  const ProcessResult bench = run_process({program_file(), "bench", "embedding", "--json"}, environment, 180);
  ASSERT_EQ(bench.status, 0) << bench.errors;
  EXPECT_THAT(bench.errors, Not(HasSubstr("measuring")));  // the doctor's profile was kept
  const json line = json::parse(bench.output.substr(0, bench.output.find('\n')));
  EXPECT_TRUE(line["correct"].get<bool>());
  EXPECT_LT(line["relative_error"].get<double>(), 5e-3);
  expect_error(run({"bench", "gem"}), 64, "longhaul bench gemm");
}

// Workers that are processes: this program is started again, twice a call.
TEST_F(Program, OuterLoopsAreMeasuredOnProcesses) {
  const ProcessResult bench =
      run({"bench", "outer", "--processes", "--workers", "2", "--calls", "2", "--layers", "1", "--hidden",
           "32", "--turns", "1", "--rounds", "1", "--megabytes", "1000", "--json"});
  ASSERT_EQ(bench.status, 0) << bench.errors;
  const json row = json::parse(bench.output);
  EXPECT_EQ(row["workers"], 2);
  EXPECT_EQ(row["processes"], true);
  EXPECT_EQ(row["same_weights"], true);
  EXPECT_EQ(row["kept_of_calls"].size(), 2u);
  EXPECT_GT(row["exchange_s"].get<double>(), 0);
}

// Errors name the part of docs/guides/troubleshooting.md that helps; it is there, under the anchor that
// GitHub makes of its heading.
TEST(Troubleshooting, EveryErrorThatNamesAPartOfThePageNamesOneThatIsThere) {
  std::ifstream page(source_folder() + "/docs/guides/troubleshooting.md");
  std::vector<std::string> anchors;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("##")) continue;
    std::string anchor = "docs/guides/troubleshooting.md#";
    for (const char c : line.substr(line.find(' ') + 1)) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0)
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (c == ' ' || c == '-') anchor += '-';
    }
    anchors.push_back(anchor);
  }
  ASSERT_GT(anchors.size(), 20u);
  size_t named = 0;
  for (int code = 1; code < 100; ++code) {
    const std::string part = troubleshooting_of(static_cast<ExitCode>(code));
    if (part.empty()) continue;
    ++named;
    EXPECT_THAT(anchors, ::testing::Contains(part));
  }
  EXPECT_EQ(named, 8u);
}

}  // namespace
}  // namespace longhaul::cli
