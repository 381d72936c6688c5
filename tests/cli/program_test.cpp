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

#include "base/process.h"
#include "cli/command.h"
#include "cli/output.h"
#include "storage/commit.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("longhaul-cli-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "texts");
    for (int file = 0; file < 30; ++file) {
      write("texts/" + std::to_string(file) + ".txt", "the cat sat on mat " + std::to_string(file) + "\nand then it slept the day away\n");
    }
    write("recipe.toml", "version = 1\n[model]\npreset = \"first-run\"\n[data]\nsource = [\"" + path("texts") +
                             "\"]\ntokenizer = \"bytes\"\nheld_out_percent = 20\n");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name, std::ios::binary) << text; }
  ProcessResult run(std::vector<std::string> words) const {
    words.insert(words.begin(), program_file());
    return run_process(words, {"LONGHAUL_CACHE=" + path("cache"), "NO_COLOR=1"}, 180);
  }

  // A checkpoint of one tensor, w = [0, 1, …, 7] with `first` in front.
  fs::path save(const std::string& run, int64_t step, float first) const {
    auto& files = storage::local_file_system();
    std::vector<float> values = {first, 1, 2, 3, 4, 5, 6, 7};
    const storage::ShardSource shard{.tensor = "w",
                                     .shape = {8},
                                     .dtype = storage::DType::kF32,
                                     .role = "weight",
                                     .offset = {0},
                                     .length = {8},
                                     .data = std::as_bytes(std::span(values))};
    storage::CheckpointWriter writer(files, folder_ / run / "checkpoints", step, 1);
    writer.add(storage::write_checkpoint_file(files, writer.folder(), "rank-00000.safetensors", {&shard, 1}));
    storage::Manifest manifest;
    manifest.run_id = run;
    const fs::path path = writer.commit(manifest);
    writer.point_latest_here();
    return path;
  }
  void events(const std::string& run, const std::string& second_loss) const {
    const std::string common = R"({"schema":1,"run":"r","generation":1,"rank":0,"wall_time":1.0,"monotonic_ns":1,)";
    const auto step = [&](int n, const std::string& loss) {
      return common + R"("event":"step","step":)" + std::to_string(n) + R"(,"loss":)" + loss +
             R"(,"tokens":8,"tokens_per_second":1.0,"grad_norm":1.0,"learning_rate":0.1,"milliseconds":1.0})" + "\n";
    };
    write(run + "/events.jsonl", step(1, "2.5") + step(2, second_loss));
  }

  fs::path folder_;
};

void expect_error(const ProcessResult& result, int code, const std::string& part) {
  EXPECT_EQ(result.status, code) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("error: "));
  EXPECT_THAT(result.errors, HasSubstr(part));
}

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
  refused({"sample", "run", "--seed", "18446744073709551616"}, "--seed: 18446744073709551616 does not fit into 64 bits");
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

// A recipe's options are set as key=value, and other programs' habits are answered with that.
TEST_F(Program, OptionsOfTheRecipeTypedAsOptionsAreAnsweredWithWhatToType) {
  expect_error(run({"train", path("recipe.toml"), "--steps", "5"}), 64, "did you mean train.steps=5?");
  expect_error(run({"config", "show", path("recipe.toml"), "--steps=5"}), 64, "did you mean train.steps=5?");
  expect_error(run({"train", path("recipe.toml"), "--learning-rate", "1e-3"}), 64, "did you mean optim.lr=1e-3?");
  expect_error(run({"train", path("recipe.toml"), "--seed", "5"}), 64, "data.seed=5 or train.seed=5 or sample.seed=5");
  expect_error(run({"train", path("recipe.toml"), "--prompt", "it's"}), 64, "sample.prompt='it'\\''s'");
  expect_error(run({"train", path("recipe.toml"), "--fersh"}), 64, "did you mean --fresh?");
}

TEST_F(Program, ARecipeWhoseTextIsNotUtf8IsRefusedBeforeAnyWork) {
  expect_error(run({"train", path("recipe.toml"), "sample.prompt=a\xff", "--run", path("run")}), 64, "sample.prompt");
  EXPECT_FALSE(fs::exists(path("run")));
}

// What is said to type begins with what was typed, here under a name and in a folder that are not the program's own.
TEST_F(Program, KnowsTheNameItWasStartedBy) {
  const auto named = [&](const std::string& words) {
    return run_process({"bash", "-c", "exec -a ./longhaul \"$0\" " + words, program_file()}, {"LONGHAUL_CACHE=" + path("cache")}, 180);
  };
  expect_error(named("bench gem"), 64, "try       ./longhaul bench gemm");
  expect_error(named("config explain zzzz"), 64, "./longhaul config explain train");
  EXPECT_THAT(named("train --help").output, HasSubstr("\n  ./longhaul train recipes/first-run.toml\n"));
  EXPECT_THAT(named("bench --ops-library").output, ::testing::EndsWith("/liblonghaul_ops.so\n"));
}

TEST_F(Program, EveryCommandHasHelpWithThreeExamples) {
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"config"},
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
                                                          {"doctor"},
                                                          {"bench"}};
  for (auto words : commands) {
    words.push_back("--help");
    const ProcessResult result = run(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    size_t examples = 0;
    const std::string typed = "\n  " + program_file() + " ";  // as it was started: what is shown can be typed
    for (size_t at = result.output.find(typed); at != std::string::npos; at = result.output.find(typed, at + 1)) ++examples;
    EXPECT_EQ(examples, 3u) << words[0] << "\n" << result.output;
  }
  const ProcessResult version = run({"--version"});
  EXPECT_EQ(version.status, 0);
  for (const char* part : {"longhaul ", "commit ", "compiler ", "LibTorch ", "CPU features "}) EXPECT_THAT(version.output, HasSubstr(part));
}

// OpenMP prints its settings when it is loaded: once for the start that was typed, once for the program's own.
TEST_F(Program, WaitingThreadsSleepUnlessTheEnvironmentSaysOtherwise) {
  const auto settings = [](const std::string& more) {
    std::vector<std::string> words = {"env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", "OMP_DISPLAY_ENV=VERBOSE"};
    if (!more.empty()) words.push_back(more);
    words.insert(words.end(), {program_file(), "--version"});
    return run_process(words, {}, 180).errors;
  };
  EXPECT_THAT(settings(""), HasSubstr("GOMP_SPINCOUNT = '1000'"));
  EXPECT_THAT(settings("OMP_WAIT_POLICY=passive"), Not(HasSubstr("GOMP_SPINCOUNT = '1000'")));
  EXPECT_THAT(settings("GOMP_SPINCOUNT=7"), AllOf(HasSubstr("GOMP_SPINCOUNT = '7'"), Not(HasSubstr("GOMP_SPINCOUNT = '1000'"))));
}

TEST_F(Program, AModelLargerThanTheMachineIsRefusedBeforeAnythingIsAllocated) {
  // By hand: 12 bytes of masters and moments for each of 456 billion parameters.
  expect_error(run({"train", path("recipe.toml"), "model.preset=minimax-text-01", "--run", path("large")}), 68,
               "optimizer state        5.5 TB");
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
  EXPECT_THAT(run({"config", "explain", "optim.lr", "optim.lr=0.5", "optim.eps=0.1"}).output, HasSubstr("optim.lr = 0.5\n"));
  EXPECT_THAT(run({"config", "explain", path("recipe.toml"), "data.held_out_percent", "data.seed=1"}).output, HasSubstr("= 20\n"));
  EXPECT_THAT(run({"config", "explain", "sample"}).output, AllOf(HasSubstr("sample.prompt"), HasSubstr("sample.seed")));
  expect_error(run({"config", "explain", path("recipe.toml")}), 64, "config explain " + path("recipe.toml") + " optim.lr");
  expect_error(run({"config", "explain"}), 64, "nothing to explain");
  expect_error(run({"config", "explain", "train.stps"}), 64, "config explain train.steps");
}

TEST_F(Program, TokenizerTrainsEncodesAndDecodes) {
  const ProcessResult trained =
      run({"tokenizer", "train", "--vocabulary", "280", "--out", path("tokenizer.json"), path("texts"), "--json"});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_EQ(json::parse(trained.output)["vocabulary"], 280);

  const ProcessResult encoded = run({"tokenizer", "encode", path("tokenizer.json"), path("texts/0.txt"), path("texts/1.txt"), "--json"});
  ASSERT_EQ(encoded.status, 0) << encoded.errors;
  std::istringstream lines(encoded.output);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const json first = json::parse(line);
  EXPECT_EQ(first["file"], path("texts/0.txt"));
  ASSERT_GT(first["ids"].size(), 5u);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(json::parse(line)["file"], path("texts/1.txt"));

  write("ids.json", first.dump());
  EXPECT_EQ(run({"tokenizer", "decode", path("tokenizer.json"), path("ids.json")}).output,
            "the cat sat on mat 0\nand then it slept the day away\n");
  EXPECT_EQ(run({"tokenizer", "decode", "bytes", "104", "105"}).output, "hi");

  expect_error(run({"tokenizer", "encode", path("missing.json"), path("texts/0.txt")}), 65, "missing.json");
  expect_error(run({"tokenizer", "encode", path("tokenizer.json"), path("missing.txt")}), 65, "missing.txt");
  expect_error(run({"tokenizer", "decode", "bytes", "300"}), 65, "300");
  write("broken.json", "{\"model\":");
  expect_error(run({"tokenizer", "encode", path("broken.json"), path("texts/0.txt")}), 65, "broken.json");
}

TEST_F(Program, DataIsPreparedVerifiedAndShown) {
  const ProcessResult prepared = run({"data", "prepare", path("recipe.toml"), "--json"});
  ASSERT_EQ(prepared.status, 0) << prepared.errors;
  const json source = json::parse(prepared.output)["sources"][0];
  EXPECT_EQ(source["train"]["documents"].get<int>() + source["held_out"]["documents"].get<int>(), 30);
  const std::string folder = source["folder"];

  EXPECT_EQ(run({"data", "verify", folder}).status, 0);
  const ProcessResult shown = run({"data", "show", path("cache"), "--json"});
  EXPECT_EQ(json::parse(shown.output)["sources"][0]["train"], source["train"]);

  for (const auto& entry : fs::recursive_directory_iterator(folder)) {  // one flipped bit in a shard
    if (entry.path().parent_path().filename() != "train") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(300);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(300);
    file.put(byte);
    break;
  }
  expect_error(run({"data", "verify", folder}), 65, "train");
  expect_error(run({"data", "verify", path("texts")}), 65, "no prepared data");
  expect_error(run({"data", "prepare", path("recipe.toml"), "data.source=" + path("nowhere")}), 65, "nowhere");
}

TEST_F(Program, DataOfOddNamesAndFilesThatAreNotText) {
  const std::string odd = path("caf\xe9");
  fs::create_directories(odd);
  write("caf\xe9/na\xefve.txt", "some text of its own\n");
  write("caf\xe9/plain.txt", "some other text\n");
  write("caf\xe9/\xff.bin", std::string(10, '\0'));
  for (const std::string& source : {odd, "file:" + path("caf%E9")}) {
    const ProcessResult prepared = run({"data", "prepare", path("recipe.toml"), "data.source=" + source, "--json"});
    ASSERT_EQ(prepared.status, 0) << prepared.errors;
    const json found = json::parse(prepared.output)["sources"][0];
    EXPECT_EQ(found["source"], "file:" + path("caf%E9"));
    EXPECT_EQ(found["not_text"], 1);
    EXPECT_EQ(found["not_text_bytes"], 10);
    EXPECT_EQ(found["not_text_files"][0]["name"], "file:%FF.bin");
    EXPECT_THAT(run({"data", "show", found["folder"]}).output, AllOf(HasSubstr("left out: not text"), HasSubstr("file:%FF.bin")));
  }
  expect_error(run({"data", "prepare", path("recipe.toml"), "data.source=" + path("caf\xe8")}), 65, "no such file");
  expect_error(run({"data", "prepare", path("recipe.toml"), "data.source=file:%zz"}), 64, "%25");
  const ProcessResult shown = run({"config", "show", path("recipe.toml"), "data.source=" + odd});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.output, HasSubstr("file:"));
}

TEST_F(Program, CleanRemovesWhatNoRecentRunUsed) {
  ASSERT_EQ(run({"data", "prepare", path("recipe.toml")}).status, 0);
  const auto clean = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"data", "clean", "--json"});
    const ProcessResult result = run(more);
    EXPECT_EQ(result.status, 0) << result.errors;
    return json::parse(result.output);
  };
  EXPECT_EQ(clean({})["entries"].size(), 0u) << "it was used just now";
  const json listed = clean({"--all"});
  ASSERT_EQ(listed["entries"].size(), 1u);
  EXPECT_EQ(listed["entries"][0]["kind"], "token shards");
  EXPECT_GT(listed["bytes"].get<int64_t>(), 0);
  EXPECT_EQ(listed["removed_bytes"], 0);
  EXPECT_TRUE(fs::exists(listed["entries"][0]["path"].get<std::string>())) << "without --yes nothing is removed";
  EXPECT_THAT(run({"data", "clean", "--all"}).output, HasSubstr("add --yes"));
  for (const auto& entry : fs::recursive_directory_iterator(path("cache"))) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(24 * 40));
  }
  EXPECT_EQ(clean({"--older-than", "50"})["entries"].size(), 0u);
  const json removed = clean({"--yes"});
  EXPECT_EQ(removed["removed_bytes"], removed["bytes"]);
  EXPECT_TRUE(removed["entries"][0]["removed"].get<bool>());
  EXPECT_FALSE(fs::exists(removed["entries"][0]["path"].get<std::string>()));
  EXPECT_THAT(run({"data", "clean", path("cache"), "--all"}).output, HasSubstr("nothing"));
}

TEST_F(Program, CheckpointsAreListedVerifiedComparedAndPruned) {
  save("a", 10, 0);
  const fs::path newest = save("a", 20, 0);
  save("b", 20, 0.5f);

  const json listed = json::parse(run({"checkpoint", "list", path("a"), "--json"}).output)["checkpoints"];
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0]["step"], 20);
  EXPECT_TRUE(listed[0]["latest"].get<bool>());
  EXPECT_EQ(json::parse(run({"checkpoint", "show", path("a"), "--json"}).output)["tensors"][0]["name"], "w");
  const std::string shown_table = run({"checkpoint", "show", path("a")}).output;
  EXPECT_THAT(shown_table, AllOf(HasSubstr("\n  run               a\n"), HasSubstr("\n  step              20\n"),
                                 HasSubstr("\n  generation "), HasSubstr(" by 1 process\n"), HasSubstr(" in 1 file\n"),
                                 HasSubstr("\n  tensors, weight   1 of 8 values\n"), Not(HasSubstr("{"))));
  EXPECT_THAT(run({"checkpoint", "show", path("a"), "--tensors"}).output, HasSubstr("w      F32     [8]"));
  EXPECT_THAT(run({"checkpoint", "list", path("a")}).output, HasSubstr("generation"));
  EXPECT_EQ(run({"checkpoint", "verify", newest.string()}).status, 0);
  EXPECT_EQ(run({"checkpoint", "verify", path("a")}).status, 0);
  for (const char* name :
       {"a/checkpoints/", "a/checkpoints/latest", "a/checkpoints/step-000000020", "a/checkpoints/step-000000020/manifest.json"}) {
    EXPECT_EQ(json::parse(run({"checkpoint", "show", path(name), "--json"}).output)["step"], 20) << name;
  }
  EXPECT_EQ(run({"checkpoint", "verify", path("a/checkpoints/latest")}).status, 0);
  expect_error(run({"checkpoint", "list", newest.string()}), 66, "one checkpoint");
  expect_error(run({"checkpoint", "verify", path("recipe.toml")}), 66, "recipe.toml");
  EXPECT_EQ(run({"checkpoint", "diff", newest.string(), newest.string()}).status, 0);
  const ProcessResult differ = run({"checkpoint", "diff", path("a"), path("b"), "--json"});
  EXPECT_EQ(differ.status, 1);
  EXPECT_EQ(json::parse(differ.output)["tensors"][0]["different"], 1);

  EXPECT_EQ(json::parse(run({"checkpoint", "prune", path("a"), "--keep", "1", "--dry-run", "--json"}).output)["removed"].size(), 1u);
  EXPECT_EQ(run({"checkpoint", "prune", path("a"), "--keep", "1"}).status, 0);
  EXPECT_EQ(json::parse(run({"checkpoint", "list", path("a"), "--json"}).output)["checkpoints"].size(), 1u);

  std::fstream file(newest / "rank-00000.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-2, std::ios::end);
  file.put('x');
  file.close();
  const ProcessResult damaged = run({"checkpoint", "verify", newest.string()});
  expect_error(damaged, 66, "rank-00000.safetensors");
  EXPECT_THAT(damaged.errors, HasSubstr("w"));
  expect_error(run({"checkpoint", "verify", path("texts")}), 66, "manifest.json");

  // A damaged newest one: the next older is taken, which is said; the list says it in one line.
  save("b", 10, 0);
  fs::resize_file(folder_ / "b/checkpoints/step-000000020/rank-00000.safetensors", 10);
  const ProcessResult shown = run({"checkpoint", "show", path("b"), "--json"});
  EXPECT_EQ(json::parse(shown.output)["step"], 10);
  EXPECT_THAT(shown.errors, AllOf(HasSubstr("passed over"), HasSubstr("step-000000020")));
  const std::string table = run({"checkpoint", "list", path("b")}).output;
  EXPECT_THAT(table, HasSubstr("unusable: a file of the checkpoint has the wrong size"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;  // folder, headings, two checkpoints
  expect_error(run({"checkpoint", "list", path("nowhere")}), 66, "nowhere");
  EXPECT_THAT(run({"checkpoint", "list", path("nowhere")}).errors,
              ::testing::EndsWith("  read      docs/troubleshooting.md#checkpoints\n"));
}

TEST_F(Program, CompareNamesTheFirstStepAndTensor) {
  for (const char* name : {"a", "b", "c"}) fs::create_directories(folder_ / name);
  save("a", 2, 0), save("b", 2, 0.5f), save("c", 2, 0);
  events("a", "2.25"), events("b", "2.125"), events("c", "2.25");

  const ProcessResult differ = run({"compare", path("a"), path("b"), "--json"});
  EXPECT_EQ(differ.status, 1) << differ.errors;
  const json found = json::parse(differ.output);
  EXPECT_EQ(found["first_step"], 2);
  EXPECT_EQ(found["first_tensor"], "w");
  const ProcessResult same = run({"compare", path("a"), path("c")});
  EXPECT_EQ(same.status, 0) << same.output << same.errors;
  EXPECT_THAT(same.output, HasSubstr("equal in every bit"));
  EXPECT_NE(run({"compare", path("a"), path("nowhere")}).status, 0);
}

TEST_F(Program, DoctorAndBenchMeasure) {
  const ProcessResult doctor = run({"doctor", "--json"});
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
  EXPECT_THAT(names,
              ::testing::IsSupersetOf({"compiler", "LibTorch", "CPU features", "GPUs", "limits", "memory rate", "disk of the cache"}));

  const ProcessResult bench = run({"bench", "linear_recurrence", "--json"});
  ASSERT_EQ(bench.status, 0) << bench.errors;
  EXPECT_THAT(bench.errors, Not(HasSubstr("measuring")));  // the doctor's profile was kept
  const json line = json::parse(bench.output.substr(0, bench.output.find('\n')));
  EXPECT_TRUE(line["correct"].get<bool>());
  EXPECT_LT(line["relative_error"].get<double>(), 5e-3);
  expect_error(run({"bench", "gem"}), 64, "longhaul bench gemm");
}

// Errors name the part of docs/troubleshooting.md that helps; it is there, under the anchor that GitHub makes of its heading.
TEST(Troubleshooting, EveryErrorThatNamesAPartOfThePageNamesOneThatIsThere) {
  std::ifstream page(source_folder() + "/docs/troubleshooting.md");
  std::vector<std::string> anchors;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("##")) continue;
    std::string anchor = "docs/troubleshooting.md#";
    for (const char c : line.substr(line.find(' ') + 1)) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
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
