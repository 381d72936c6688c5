// ctest: label=full timeout=600
// chat and export --gguf as a person or a script uses them, on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ChatCommands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    fs::create_directories(folder_->path() / "text");
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_->path() / "text" / (std::to_string(i) + ".txt"))
          << std::string(300, 'a') << i << "\n";
    std::ofstream(at("tiny.toml")) << "version = 1\n[model]\nfamily = \"llama\"\nlayers = 2\nhidden = "
                                      "32\nheads = 2\nkv_heads = 1\nhead_dim = 16\n"
                                      "vocabulary = 301\nmixers = [\"softmax\"]\nintermediate = "
                                      "32\nrotary_dim = 16\nwiring = \"pre_norm\"\n"
                                      "[data]\ntokenizer = \"bytes\"\n[train]\nsteps = 2\ndtype = "
                                      "\"fp32\"\nbatch = 2\nmicro_batch = 1\nsequence = 32\n"
                                      "evaluate_every = 0\n[sample]\ntokens = "
                                      "0\n[observe]\ncompression_baseline = false\nreport = false\n";
    std::ofstream(at("plain.jinja")) << "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor "
                                        "%}{% if style %}({{ style }}){% endif %}";
    const ProcessResult trained =
        longhaul({"train", at("tiny.toml"), "data.source=" + at("text"), "--run", at("run"), "--quiet"});
    ASSERT_EQ(trained.status, 0) << trained.errors;
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string at(const std::string& name) { return (folder_->path() / name).string(); }
  static ProcessResult longhaul(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program_file());
    return run_process(arguments, {cache_variable(at("cache"))}, 180);
  }
  // The lines on standard input.
  static ProcessResult chat(const std::string& lines, std::vector<std::string> more = {},
                            const std::string& jinja = "plain.jinja") {
    std::ofstream(at("lines")) << lines;
    more.insert(more.begin(), {program_file(), "chat", at("run"), "--template", at(jinja), "--temperature",
                               "0", "--tokens", "3"});
    std::string command;
    for (const std::string& word : more) command += shell_quoted(word) + " ";
    return run_process({"sh", "-c", command + "<" + shell_quoted(at("lines"))}, {cache_variable(at("cache"))},
                       180);
  }
  static TemporaryFolder* folder_;
};
TemporaryFolder* ChatCommands::folder_ = nullptr;

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

TEST_F(ChatCommands, LinesAreAnsweredAndTheConversationIsKept) {
  const ProcessResult talked =
      chat("first\n\nsecond \\\nline\n//x\n/save " + at("saved.json") + "\n", {"--json", "--system", "be"});
  ASSERT_EQ(talked.status, 0) << talked.errors;
  const auto answers = json_lines(talked.output);
  ASSERT_EQ(answers.size(), 3U) << "an empty line asks nothing";
  const nlohmann::json saved = nlohmann::json::parse(read_text(at("saved.json")));
  const nlohmann::json& messages = saved.at("messages");
  ASSERT_EQ(messages.size(), 7U);
  EXPECT_EQ(messages[0], (nlohmann::json{{"role", "system"}, {"content", "be"}}));
  EXPECT_EQ(messages[1]["content"], "first");
  EXPECT_EQ(messages[2]["content"], answers[0]["text"]);
  EXPECT_EQ(messages[3]["content"], "second \nline");
  EXPECT_EQ(messages[5]["content"], "/x");
  // What the model reads is what the template makes of all of it.
  const std::string first = "system: be\nuser: first\n";
  EXPECT_EQ(answers[0]["prompt_tokens"], first.size());
  EXPECT_EQ(answers[1]["prompt_tokens"], first.size() + 12 + answers[0]["text"].get<std::string>().size() +
                                             std::string("user: second \nline\n").size());

  // Continued from the file, the next answer is that of one long conversation.
  const ProcessResult more = chat("again\n", {"--json", "--load", at("saved.json")});
  ASSERT_EQ(more.status, 0) << more.errors;
  const ProcessResult whole = chat("first\nsecond \\\nline\n//x\nagain\n", {"--json", "--system", "be"});
  EXPECT_EQ(json_lines(more.output)[0]["text"], json_lines(whole.output)[3]["text"]);
  EXPECT_EQ(json_lines(more.output)[0]["prompt_tokens"], json_lines(whole.output)[3]["prompt_tokens"]);
}

TEST_F(ChatCommands, CommandsChangeWhatTheNextAnswerReads) {
  const auto answers = json_lines(
      chat("one\n/reset\n/system no\ntwo\n/undo\nthree\n/system\n/reset\nfour\n/quit\nfive\n", {"--json"})
          .output);
  ASSERT_EQ(answers.size(), 4U);
  const std::vector<std::string> read{"user: one\n", "system: no\nuser: two\n", "system: no\nuser: three\n",
                                      "user: four\n"};
  for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(answers[i]["prompt_tokens"], read[i].size()) << read[i];
  const auto told = json_lines(chat("one\n", {"--json", "--variables", R"({"style": "xyz"})"}).output);
  EXPECT_EQ(told[0]["prompt_tokens"], std::string("user: one\n(xyz)").size());
}

TEST_F(ChatCommands, ProseIsStreamedAndNothingElseIsPrinted) {
  const ProcessResult talked = chat("one\ntwo\n");
  ASSERT_EQ(talked.status, 0) << talked.errors;
  const auto answers = json_lines(chat("one\ntwo\n", {"--json"}).output);
  EXPECT_EQ(talked.output,
            answers[0]["text"].get<std::string>() + "\n" + answers[1]["text"].get<std::string>() + "\n");
}

TEST_F(ChatCommands, MistakesEndAScriptWithTheirCode) {
  const ProcessResult none = longhaul({"chat", at("run")});
  EXPECT_EQ(none.status, 65);
  EXPECT_THAT(none.errors, AllOf(HasSubstr("no chat template"), HasSubstr("--template FILE")));
  const ProcessResult unknown = chat("/rest\nnever asked\n");
  EXPECT_EQ(unknown.status, 64);
  EXPECT_THAT(unknown.errors, AllOf(HasSubstr("/rest"), HasSubstr("/reset")));
  EXPECT_EQ(unknown.output, "");
  EXPECT_EQ(chat("\xff\xfe\n").status, 64);
  EXPECT_EQ(chat("x\n", {"--variables", "[1]"}).status, 64);
  std::ofstream(at("bad.jinja")) << "a\n{% if %}";
  const ProcessResult bad = chat("x\n", {}, "bad.jinja");
  EXPECT_EQ(bad.status, 65);
  EXPECT_THAT(bad.errors, HasSubstr("bad.jinja:2"));
  std::ofstream(at("refuses.jinja")) << "{{ raise_exception('roles must alternate') }}";
  const ProcessResult refuses = chat("x\n", {}, "refuses.jinja");
  EXPECT_EQ(refuses.status, 65);
  EXPECT_THAT(refuses.errors, HasSubstr("roles must alternate"));
  std::ofstream(at("no.json")) << "{}";
  EXPECT_EQ(chat("x\n", {"--load", at("no.json")}).status, 65);
}

TEST_F(ChatCommands, AGgufFileIsWrittenOnceAndSaysWhatItHolds) {
  const ProcessResult written =
      longhaul({"export", at("run"), "--gguf", at("tiny.gguf"), "--type", "q8_0", "--json"});
  ASSERT_EQ(written.status, 0) << written.errors;
  const nlohmann::json report = nlohmann::json::parse(written.output);
  EXPECT_EQ(report["architecture"], "llama");
  EXPECT_EQ(report["bytes"], fs::file_size(at("tiny.gguf")));
  EXPECT_EQ(report["tokenizer"], true);
  EXPECT_EQ(report["tensors_of_type"], 16) << "seven matrices of each of two layers, embedding and head";
  EXPECT_EQ(report["chat_template"], false);
  EXPECT_EQ(read_text(at("tiny.gguf")).substr(0, 4), "GGUF");
  const ProcessResult taken = longhaul({"export", at("run"), "--gguf", at("tiny.gguf")});
  EXPECT_EQ(taken.status, 64);
  EXPECT_THAT(taken.errors, HasSubstr("taken"));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"--out", at("x"), "--gguf", at("y")},
                                             {"--out", at("x"), "--type", "f16"},
                                             {"--gguf", at("y"), "--dtype", "bf16"}}) {
    std::vector<std::string> command{"export", at("run")};
    command.insert(command.end(), words.begin(), words.end());
    EXPECT_EQ(longhaul(command).status, 64);
  }
  EXPECT_FALSE(fs::exists(at("x")) || fs::exists(at("y")));
  std::ofstream(at("run/chat_template.jinja")) << "{{ messages }}";
  const ProcessResult with = longhaul({"export", at("run"), "--gguf", at("with.gguf"), "--json"});
  EXPECT_EQ(nlohmann::json::parse(with.output)["chat_template"], true);
  fs::remove(at("run/chat_template.jinja"));
}

}  // namespace
}  // namespace longhaul::cli
