// Conversations as token shards: ids and weights by hand, for a tokenizer of one id a byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files/temporary_folder.h"
#include "data/template_tokenizer.h"
#include "posttrain/chat/chat_data.h"
#include "posttrain/chat/new_tokens.h"
#include "posttrain/chat/prepare_chat.h"
#include "posttrain/chat/shown_samples.h"
#include "recipe/load.h"

namespace longhaul::posttrain {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int32_t kStart = 257, kEnd = 258;
constexpr const char* kShortTemplate =
    "{% for m in messages %}<s>{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}<s>{% endif %}";

class PrepareChat : public ::testing::Test {
 protected:
  PrepareChat() { write("t.jinja", kShortTemplate); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  static std::string pair(const std::string& question, const std::string& answer,
                          const std::string& more = "") {
    return R"({"prompt": ")" + question + R"(", "completion": ")" + answer + "\"" + more + "}\n";
  }
  data::PreparedSource prepare(const std::string& name, int64_t held_out_percent = 0,
                               std::vector<const data::TokenDataset*> validation = {}) {
    const auto format = data::chat::ChatFormat::of_file(folder_ / "t.jinja", folder_.path());
    const ChatPreparation how{{format, tokenizer_, learnt_}, options_, data_, sequence_};
    return prepare_chat(
        {folder_ / name, conversation_files(folder_ / name), held_out_percent, std::move(validation)}, how,
        folder_ / "cache");
  }
  std::string refusal(const std::string& name, int64_t held_out_percent = 0) {
    try {
      prepare(name, held_out_percent);
    } catch (const Error& error) {
      return fmt::format("{} | {} | {} | {} | {}", error.fields().what, error.fields().expected,
                         error.fields().found, error.fields().where, error.fields().hint);
    }
    return "";
  }
  static std::vector<int64_t> ids_of(const data::TokenDataset& dataset, int64_t document) {
    std::vector<int64_t> ids(static_cast<size_t>(dataset.length(document)));
    dataset.read(document, 0, ids);
    return ids;
  }
  static std::vector<float> weights_of(const data::TokenDataset& dataset, int64_t document) {
    std::vector<float> weights(static_cast<size_t>(dataset.labels(document)));
    dataset.read_weights(document, 0, weights);
    return weights;
  }

  TemporaryFolder folder_;
  data::Tokenizer tokenizer_ = data::bytes_with(std::string(data::kEndOfDocument), {"<s>", "<e>"});
  ChatOptions options_;
  recipe::DataOptions data_;
  LearntPart learnt_ = LearntPart::kAnswers;
  int64_t sequence_ = 8;
};

TEST_F(PrepareChat, WritesIdsAndWhatEachWeighs) {
  write("a.jsonl", pair("q", "ab") + pair("q", "c", R"(, "weight": 0.5)"));
  const data::PreparedSource made = prepare("a.jsonl");
  ASSERT_EQ(made.train.documents(), 2);
  EXPECT_THAT(ids_of(made.train, 0), ElementsAre(kStart, 'q', kEnd, kStart, 'a', 'b', kEnd));
  EXPECT_THAT(weights_of(made.train, 0), ElementsAre(0, 0, 0, 1, 1, 1)) << "the end of the answer counts";
  EXPECT_THAT(weights_of(made.train, 1), ElementsAre(0, 0, 0, 0.5, 0.5));
  EXPECT_EQ(made.train.text_bytes(0), 3 + 1 + 3 + 3 + 2 + 3);
  EXPECT_FALSE(made.reused);
  EXPECT_TRUE(prepare("a.jsonl").reused);
  learnt_ = LearntPart::kAll;
  EXPECT_FALSE(prepare("a.jsonl").reused) << "another rule makes other data";
  EXPECT_THAT(weights_of(prepare("a.jsonl").train, 0), ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST_F(PrepareChat, APlainTextIsADocumentOfPreTraining) {
  write("a.jsonl", "{\"text\": \"ab\"}\n");
  const data::PreparedSource made = prepare("a.jsonl");
  EXPECT_THAT(ids_of(made.train, 0), ElementsAre(256, 'a', 'b', 256));
  EXPECT_FALSE(made.train.weighted());
}

TEST_F(PrepareChat, SamplesThatAreTooLongAreLeftOutOrCut) {
  // 9, 10, 16 and 6 tokens
  write("a.jsonl", pair("q", "abcd") + pair("q", "abcde") + pair("qqqqqqqqqqq", "a") + pair("q", "x"));
  const data::PreparedSource dropped = prepare("a.jsonl");
  ASSERT_EQ(dropped.train.documents(), 2) << "8 inputs fit, with a label for each";
  EXPECT_EQ(dropped.train.length(0), 9);
  options_.cut_too_long = true;
  const data::PreparedSource cut = prepare("a.jsonl");
  ASSERT_EQ(cut.train.documents(), 3) << "of the third nothing that is learnt is left";
  EXPECT_THAT(ids_of(cut.train, 1), ElementsAre(kStart, 'q', kEnd, kStart, 'a', 'b', 'c', 'd', 'e'));
  const auto chat = data::read_checked_json(cut.folder / "dataset.json").at("chat");
  EXPECT_EQ(chat.at("cut"), 1);
  EXPECT_EQ(chat.at("too_long"), 1);
  EXPECT_EQ(data::read_checked_json(dropped.folder / "dataset.json").at("chat").at("too_long"), 2);
}

TEST_F(PrepareChat, WhatWeighsNothingIsLeftOutAndCopiesToo) {
  write("a.jsonl", pair("q", "a", R"(, "weight": 0)") + pair("q", "b") + pair("q", "b") + pair("q", "c"));
  const data::PreparedSource made = prepare("a.jsonl");
  EXPECT_EQ(made.train.documents(), 2);
  EXPECT_EQ(made.counts.copies, 1);
  EXPECT_EQ(data::read_checked_json(made.folder / "dataset.json").at("chat").at("without_weight"), 1);
  data_.remove_copies = false;
  EXPECT_EQ(prepare("a.jsonl").train.documents(), 3);
}

TEST_F(PrepareChat, HoldsOutByContentAndNeverTrainsOnValidation) {
  std::string rows;
  for (int i = 0; i < 200; ++i) rows += pair("q", std::to_string(i));
  write("a.jsonl", rows);
  const data::PreparedSource made = prepare("a.jsonl", 20);
  EXPECT_EQ(made.train.documents() + made.held_out.documents(), 200);
  EXPECT_GT(made.held_out.documents(), 20);
  EXPECT_LT(made.held_out.documents(), 60);
  write("v.jsonl", pair("q", "7") + pair("q", "8"));
  const data::PreparedSource validation = prepare("v.jsonl", 100);
  EXPECT_EQ(validation.held_out.documents(), 2);
  EXPECT_EQ(prepare("a.jsonl", 0, {&validation.held_out}).train.documents(), 198);
}

TEST_F(PrepareChat, ReadsArraysFoldersAndCompressedFilesEachInItsForm) {
  write("f/a.json", R"([{"instruction": "i", "input": "", "output": "o"},
 {"instruction": "j", "output": "p"}])");
  write("f/b.jsonl", "\n" + pair("q", "a"));
  write("f/notes.txt", "not read");
  write("f/state.json", "{}");  // of a folder that `datasets` saved
  const data::PreparedSource made = prepare("f");
  ASSERT_EQ(made.train.documents(), 3);
  EXPECT_THAT(ids_of(made.train, 1), ElementsAre(kStart, 'j', kEnd, kStart, 'p', kEnd));
}

TEST_F(PrepareChat, NamesFileAndLineOfTheFirstBadRow) {
  write("a.jsonl", pair("q", "a") + "\n" + R"({"prompt": "q", "completion": ""})" + "\n");
  EXPECT_THAT(refusal("a.jsonl"), AllOf(HasSubstr("a sample cannot be learnt: an answer is empty"),
                                        HasSubstr("a.jsonl:3"), HasSubstr("data.skip_bad_lines=true")));
  write("b.jsonl", pair("q", "a") + "{\"prompt\": \n");
  EXPECT_THAT(refusal("b.jsonl"), AllOf(HasSubstr("a line is no JSON"), HasSubstr("b.jsonl:2")));
  write("c.jsonl", "{\"question\": \"q\", \"answer\": \"a\"}\n");
  EXPECT_THAT(refusal("c.jsonl"), AllOf(HasSubstr("\"messages\" of role and content"),
                                        HasSubstr("fields question, answer"), HasSubstr("c.jsonl:1")));
  write("d.jsonl", "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}\n");
  EXPECT_THAT(refusal("d.jsonl"), HasSubstr("train.task=preference"));
  write("e.jsonl", pair("q", "a") + "{\"text\": \"t\"}\n");
  EXPECT_THAT(refusal("e.jsonl"), AllOf(HasSubstr("another form than its file"), HasSubstr("fields text")));
  EXPECT_THAT(refusal("nowhere"), HasSubstr("no such file or folder"));
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache"))
    EXPECT_NE(entry.path().filename(), "dataset.json");
}

TEST_F(PrepareChat, CountsBadRowsThatAreLeftOut) {
  data_.skip_bad_lines = true;
  write("a.jsonl", pair("q", "a") + pair("q", "") + "{\n" + pair("q", "b") +
                       R"({"prompt": 3, "completion": "c"})" + "\n" + pair("q", " "));
  const data::PreparedSource made = prepare("a.jsonl");
  EXPECT_EQ(made.train.documents(), 2);
  EXPECT_EQ(made.counts.bad_lines, 4);
  EXPECT_EQ(data::read_checked_json(made.folder / "dataset.json").at("chat").at("bad"),
            nlohmann::json::parse(
                R"({"an answer is empty": 2, "a line is no JSON": 1, "a field is not text": 1})"));
}

TEST_F(PrepareChat, NothingToLearnFromIsAnError) {
  write("empty.jsonl", "");
  EXPECT_THAT(refusal("empty.jsonl"), HasSubstr("the conversations leave nothing to learn from"));
  write("long.jsonl", pair("qqqqqqqqqqqqqqqq", "a"));
  EXPECT_THAT(refusal("long.jsonl"), HasSubstr("1 too long"));
  fs::create_directories(folder_ / "none");
  EXPECT_THAT(refusal("none"), HasSubstr("no such file in the folder"));
}

TEST_F(PrepareChat, ShowsWhatIsLearntInColourOrBetweenMarks) {
  write("a.jsonl", pair("q", "ab"));
  const data::PreparedSource made = prepare("a.jsonl");
  const std::string plain = shown_samples(made.train, 3, tokenizer_, false);
  EXPECT_THAT(plain, HasSubstr("sample 1 of 1: 7 tokens, 3 learnt\n<s>q<e><s>⟦ab<e>⟧\n"));
  EXPECT_THAT(shown_samples(made.train, 3, tokenizer_, true),
              HasSubstr("\x1b[2m<s>q<e><s>\x1b[0m\x1b[1;32mab<e>\x1b[0m"));
}

TEST_F(PrepareChat, ALongSampleIsShortenedInTheMiddle) {
  sequence_ = 2000;
  write("a.jsonl", pair(std::string(700, 'q'), std::string(300, 'a')));
  const std::string shown = shown_sample(prepare("a.jsonl").train, 0, tokenizer_, false);
  EXPECT_THAT(shown, HasSubstr("1,004 tokens, 301 learnt"));
  EXPECT_THAT(shown, HasSubstr("… 604 tokens left out here …"));
}

TEST(NewTokens, AreSpecialAndFollowTheOthers) {
  const data::Tokenizer old = data::bytes_with("<|eod|>", {"<s>"});
  const GrownTokenizer grown = with_special_tokens(old, {"<s>", "<x>", "<y>", "<x>"});
  EXPECT_THAT(grown.added, ElementsAre("<x>", "<y>"));
  EXPECT_EQ(grown.tokenizer.vocabulary(), 260);
  EXPECT_THAT(grown.tokenizer.encode("a<y><s>"), ElementsAre('a', 259, 257));
  EXPECT_TRUE(grown.tokenizer.is_special(258));
  EXPECT_EQ(with_special_tokens(grown.tokenizer, {"<x>", "<y>"}).tokenizer.sha256(), grown.tokenizer.sha256())
      << "nothing is lacking";
  EXPECT_THROW(with_special_tokens(old, {"a"}), Error) << "an ordinary token";
  EXPECT_THROW(with_special_tokens(old, {""}), Error);
}

// The data of a run, as its recipe says.
class ChatData : public PrepareChat {
 protected:
  data::RunData open(std::vector<std::string> more, const fs::path& run = {}, const fs::path& from = {}) {
    recipe::add_outside_options(declare_chat);
    more.insert(more.begin(), {"train.task=chat", "data.tokenizer=bytes", "train.sequence=64",
                               "data.source=" + (folder_ / "a.jsonl").string(), "data.held_out_percent=0"});
    recipe_ = recipe::load_defaults(more).recipe;
    return open_chat_data(
        {.recipe = recipe_, .cache = folder_ / "cache", .run = run, .from = from, .quiet = true});
  }
  recipe::Recipe recipe_;
};

TEST_F(ChatData, TakesTheTemplateOfTheOptionThenOfTheRunThenOfTheModel) {
  write("a.jsonl", pair("q", "a"));
  write("run/chat_template.jinja", "R{% for m in messages %}{{ m.content }};{% endfor %}");
  write("model/config.json", "{}");
  write(
      "model/tokenizer_config.json",
      R"({"chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }};{% endfor %}", "bos_token": "B"})");
  const auto begins = [](const data::RunData& data) {
    return data.tokenizer.decode(std::vector<int32_t>{static_cast<int32_t>(ids_of(*data.train()[0], 0)[0])});
  };
  const data::RunData of_model = open({}, folder_ / "none", folder_ / "model");
  EXPECT_EQ(begins(of_model), "B");
  EXPECT_THAT(of_model.files, IsEmpty()) << "the files of the model are carried along";
  const data::RunData of_run = open({}, folder_ / "run", folder_ / "model");
  EXPECT_EQ(begins(of_run), "R");
  EXPECT_EQ(of_run.files.count("chat_template.jinja"), 1u);
  const data::RunData named = open({"chat.template=chatml"}, folder_ / "run", folder_ / "model");
  EXPECT_EQ(begins(named), "<");
  EXPECT_EQ(named.files.at("chat_template.jinja"), built_in_template("chatml"));
  EXPECT_THROW(open({}), Error) << "none";
  EXPECT_THROW(open({"chat.template=" + (folder_ / "no.jinja").string()}), Error);
}

TEST_F(ChatData, GivesTheTokenizerItsNewTokensAndTrainsOneOnTheMessages) {
  write("a.jsonl", pair("who sees who", "who sees"));
  const data::RunData grown = open(
      {"chat.template=chatml", "chat.new_tokens=<|im_start|>, <|im_end|>", "data.stop_tokens=<|im_end|>"});
  EXPECT_THAT(ids_of(*grown.train()[0], 0),
              ElementsAre(257, 'u', 's', 'e', 'r', '\n', 'w', 'h', 'o', ' ', 's', 'e', 'e', 's', ' ', 'w',
                          'h', 'o', 258, '\n', 257, 'a', 's', 's', 'i', 's', 't', 'a', 'n', 't', '\n', 'w',
                          'h', 'o', ' ', 's', 'e', 'e', 's', 258, '\n'));
  EXPECT_THAT(grown.tokenizer.stop_ids(), ::testing::Contains(258));
  EXPECT_EQ(grown.train()[0]->counted_labels(), 8 + 1);
  const data::RunData trained =
      open({"chat.template=chatml", "data.tokenizer=train", "data.vocabulary=262", "train.sequence=128"});
  EXPECT_LT(trained.tokenizer.encode("who sees").size(), 8u);
}

TEST_F(ChatData, RefusesWhatCannotBeRead) {
  write("a.jsonl", pair("q", "a"));
  EXPECT_THROW(open({"chat.template=chatml", "chat.variables={"}), Error);
  EXPECT_THROW(open({"chat.template=chatml", "train.objective=masked"}), Error);
  EXPECT_THROW(open({"chat.template=chatml", "chat.loss_on=questions"}), Error);
}

}  // namespace
}  // namespace longhaul::posttrain
