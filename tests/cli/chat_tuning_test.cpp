// ctest: label=full timeout=600
// train.task = "chat" as a person types it: trained from nothing, talked with, exported, imported, tuned on,
// and continued bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/process.h"
#include "observe/events/event_log.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ChatTuning : public ::testing::Test {
 protected:
  ChatTuning() {
    std::ofstream rows(folder_ / "talks.jsonl");
    for (int i = 0; i < 90; ++i) {
      rows << R"({"conversations": [{"from": "human", "value": "say )" << i
           << R"("}, {"from": "gpt", "value": ")" << std::string(i % 20, 'a') << i
           << R"("}, {"from": "human", "value": "again"}, {"from": "gpt", "value": ")" << i << "\"}]}\n";
    }
    std::ofstream(folder_ / "tiny.toml")
        << "version = 1\n[model]\nfamily = \"llama\"\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = "
           "1\nhead_dim = 16\n"
           "vocabulary = 259\nmixers = [\"softmax\"]\nintermediate = 32\nrotary_dim = 16\nwiring = "
           "\"pre_norm\"\n"
           "[data]\ntokenizer = \"bytes\"\nstop_tokens = [\"<|im_end|>\"]\nheld_out_percent = 10\n"
           "[chat]\ntemplate = \"chatml\"\nnew_tokens = \"<|im_start|>,<|im_end|>\"\n"
        << common();
    std::ofstream(folder_ / "on.toml") << "version = 1\n" << common();  // no model, no tokenizer, no template
  }
  static std::string common() {
    return "[train]\ntask = \"chat\"\nsteps = 4\ndtype = \"fp32\"\nbatch = 4\nmicro_batch = 2\nsequence = "
           "160\nevaluate_every = 0\nthreads = 1\n"
           "checkpoint_every = 2\n[optim]\nschedule = \"constant\"\nlr = 1e-3\n[sample]\ntokens = 4\n"
           "[observe]\ncompression_baseline = false\nreport = false\ntensorboard = false\n";
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  ProcessResult longhaul(std::vector<std::string> words) const {
    words.insert(words.begin(), program_file());
    return run_process(words, {cache_variable(at("cache")), "NO_COLOR=1"}, 240);
  }
  ProcessResult train(const std::string& recipe, const std::string& run,
                      std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"train", at(recipe), "data.source=" + at("talks.jsonl"), "--run", at(run)});
    return longhaul(more);
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> all;
    for (const auto& event : observe::read_events(folder_ / run / "events.jsonl")) {
      if (const auto* step = std::get_if<observe::StepReport>(&event.body)) all.push_back(step->loss);
    }
    return all;
  }
  std::string weights(const std::string& run, int step) const {
    std::string all;
    for (const auto& file : fs::recursive_directory_iterator(folder_ / run / "checkpoints")) {
      const bool of_step =
          file.path().parent_path().filename().string().starts_with(fmt::format("step-{:09}", step));
      if (of_step && file.path().filename().string().starts_with("model")) all += read_text(file.path());
    }
    EXPECT_FALSE(all.empty()) << run;
    return all;
  }
  TemporaryFolder folder_;
};

TEST_F(ChatTuning, TrainsTalksGoesOutComesInAndIsTunedOn) {
  const ProcessResult trained = train("tiny.toml", "run");
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_THAT(trained.output + trained.errors,
              AllOf(HasSubstr("rows of the form sharegpt"), HasSubstr("2 new special tokens"),
                    HasSubstr("What is learnt"), HasSubstr("<|im_start|>assistant\n⟦"),
                    HasSubstr("chat " + at("run"))));
  EXPECT_TRUE(fs::exists(folder_ / "run" / "chat_template.jinja"));
  const ProcessResult talked = run_process(
      {"sh", "-c",
       "echo hello | " + std::string(program_file()) + " chat " + at("run") + " --json --tokens 3"},
      {cache_variable(at("cache"))}, 120);
  ASSERT_EQ(talked.status, 0) << talked.errors;
  EXPECT_THAT(talked.output, HasSubstr("\"finish\""));

  const ProcessResult exported = longhaul({"export", at("run"), "--out", at("exported")});
  ASSERT_EQ(exported.status, 0) << exported.errors;
  EXPECT_THAT(read_text(folder_ / "exported" / "chat_template.jinja"), HasSubstr("{% generation %}"));
  EXPECT_EQ(
      nlohmann::json::parse(read_text(folder_ / "exported" / "generation_config.json")).at("eos_token_id"),
      (nlohmann::json{258, 256}));
  EXPECT_THAT(read_text(folder_ / "exported" / "tokenizer.json"), HasSubstr("<|im_end|>"));

  const ProcessResult on = train("on.toml", "on", {"--from", at("exported"), "train.steps=2"});
  ASSERT_EQ(on.status, 0) << on.errors;
  EXPECT_THAT(on.output + on.errors, HasSubstr("exported/chat_template.jinja"))
      << "the template of the model";
  EXPECT_TRUE(fs::exists(folder_ / "on" / "published" / "chat_template.jinja"));
  EXPECT_FALSE(fs::exists(folder_ / "on" / "chat_template.jinja"));
  const ProcessResult further = train("on.toml", "on", {"--from", at("exported"), "train.steps=4"});
  ASSERT_EQ(further.status, 0) << further.errors;
  EXPECT_EQ(longhaul({"export", at("on"), "--out", at("again")}).status, 0);
  EXPECT_EQ(read_text(folder_ / "again" / "chat_template.jinja"),
            read_text(folder_ / "exported" / "chat_template.jinja"));
}

TEST_F(ChatTuning, GoesOnBitForBitAndIsTheSameOnSeveralRanks) {
  ASSERT_EQ(train("tiny.toml", "straight").status, 0);
  ASSERT_EQ(train("tiny.toml", "stopped", {"train.steps=2"}).status, 0);
  ASSERT_EQ(train("tiny.toml", "stopped").status, 0);
  EXPECT_EQ(weights("stopped", 4), weights("straight", 4));
  const std::vector<double> straight = losses("straight");
  ASSERT_EQ(straight.size(), 4u);
  for (const char* layout : {"parallel.ranks=2", "parallel.tp=2", "parallel.pp=2"}) {
    const std::string run = std::string("on-") + layout;
    const ProcessResult trained = train("tiny.toml", run, {layout});
    ASSERT_EQ(trained.status, 0) << layout << trained.errors;
    const std::vector<double> found = losses(run);
    ASSERT_EQ(found.size(), 4u) << layout;
    for (size_t step = 0; step < 4; ++step)
      EXPECT_NEAR(found[step], straight[step], 2e-5) << layout << ", step " << step + 1;
  }
}

TEST_F(ChatTuning, AModelWithoutTheTokensOfATemplateGetsRowsForThem) {
  ASSERT_EQ(train("tiny.toml", "plain",
                  {"model.vocabulary=257", "chat.new_tokens=", "data.stop_tokens=[]", "train.sequence=400"})
                .status,
            0);
  ASSERT_EQ(longhaul({"export", at("plain"), "--out", at("published")}).status, 0);
  const std::vector<std::string> words{"--from", at("published"), "chat.template=chatml",
                                       "chat.new_tokens=<|im_start|>,<|im_end|>"};
  std::vector<std::string> grown = words;
  const ProcessResult lacking = train("on.toml", "grown", words);
  EXPECT_EQ(lacking.status, 65);
  EXPECT_THAT(lacking.errors, HasSubstr("model.vocabulary=259"));
  grown.push_back("model.vocabulary=259");
  const ProcessResult trained = train("on.toml", "grown", grown);
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_THAT(trained.output + trained.errors, HasSubstr("the vocabulary grows from 257 to 259 rows"));
  ASSERT_EQ(longhaul({"export", at("grown"), "--out", at("grown-out")}).status, 0);
  EXPECT_THAT(read_text(folder_ / "grown-out" / "tokenizer.json"), HasSubstr("<|im_end|>"));
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "grown-out" / "config.json")).at("vocab_size"), 259);
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "grown-out" / "generation_config.json"))
                .at("eos_token_id")[0],
            258);
}

TEST_F(ChatTuning, ShowsWhatIsLearntBeforeAnythingIsTrained) {
  const ProcessResult prepared =
      longhaul({"data", "prepare", at("tiny.toml"), "data.source=" + at("talks.jsonl"), "--documents", "1"});
  ASSERT_EQ(prepared.status, 0) << prepared.errors;
  EXPECT_THAT(prepared.output,
              AllOf(HasSubstr("⟦0<|im_end|>⟧"), HasSubstr("<|im_start|>user\nagain<|im_end|>"),
                    HasSubstr("labels count in the loss")));
  const ProcessResult json = longhaul(
      {"data", "prepare", at("tiny.toml"), "data.source=" + at("talks.jsonl"), "--documents", "1", "--json"});
  ASSERT_EQ(json.status, 0) << json.errors;
  const auto parts = nlohmann::json::parse(json.output).at("sources")[0].at("shown_documents")[0].at("parts");
  EXPECT_EQ(parts[1].at("text"), "0<|im_end|>");
  EXPECT_EQ(parts[1].at("weight"), 1.0);
  EXPECT_FALSE(parts.back().at("ends_document"));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(ChatTuning, ABadSampleStopsTheStartAndNothingIsLeft) {
  std::ofstream(folder_ / "bad.jsonl") << "{\"prompt\": \"q\", \"completion\": \"a\"}\n{\"prompt\": \"q\"}\n";
  const ProcessResult trained =
      longhaul({"train", at("tiny.toml"), "data.source=" + at("bad.jsonl"), "--run", at("bad")});
  EXPECT_EQ(trained.status, 65);
  EXPECT_THAT(trained.errors, AllOf(HasSubstr("bad.jsonl:2"), HasSubstr("fields prompt"),
                                    HasSubstr("data.skip_bad_lines=true")));
  // the claim of a start stays
  for (const auto& entry : fs::directory_iterator(folder_ / "bad" / "checkpoints"))
    EXPECT_EQ(entry.path().filename(), ".generations");
  EXPECT_FALSE(fs::exists(folder_ / "bad" / "chat_template.jinja"));
}

}  // namespace
}  // namespace longhaul::cli
