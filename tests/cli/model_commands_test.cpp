// ctest: label=full timeout=600
// train, sample, score and evaluate as a person types them, on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/net/network.h"
#include "base/process/process.h"
#include "base/progress.h"
#include "cli/models/model_tokenizer.h"
#include "comm/placement.h"
#include "observe/events/event_log.h"
#include "storage/safetensors.h"
#include "support/child.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelCommands : public ::testing::Test {
 protected:
  // The model has more rows than the tokenizer has tokens (257), as padded vocabularies do.
  ModelCommands() : folder_(fs::temp_directory_path() / ("longhaul-cli-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << std::string(300, 'a') << i << "\n";
    std::ofstream(folder_ / "tiny.toml")
        << "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 1\nhead_dim = 16\n"
           "vocabulary = 2048\nmixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n"
           "[data]\ntokenizer = \"bytes\"\n[train]\nsteps = 6\ndtype = \"fp32\"\nbatch = 2\nmicro_batch = 1\n"
           "sequence = 32\nevaluate_every = 3\n[sample]\ntokens = 4\n";
  }
  ~ModelCommands() override { fs::remove_all(folder_); }

  ProcessResult longhaul(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program_file());
    return run_process(arguments, {cache_variable(folder_ / "cache")}, 180);
  }
  std::string run() const { return (folder_ / "run").string(); }
  ProcessResult train(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"train", (folder_ / "tiny.toml").string(),
                                       "data.source=" + (folder_ / "text").string(), "--run", run()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return longhaul(arguments);
  }

  fs::path folder_;
};

TEST_F(ModelCommands, TrainThenUseTheModel) {
  const ProcessResult trained = train();
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_THAT(trained.output, HasSubstr("gzip -9"));
  EXPECT_THAT(trained.output, HasSubstr("Finished at step 6"));
  // What is said to type goes on with this run.
  EXPECT_THAT(
      trained.output,
      HasSubstr("\n  " + program_file() + " train " + (folder_ / "tiny.toml").string() +
                " data.source=" + (folder_ / "text").string() + " train.steps=12 --run " + run() + "\n"));
  // One figure of the parameters that a token passes through: in the table, in the events.
  const size_t total = trained.output.find("\n  total ");
  ASSERT_NE(total, std::string::npos) << trained.output;
  const std::string row = trained.output.substr(total + 1, trained.output.find('\n', total + 1) - total - 1);
  const auto start =
      std::get<observe::RunStart>(observe::read_events(fs::path(run()) / "events.jsonl").front().body);
  EXPECT_THAT(row, ::testing::EndsWith(" " + count_text(start.parameters_per_token)));
  EXPECT_THAT(row, HasSubstr(" " + count_text(start.parameters) + " "));
  EXPECT_THAT(trained.output, HasSubstr("measured peak, 20"));  // with its date

  for (const char* name :
       {"recipe.toml", "tokenizer.json", "events.jsonl", "report.html", "checkpoints/latest"}) {
    EXPECT_TRUE(fs::exists(fs::path(run()) / name)) << name;
  }

  const ProcessResult again = train({"train.steps=8"});
  ASSERT_EQ(again.status, 0) << again.errors;
  EXPECT_THAT(again.output, HasSubstr("resume"));

  const ProcessResult sampled =
      longhaul({"sample", run(), "--prompt", "aaa", "--tokens", "5", "--seed", "3", "--json"});
  ASSERT_EQ(sampled.status, 0) << sampled.errors;
  const auto sample = nlohmann::json::parse(sampled.output);
  for (const char* name : {"checkpoints", "checkpoints/latest", "checkpoints/step-000000008"}) {
    const ProcessResult same =
        longhaul({"sample", run() + "/" + name, "--prompt", "aaa", "--tokens", "5", "--seed", "3", "--json"});
    ASSERT_EQ(same.status, 0) << same.errors;
    EXPECT_EQ(nlohmann::json::parse(same.output)["ids"], sample["ids"]) << name;
  }
  EXPECT_EQ(sample["step"], 8);
  EXPECT_EQ(sample["prompt"], "aaa");
  const ProcessResult printed =
      longhaul({"sample", run(), "--prompt", "aaa", "--tokens", "5", "--seed", "3"});
  EXPECT_EQ(printed.status, 0);
  EXPECT_THAT(printed.output, ::testing::StartsWith("aaa"));
  EXPECT_EQ(longhaul({"sample", run(), "--prompt", "aaa", "--tokens", "0"}).output, "aaa\n");

  // Several texts: one object a line, each as its seed gives it alone.
  const ProcessResult several = longhaul(
      {"sample", run(), "--prompt", "aaa", "--tokens", "5", "--count", "3", "--seed", "2", "--json"});
  ASSERT_EQ(several.status, 0) << several.errors;
  std::vector<nlohmann::json> lines;
  std::istringstream stream(several.output);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(lines[i]["seed"], 2 + i);
  EXPECT_EQ(lines[1]["ids"], sample["ids"]) << "seed 3";
  EXPECT_EQ(lines[1]["text"], sample["text"]);
  const ProcessResult headed =
      longhaul({"sample", run(), "--prompt", "aaa", "--tokens", "5", "--count", "2", "--seed", "3"});
  EXPECT_THAT(headed.output, ::testing::StartsWith("--- 1 of 2, --seed 3\n" + printed.output +
                                                   "\n--- 2 of 2, --seed 4\naaa"));
  EXPECT_EQ(longhaul({"sample", run(), "--prompt", "aaa", "--count", "0"}).status, 64);

  // Many prompts: those that begin like an earlier one go on from there, with the same tokens.
  const std::string long_one(4000, 'a');
  std::ofstream(folder_ / "prompts.jsonl") << nlohmann::json(long_one + "b") << "\n\n"
                                           << nlohmann::json{{"prompt", long_one + "b"}} << "\n";
  const auto continued = [&](const char* mebibytes) {
    const ProcessResult result =
        longhaul({"sample", run(), "--prompts", (folder_ / "prompts.jsonl").string(), "--tokens", "5",
                  "--temperature", "0", "--prefix-cache", mebibytes, "--json"});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("prefix cache: "));
    std::vector<nlohmann::json> objects;
    std::istringstream output(result.output);
    for (std::string line; std::getline(output, line);) objects.push_back(nlohmann::json::parse(line));
    return objects;
  };
  const auto with = continued("64"), without = continued("0");
  ASSERT_EQ(with.size(), 2u);
  ASSERT_EQ(without.size(), 2u);
  const int64_t prompt_tokens = with[1]["prompt_tokens"];
  EXPECT_GE(prompt_tokens, 1024) << "kept to its last multiple of 64";
  EXPECT_EQ(with[0]["continued_tokens"], 0);
  EXPECT_EQ(with[1]["continued_tokens"], (prompt_tokens - 8) / 64 * 64);
  EXPECT_EQ(without[1]["continued_tokens"], 0);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(with[i]["prompt"], long_one + "b");
    EXPECT_EQ(with[i]["ids"], without[i]["ids"]);
  }
  std::ofstream(folder_ / "lines.txt") << "aaa\n";
  EXPECT_EQ(longhaul({"sample", run(), "--prompts", (folder_ / "lines.txt").string(), "--tokens", "5",
                      "--seed", "3"})
                .output,
            printed.output);
  EXPECT_EQ(
      longhaul({"sample", run(), "--prompts", (folder_ / "lines.txt").string(), "--prompt", "b"}).status, 64);
  // What a model read and what it wrote, as ids: given back as a prompt they are read as they stand.
  std::ofstream(folder_ / "prompts.jsonl") << nlohmann::json{{"ids", with[0]["prompt_ids"]}} << "\n";
  const auto by_ids = continued("0");
  ASSERT_EQ(by_ids.size(), 1u);
  EXPECT_EQ(by_ids[0]["prompt_ids"], with[0]["prompt_ids"]);
  EXPECT_EQ(by_ids[0]["ids"], with[0]["ids"]);
  EXPECT_EQ(by_ids[0]["log_probabilities"].size(), with[0]["ids"].size());
  std::ofstream(folder_ / "prompts.jsonl") << "{\"text\": 1}\n";
  const ProcessResult refused =
      longhaul({"sample", run(), "--prompts", (folder_ / "prompts.jsonl").string()});
  EXPECT_EQ(refused.status, 65);
  EXPECT_THAT(refused.errors, HasSubstr("line 1"));

  std::ofstream(folder_ / "ids.json") << "[97, 97, 10]";
  const auto logits = folder_ / "logits.safetensors";
  ASSERT_EQ(
      longhaul({"score", run(), "--ids", (folder_ / "ids.json").string(), "--out", logits.string()}).status,
      0);
  const auto file = storage::SafetensorsFile::open(storage::LocalFileSystem(), logits);
  EXPECT_EQ(file.at("logits").shape, (std::vector<int64_t>{3, 2048}));
  EXPECT_EQ(file.at("logits").dtype, storage::DType::kF32);

  const ProcessResult evaluated =
      longhaul({"evaluate", run(), "--data", (folder_ / "text").string(), "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.errors;
  const auto evaluation = nlohmann::json::parse(evaluated.output);
  // 300 letters, one or two digits and a line end in each of the twenty files
  EXPECT_EQ(evaluation["bytes"], 20 * 301 + 10 + 20);
  EXPECT_GT(evaluation["bits_per_byte"].get<double>(), 0);
  // after twelve steps it may well be none; values are evaluate_test's
  EXPECT_TRUE(evaluation["accuracy"].is_number());
  EXPECT_EQ(evaluation["stride"], 32);
}

TEST_F(ModelCommands, EvaluatesByTask) {
  ASSERT_EQ(train({"train.steps=2"}).status, 0);
  const auto asked = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"evaluate", run()});
    words.emplace_back("--json");
    const ProcessResult result = longhaul(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output, nullptr, false);
  };
  const auto page = folder_ / "needle.html";
  const auto needle = asked({"--task", "needle", "--lengths", "400,500", "--depths", "0,100", "--samples",
                             "1", "--tokens-per-pass", "128", "--page", page.string()});
  EXPECT_EQ(needle["lengths"], nlohmann::json({400, 500}));
  EXPECT_EQ(needle["scores"].size(), 2u);
  EXPECT_EQ(needle["scores"][0].size(), 2u);
  EXPECT_TRUE(fs::exists(page));
  const auto ruler =
      asked({"--task", "ruler", "--lengths", "700", "--kinds", "single,variables", "--samples", "1"});
  EXPECT_EQ(ruler["kinds"], nlohmann::json({"single", "variables"}));
  const auto mqar = asked({"--task", "mqar", "--lengths", "16,32", "--pairs", "4,8", "--samples", "20"});
  EXPECT_EQ(mqar["entries"].size(), 3u) << "eight pairs do not fit 16 tokens";
  EXPECT_LT(mqar["accuracy"].get<double>(), 0.2);
  EXPECT_NEAR(mqar["chance"].get<double>(), 1 / 1024.0, 1e-12);
  EXPECT_EQ(asked({"--task", "copy", "--pairs", "4"})["entries"][0]["length"], 32);
  std::ofstream(folder_ / "q.jsonl") << R"({"goal":"aaa","sol1":"aaaa","sol2":"zzzz","label":0})"
                                     << "\n";
  const auto choice = asked({"--task", "choice", "--data", (folder_ / "q.jsonl").string()});
  EXPECT_EQ(choice["format"], "piqa");
  EXPECT_EQ(choice["items"], 1);
  EXPECT_EQ(choice["chance"], 0.5);

  EXPECT_EQ(longhaul({"evaluate", run()}).status, 64);
  EXPECT_EQ(longhaul({"evaluate", run(), "--task", "choice"}).status, 64);
  EXPECT_EQ(longhaul({"evaluate", run(), "--task", "needle", "--lengths", "12,x"}).status, 64);
  EXPECT_EQ(longhaul({"evaluate", run(), "--task", "needle", "--lengths", "20"}).status, 64);
  EXPECT_EQ(longhaul({"evaluate", run(), "--task", "ruler", "--kinds", "qa"}).status, 64);
  EXPECT_EQ(longhaul({"evaluate", run(), "--data", (folder_ / "text").string(), "--stride", "33"}).status,
            64);
}

// As torchrun starts them: the line that one process prints, from the first rank alone; ranks that were told
// different things are refused.
TEST_F(ModelCommands, RanksShareATask) {
  ASSERT_EQ(train({"train.steps=2"}).status, 0);
  const auto words = [&](std::vector<std::string> task) {
    task.insert(task.begin(), {program_file(), "evaluate", run(), "--json", "--task"});
    return task;
  };
  const auto on_ranks = [&](const std::vector<std::vector<std::string>>& tasks) {
    const uint16_t port = free_port();
    std::vector<std::unique_ptr<Child>> ranks;
    for (size_t rank = 0; rank < tasks.size(); ++rank) {
      auto environment =
          comm::environment_of_rank(static_cast<int>(rank), static_cast<int>(tasks.size()), port);
      environment.push_back(cache_variable(folder_ / "cache"));
      ranks.push_back(std::make_unique<Child>(words(tasks[rank]), environment,
                                              folder_ / fmt::format("rank-{}.log", rank)));
    }
    return ranks;
  };
  const std::vector<std::vector<std::string>> tasks = {
      {"mqar", "--lengths", "16,32", "--pairs", "4", "--samples", "50"},
      {"needle", "--lengths", "400", "--depths", "0,100", "--samples", "3"}};
  const std::vector<std::string> cache = {cache_variable(folder_ / "cache")};
  std::vector<std::string> printed;
  for (const auto& task : tasks) {
    const auto one = run_process(words(task), cache, 180);
    ASSERT_EQ(one.status, 0) << one.errors;
    printed.push_back(one.output);
    const auto ranks = on_ranks({task, task, task});
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_EQ(ranks[rank]->wait(), 0) << ranks[rank]->output();
      EXPECT_EQ(ranks[rank]->output().find(one.output) != std::string::npos, rank == 0)
          << rank << ": " << ranks[rank]->output();
      EXPECT_EQ(ranks[rank]->output().find("\"task\"") != std::string::npos, rank == 0)
          << rank << ": " << ranks[rank]->output();
    }
  }
  // And as typed, on this machine: the same line, once; who fails says so, with the code of its error.
  std::vector<std::string> typed = words(tasks[0]);
  typed.insert(typed.end(), {"--ranks", "2"});
  const auto two = run_process(typed, cache, 180);
  EXPECT_EQ(two.status, 0) << two.errors;
  EXPECT_EQ(two.output, printed[0]);
  typed.insert(typed.end(), {"--dtype", "fp7"});
  const auto refused = run_process(typed, cache, 180);
  EXPECT_EQ(refused.status, 64) << refused.errors;
  EXPECT_THAT(refused.errors, HasSubstr("fp7"));
  const auto other = on_ranks({tasks[0], tasks[1]});
  for (const auto& rank : other) {
    EXPECT_NE(rank->wait(), 0);
    EXPECT_THAT(rank->output(), HasSubstr("task"));
  }
}

TEST_F(ModelCommands, MakesQuestionsToTrainOn) {
  const auto file = folder_ / "rounds.jsonl";
  const ProcessResult made =
      longhaul({"data", "questions", "rounds", "--count", "3", "--tokens", "600", "--out", file.string()});
  ASSERT_EQ(made.status, 0) << made.errors;
  std::ifstream lines(file);
  std::string line;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    const std::string text = nlohmann::json::parse(line)["text"];
    const std::string answer = text.substr(text.rfind("Assistant: ") + 11);
    EXPECT_LT(text.find(answer), text.rfind("Assistant: ")) << "the answer stands in the text before";
  }
  EXPECT_EQ(longhaul({"data", "questions", "riddles", "--out", file.string()}).status, 64);
}

TEST_F(ModelCommands, PlansScalingFromRuns) {
  ASSERT_EQ(train({"train.steps=6"}).status, 0);
  const auto page = folder_ / "scaling.html";
  const ProcessResult result =
      longhaul({"plan", "scaling", run(), "--skip", "0", "--study", "--page", page.string(), "--json"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto laws = nlohmann::json::parse(result.output);
  EXPECT_EQ(laws["groups"][0]["name"], "lightning + softmax");
  EXPECT_EQ(laws["groups"][0]["runs_on_envelope"], 1);
  EXPECT_TRUE(laws["groups"][0]["parameters_of_compute"].is_null());
  EXPECT_EQ(laws["study"]["laws"].size(), 5u);
  EXPECT_EQ(laws["study"]["models"].size(), 6u);
  EXPECT_TRUE(fs::exists(page));
  EXPECT_EQ(longhaul({"plan", "scaling"}).status, 64);
  EXPECT_EQ(longhaul({"plan", "scaling", (folder_ / "text").string()}).status, 65);
}

TEST_F(ModelCommands, RefusalsHaveTheirExitCodes) {
  ASSERT_EQ(train().status, 0);
  EXPECT_EQ(train({"train.seed=9"}).status, 64);
  EXPECT_EQ(longhaul({"sample", (folder_ / "nothing").string(), "--prompt", "a"}).status, 66);
  std::ofstream(folder_ / "bad.json") << "[1, \"two\"]";
  EXPECT_EQ(
      longhaul({"score", run(), "--ids", (folder_ / "bad.json").string(), "--out", (folder_ / "o").string()})
          .status,
      65);
  std::ofstream(folder_ / "big.json") << "[1, 2048]";
  const ProcessResult foreign =
      longhaul({"score", run(), "--ids", (folder_ / "big.json").string(), "--out", (folder_ / "o").string()});
  EXPECT_EQ(foreign.status, 65);
  EXPECT_THAT(foreign.errors,
              AllOf(HasSubstr("0 to 2047"), HasSubstr("2048 in place 2 of 2"), HasSubstr("big.json")));
  EXPECT_EQ(longhaul({"evaluate", run(), "--data", (folder_ / "nothing").string()}).status, 65);
  EXPECT_EQ(longhaul({"evaluate", run(), "--data", (folder_ / "text").string(), "--context", "-5"}).status,
            64);
  const ProcessResult cold = longhaul({"sample", run(), "--prompt", "a", "--temperature", "-1"});
  EXPECT_EQ(cold.status, 64);
  EXPECT_EQ(cold.output, "");
}

// The prompt is part of the result: a refusal has none.
TEST_F(ModelCommands, APromptThatIsRefusedIsNotPrinted) {
  ASSERT_EQ(train({"model.mixers=softmax", "model.position=learned", "model.max_positions=32"}).status, 0);
  const ProcessResult refused = longhaul({"sample", run(), "--prompt", std::string(40, 'a')});
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.errors, HasSubstr("longer than the model's positions"));
  EXPECT_EQ(refused.output, "");
}

// The weights of experts in eight bits: another model than the one that was trained, by little; of a model
// without experts there is nothing to do.
TEST_F(ModelCommands, ExpertsInEightBits) {
  ASSERT_EQ(train().status, 0);
  const ProcessResult refused = longhaul({"sample", run(), "--prompt", "a", "--experts", "int8"});
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("model.experts = 0"), HasSubstr("leave --experts out")));
  fs::remove_all(run());
  ASSERT_EQ(train({"model.experts=4", "model.experts_per_token=2"}).status, 0);
  EXPECT_EQ(longhaul({"sample", run(), "--prompt", "a", "--experts", "int4"}).status, 64);
  // 2 layers x 4 experts x 3 matrices of 32 x 32: a byte a weight and 4 for each of 32 rows.
  const ProcessResult sampled =
      longhaul({"sample", run(), "--prompt", "aaa", "--tokens", "5", "--experts", "int8"});
  ASSERT_EQ(sampled.status, 0) << sampled.errors;
  EXPECT_THAT(sampled.errors + sampled.output, HasSubstr("experts: 27.6 kB as int8, 98.3 kB as fp32"));
  std::ofstream(folder_ / "ids.json") << "[97, 97, 98, 99]";
  const auto logits = [&](const char* name, const std::vector<std::string>& more) {
    const fs::path file = folder_ / name;
    std::vector<std::string> words{"score", run(),        "--ids", (folder_ / "ids.json").string(),
                                   "--out", file.string()};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = longhaul(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    std::ifstream bytes(file, std::ios::binary);
    std::string all((std::istreambuf_iterator<char>(bytes)), {});
    std::vector<float> values(4 * 2048);
    std::memcpy(values.data(), all.data() + all.size() - values.size() * sizeof(float),
                values.size() * sizeof(float));
    return values;
  };
  const std::vector<float> wide = logits("wide", {}), narrow = logits("narrow", {"--experts", "int8"});
  float most = 0;
  for (size_t i = 0; i < wide.size(); ++i) most = std::max(most, std::abs(wide[i] - narrow[i]));
  EXPECT_GT(most, 0);
  EXPECT_LT(most, 0.02);
  const auto bits = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"evaluate", run(), "--data", (folder_ / "text").string(), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return nlohmann::json::parse(longhaul(words).output).at("bits_per_byte").get<double>();
  };
  const double of_wide = bits({}), of_narrow = bits({"--experts", "int8"});
  EXPECT_NE(of_wide, of_narrow);
  EXPECT_NEAR(of_wide, of_narrow, 1e-2);
}

// A model that reads whole documents is trained, goes on, and is evaluated; what would write with it says why
// it does not.
TEST_F(ModelCommands, AModelThatFillsInDoesNotWriteOn) {
  const std::vector<std::string> words = {"model.mixers=lightnet,softmax", "model.causal=false",
                                          "train.objective=masked"};
  const ProcessResult trained = train(words);
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_THAT(trained.output,
              AllOf(HasSubstr("bits_per_masked_token"), HasSubstr("evaluate " + run() + " --data PATH")));
  EXPECT_THAT(trained.output, Not(AnyOf(HasSubstr("bits per byte"), HasSubstr("sample " + run()))));
  std::vector<std::string> more = words;
  more.emplace_back("train.steps=8");
  EXPECT_THAT(train(more).output, AllOf(HasSubstr("resume"), HasSubstr("Finished at step 8")));

  for (const std::vector<std::string>& refused :
       {std::vector<std::string>{"sample", run(), "--prompt", "aaa", "--tokens", "5"},
        {"evaluate", run(), "--task", "mqar"}}) {
    const ProcessResult result = longhaul(refused);
    EXPECT_EQ(result.status, 64) << refused[0];
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("needs a model that predicts the next token"),
                      HasSubstr("train.objective = masked, model.causal = false"), HasSubstr("evaluate ")));
    EXPECT_EQ(result.output, "");
  }
  const std::string text = (folder_ / "text").string();
  const ProcessResult said = longhaul({"evaluate", run(), "--data", text});
  EXPECT_THAT(said.output, AllOf(HasSubstr("bits per masked token"), HasSubstr("a share of 0.15")))
      << said.errors;
  const auto parsed = nlohmann::json::parse(longhaul({"evaluate", run(), "--data", text, "--json"}).output);
  EXPECT_NEAR(parsed["bits_per_masked_token"].get<double>(), parsed["loss"].get<double>() / std::log(2.0),
              1e-12);
  EXPECT_FALSE(parsed.contains("bits_per_byte"));
  EXPECT_GT(parsed["tokens"], 500);
  EXPECT_EQ(longhaul({"evaluate", run(), "--data", text, "--stride", "8"}).status, 64);
}

// A run folder's tokenizer.json may have been exchanged, and --tokenizer may name another model's.
TEST_F(ModelCommands, ATokenizerThatIsNotTheModelsIsNotTakenSilently) {
  checkpoint::OpenModel model{.tokenizer = folder_ / "tokenizer.json"};
  model.recipe.recipe.model.vocabulary = 257;
  const auto refusal = [&](const std::string& named) {
    try {
      tokenizer_for(model, named);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      return error.fields().what + ": " + error.fields().found;
    }
  };
  EXPECT_THAT(refusal(""), HasSubstr("not there"));
  const data::Tokenizer bytes = data::Tokenizer::bytes();
  bytes.save(model.tokenizer);
  EXPECT_EQ(refusal(""), "");
  model.tokenizer_sha256 = bytes.sha256();
  EXPECT_EQ(refusal(""), "");
  model.tokenizer_sha256 = std::string(64, '0');
  EXPECT_THAT(refusal(""), HasSubstr("trained with: " + bytes.sha256()));
  EXPECT_EQ(refusal("bytes"), "");  // asked for, and warned of
  model.recipe.recipe.model.vocabulary = 256;
  EXPECT_THAT(refusal("bytes"), HasSubstr("more entries than the model has rows: 257"));
}

}  // namespace
}  // namespace longhaul::cli
