// ctest: label=full timeout=600
// sample --routes and score --replay-routes as a person types them, on a tiny model with experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/process/process.h"
#include "storage/safetensors.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RoutesCommands : public ::testing::Test {
 protected:
  RoutesCommands()
      : folder_(fs::temp_directory_path() / ("longhaul-routes-cli-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << std::string(300, 'a') << i << "\n";
    std::ofstream(at("tiny.toml"))
        << "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 1\nhead_dim = 16\n"
           "vocabulary = 257\nmixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n"
           "experts = 8\nexperts_per_token = 2\n"
           "[data]\ntokenizer = \"bytes\"\n[optim]\nlr = 0.02\n[train]\nsteps = 2\ndtype = \"fp32\"\nbatch = "
           "2\n"
           "micro_batch = 1\nsequence = 32\nevaluate_every = 0\n[sample]\ntokens = 0\n"
           "[observe]\ncompression_baseline = false\nreport = false\n";
  }
  ~RoutesCommands() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  ProcessResult longhaul(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program_file());
    return run_process(arguments, {cache_variable(at("cache"))}, 180);
  }
  void train(const std::string& run, std::vector<std::string> more) const {
    more.insert(more.begin(),
                {"train", at("tiny.toml"), "data.source=" + at("text"), "--quiet", "--run", at(run)});
    const ProcessResult trained = longhaul(more);
    ASSERT_EQ(trained.status, 0) << trained.errors;
  }
  void done(const std::vector<std::string>& words) const {
    const ProcessResult result = longhaul(words);
    ASSERT_EQ(result.status, 0) << result.errors;
  }
  // All tensors by name.
  std::map<std::string, std::vector<std::byte>> tensors(const std::string& name) const {
    const auto file = storage::SafetensorsFile::open(storage::LocalFileSystem(), at(name));
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& tensor : file.tensors()) all[tensor.name] = file.read(tensor.name);
    return all;
  }

  fs::path folder_;
};

TEST_F(RoutesCommands, ATextIsJudgedByTheExpertsThatWroteIt) {
  train("run", {});
  const ProcessResult sampled =
      longhaul({"sample", at("run"), "--prompt", "ab", "--tokens", "5", "--min-tokens", "5", "--count", "2",
                "--routes", at("texts"), "--json"});
  ASSERT_EQ(sampled.status, 0) << sampled.errors;
  EXPECT_THAT(sampled.errors,
              HasSubstr("routes of 14 tokens in 2 sequences, 2 of 8 experts each in 2 layers"));
  const auto written = tensors("texts");
  ASSERT_EQ(written.size(), 4u);
  EXPECT_EQ(written.at("layers.1.experts").size(), 14 * 2 * sizeof(int16_t));
  // Separator, prompt and all drawn tokens but the last, of each text.
  std::vector<int32_t> read;
  std::istringstream lines(sampled.output);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<int32_t> drawn = nlohmann::json::parse(line)["ids"];
    ASSERT_EQ(drawn.size(), 5u);
    read.insert(read.end(), {256, 'a', 'b', drawn[0], drawn[1], drawn[2], drawn[3]});
  }
  EXPECT_EQ(0, std::memcmp(written.at("ids").data(), read.data(), written.at("ids").size()));

  // Replayed on the model that wrote them they are its own, and the logits those of a pass that chooses.
  done(
      {"score", at("run"), "--replay-routes", at("texts"), "--routes", at("again"), "--out", at("replayed")});
  EXPECT_EQ(tensors("again"), written);
  std::ofstream(at("ids.json")) << nlohmann::json(std::vector<int32_t>(read.begin() + 7, read.end()));
  done({"score", at("run"), "--ids", at("ids.json"), "--routes", at("own"), "--out", at("logits")});
  const auto replayed = tensors("replayed").at("logits"), logits = tensors("logits").at("logits");
  ASSERT_EQ(replayed.size(), 2 * logits.size());
  EXPECT_TRUE(std::equal(logits.begin(), logits.end(),
                         replayed.begin() + static_cast<std::ptrdiff_t>(logits.size())));
  done({"score", at("run"), "--ids", at("ids.json"), "--replay-routes", at("own"), "--out", at("replayed")});
  EXPECT_EQ(tensors("replayed"), tensors("logits"));

  // Trained on, the router chooses others; the file's are used all the same.
  train("run", {"train.steps=12"});
  done({"score", at("run"), "--ids", at("ids.json"), "--routes", at("moved"), "--out", at("logits")});
  EXPECT_NE(tensors("moved"), tensors("own"));
  done({"score", at("run"), "--ids", at("ids.json"), "--replay-routes", at("own"), "--routes", at("again"),
        "--out", at("replayed")});
  EXPECT_EQ(tensors("again"), tensors("own"));
  EXPECT_NE(tensors("replayed"), tensors("logits"));
}

TEST_F(RoutesCommands, OfManyPromptsEveryOneIsRead) {
  train("run", {"train.steps=1"});
  std::ofstream(at("prompts.jsonl")) << nlohmann::json(std::string(600, 'a')) << "\n"
                                     << nlohmann::json(std::string(600, 'a')) << "\n";
  const ProcessResult sampled = longhaul({"sample", at("run"), "--prompts", at("prompts.jsonl"), "--tokens",
                                          "1", "--routes", at("texts"), "--json"});
  ASSERT_EQ(sampled.status, 0) << sampled.errors;
  EXPECT_THAT(sampled.errors, AllOf(HasSubstr("prefix cache: none (--routes"),
                                    HasSubstr("routes of 1,202 tokens in 2 sequences")));
}

TEST_F(RoutesCommands, RefusalsHaveTheirExitCodes) {
  train("run", {"train.steps=1"});
  train("dense", {"train.steps=1", "model.experts=0"});
  train("other", {"train.steps=1", "model.experts=4"});
  std::ofstream(at("ids.json")) << "[97, 97, 10]";
  std::ofstream(at("longer.json")) << "[97, 97, 10, 97]";
  std::ofstream(at("changed.json")) << "[97, 98, 10]";
  done({"score", at("run"), "--ids", at("ids.json"), "--routes", at("routes"), "--out", at("o")});
  const auto refused = [&](int status, std::vector<std::string> words, const auto& says) {
    words.insert(words.begin(), "score");
    words.insert(words.end(), {"--out", at("o")});
    const ProcessResult result = longhaul(words);
    EXPECT_EQ(result.status, status) << result.errors;
    EXPECT_THAT(result.errors, says);
  };
  refused(64, {at("run")}, AllOf(HasSubstr("nothing to score"), HasSubstr("--replay-routes")));
  refused(64, {at("dense"), "--ids", at("ids.json"), "--routes", at("r")}, HasSubstr("has no experts"));
  refused(64, {at("dense"), "--replay-routes", at("routes")}, HasSubstr("has no experts"));
  refused(65, {at("other"), "--replay-routes", at("routes")},
          AllOf(HasSubstr("of another model"), HasSubstr("experts = 4")));
  refused(65, {at("run"), "--ids", at("longer.json"), "--replay-routes", at("routes")},
          AllOf(HasSubstr("of other tokens"), HasSubstr("4 tokens"), HasSubstr("was never read")));
  refused(65, {at("run"), "--ids", at("changed.json"), "--replay-routes", at("routes")},
          AllOf(HasSubstr("of other tokens"), HasSubstr("98 in place 2 of 3")));
  refused(65, {at("run"), "--replay-routes", at("ids.json")}, HasSubstr("ids.json"));
  refused(65, {at("run"), "--replay-routes", at("nothing")}, HasSubstr("nothing"));
  const ProcessResult none =
      longhaul({"sample", at("run"), "--prompt", "a", "--tokens", "0", "--routes", at("r")});
  EXPECT_EQ(none.status, 64);
  EXPECT_THAT(none.errors, HasSubstr("--tokens 1"));
  EXPECT_EQ(longhaul({"sample", at("dense"), "--prompt", "a", "--routes", at("r")}).status, 64);
}

}  // namespace
}  // namespace longhaul::cli
