// ctest: label=full timeout=600
// export, import and train --from as a person types them: a tiny model goes out, comes in again and is
// trained on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/process/process.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PublishedCommands : public ::testing::Test {
 protected:
  PublishedCommands()
      : folder_(fs::temp_directory_path() / ("longhaul-published-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << std::string(300, 'a') << i << "\n";
    std::ofstream(folder_ / "ids.json") << "[97, 97, 10, 98, 256]";
    const std::string training =
        "[train]\nsteps = 2\ndtype = \"fp32\"\nbatch = 2\nmicro_batch = 1\nsequence = 32\nevaluate_every = "
        "0\n[sample]\ntokens = 0\n"
        "[observe]\ncompression_baseline = false\nreport = false\n";
    std::ofstream(folder_ / "first.toml")
        << "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 1\nhead_dim = 16\n"
           "vocabulary = 301\nmixers = [\"softmax\"]\nintermediate = 32\nrotary_dim = 16\n"
           "[data]\ntokenizer = \"bytes\"\n"
        << training;
    std::ofstream(folder_ / "on.toml") << "version = 1\n" << training;  // no model, no tokenizer
  }
  ~PublishedCommands() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  ProcessResult longhaul(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program_file());
    return run_process(arguments, {cache_variable(at("cache"))}, 180);
  }
  void train(const std::string& recipe, std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", at(recipe), "data.source=" + at("text"), "--quiet"});
    const ProcessResult trained = longhaul(more);
    ASSERT_EQ(trained.status, 0) << trained.errors;
  }
  std::string logits(const std::string& checkpoint) const {
    const ProcessResult scored = longhaul(
        {"score", at(checkpoint), "--ids", at("ids.json"), "--out", at("logits"), "--dtype", "fp32"});
    EXPECT_EQ(scored.status, 0) << scored.errors;
    return read_text(folder_ / "logits");
  }
  fs::path folder_;
};

TEST_F(PublishedCommands, OutAndInAndOn) {
  train("first.toml", {"--run", at("run")});
  const std::string before = logits("run");

  const ProcessResult exported = longhaul({"export", at("run"), "--out", at("exported")});
  ASSERT_EQ(exported.status, 0) << exported.errors;
  EXPECT_THAT(exported.output, AllOf(HasSubstr("LlamaForCausalLM"), HasSubstr("step 2")));
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
    EXPECT_TRUE(fs::exists(folder_ / "exported" / name)) << name;

  const ProcessResult imported = longhaul({"import", at("exported"), "--out", at("imported")});
  ASSERT_EQ(imported.status, 0) << imported.errors;
  EXPECT_THAT(imported.output, AllOf(HasSubstr("mapped"), HasSubstr("missing"), HasSubstr("forward check"),
                                     HasSubstr("257 entries")));
  EXPECT_EQ(logits("imported"), before);
  const ProcessResult sampled = longhaul({"sample", at("imported"), "--prompt", "aaa", "--tokens", "2"});
  EXPECT_EQ(sampled.status, 0) << sampled.errors;

  // A rate that moves nothing: the weights are those that it began with, of a folder and of a checkpoint, on
  // several ranks too.
  const std::vector<std::string> still = {"optim.lr=1e-30", "train.steps=1"};
  for (const auto& [run, from, ranks] : {std::tuple{"of-folder", "exported", 1},
                                         {"of-checkpoint", "imported", 1},
                                         {"of-ranks", "exported", 2}}) {
    std::vector<std::string> words = {"--from", at(from), "--run", at(run)};
    words.insert(words.end(), still.begin(), still.end());
    if (ranks > 1)
      words.insert(words.end(),
                   {"parallel.ranks=2", "parallel.pp=2", "train.batch=4", "train.micro_batch=1"});
    train("on.toml", words);
    EXPECT_EQ(logits(run), before) << run;
  }
  // The run goes on from its own checkpoint, needs nothing any more of what it began with, wherever its texts
  // lie now, and is exported with what the weights came with.
  fs::rename(folder_ / "exported", folder_ / "gone");
  fs::rename(folder_ / "text", folder_ / "moved");
  const ProcessResult goes_on =
      longhaul({"train", at("on.toml"), "data.source=" + at("moved"), "--from", at("exported"), "--run",
                at("of-folder"), "optim.lr=1e-30", "train.steps=2", "--quiet"});
  ASSERT_EQ(goes_on.status, 0) << goes_on.errors;
  std::ofstream(folder_ / "moved" / "more.txt") << "another text";
  const ProcessResult changed =
      longhaul({"train", at("on.toml"), "data.source=" + at("moved"), "--from", at("exported"), "--run",
                at("of-folder"), "optim.lr=1e-30", "train.steps=3", "--quiet"});
  EXPECT_EQ(changed.status, 65);
  EXPECT_THAT(changed.errors, HasSubstr("the training text changed"));
  fs::rename(folder_ / "gone", folder_ / "exported");
  fs::remove(folder_ / "moved" / "more.txt");
  fs::rename(folder_ / "moved", folder_ / "text");
  const ProcessResult again = longhaul({"export", at("of-folder"), "--out", at("again"), "--json"});
  ASSERT_EQ(again.status, 0) << again.errors;
  EXPECT_EQ(nlohmann::json::parse(again.output)["step"], 2);
  EXPECT_EQ(read_text(folder_ / "again" / "tokenizer.json"),
            read_text(folder_ / "exported" / "tokenizer.json"));

  const ProcessResult other = longhaul({"train", at("first.toml"), "data.source=" + at("text"),
                                        "model.hidden=48", "--from", at("exported"), "--run", at("no")});
  EXPECT_EQ(other.status, 64);
  EXPECT_THAT(other.errors,
              AllOf(HasSubstr("model.hidden = 32 there, 48 here"), HasSubstr("leave [model] out")));
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(PublishedCommands, ADenseModelBecomesOneWithExperts) {
  train("first.toml", {"--run", at("dense")});
  train("on.toml", {"--from", at("dense"), "--run", at("experts"), "model.experts=4", "model.intermediate=16",
                    "parallel.ranks=2", "parallel.ep=2", "parallel.zero=3"});
  EXPECT_EQ(longhaul({"sample", at("experts"), "--prompt", "aaa", "--tokens", "2"}).status, 0);
  const ProcessResult refused =
      longhaul({"train", at("on.toml"), "data.source=" + at("text"), "--from", at("dense"), "--run", at("no"),
                "model.experts=4", "model.intermediate=24"});
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("model.intermediate = 32"), HasSubstr("24 (command line)")));
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(PublishedCommands, BadFoldersHaveExitCode65AndLeaveNothing) {
  fs::create_directories(folder_ / "empty");
  const ProcessResult refused = longhaul({"import", at("empty"), "--out", at("out")});
  EXPECT_EQ(refused.status, 65) << refused.errors;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_EQ(longhaul({"export", at("empty"), "--out", at("out")}).status, 66);
  EXPECT_EQ(longhaul({"export", at("empty"), "--out", at("out"), "--dtype", "fp8"}).status, 64);
}

}  // namespace
}  // namespace longhaul::cli
