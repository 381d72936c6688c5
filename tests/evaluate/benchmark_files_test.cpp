// Files of MR-NIAH and LongBench: what is asked, how it is scored, what is refused; and texts that are too
// long, with and without a chat template.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "evaluate/known_answers.h"
#include "evaluate/longbench.h"
#include "evaluate/mr_niah.h"

namespace longhaul::evaluate {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Says the same whatever is asked, and keeps what was asked.
class Says final : public Answers {
 public:
  explicit Says(std::string text) : text_(std::move(text)) {}
  std::vector<std::vector<Judged>> judge(std::span<const Passage>) override { return {}; }
  std::vector<int64_t> complete(std::span<const int64_t> prompt, int64_t tokens,
                                std::span<const int64_t> stops) override {
    prompts.emplace_back(prompt.begin(), prompt.end());
    stops_.assign(stops.begin(), stops.end());
    const std::string said = text_.substr(0, static_cast<size_t>(tokens));
    return {said.begin(), said.end()};
  }
  std::string prompt(size_t i) const {
    const std::vector<int32_t> ids(prompts[i].begin(), prompts[i].end());
    return data::Tokenizer::bytes().decode(ids, /*skip_special=*/true);
  }
  std::vector<std::vector<int64_t>> prompts;
  std::vector<int64_t> stops_;

 private:
  std::string text_;
};

class BenchmarkFiles : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_text_atomically(folder_ / name, text);
    return folder_ / name;
  }
  template <class Read>
  void expect_refused(const Read& read, const std::string& where, const std::string& expected) const {
    try {
      read();
      FAIL() << "no refusal of what should stand at " << where;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_THAT(error.fields().where, EndsWith(where));
      EXPECT_THAT(error.fields().expected, HasSubstr(expected));
    }
  }
  TemporaryFolder folder_;
};

std::string conversation(const std::vector<std::string>& contents, const std::string& label, int64_t length) {
  nlohmann::json messages = nlohmann::json::array();
  for (size_t i = 0; i < contents.size(); ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", contents[i]}});
  return nlohmann::json{{"messages", messages}, {"label", label}, {"length_class", length}}.dump() + "\n";
}

TEST(MrNiah, ALabelHasParts) {
  EXPECT_THAT(components_of("1. Drum\n2. Brass horn\n10. Lyre"), ElementsAre("Drum", "Brass horn", "Lyre"));
  EXPECT_THAT(components_of("Bees hum, the day is long.\nCats sleep in the sun."),
              ElementsAre("Bees hum, the day is long", "Cats sleep in the sun"));
  EXPECT_THAT(components_of("Cold as ice, thin and clear,\nAcross the lake."),
              ElementsAre("Cold as ice", "thin and clear", "Across the lake"));
  EXPECT_THAT(components_of("Grey, slow, patient."), ElementsAre("Grey", "slow", "patient"));
  EXPECT_THAT(components_of("山高水长，云淡，\n风轻。"), ElementsAre("山高水长", "云淡", "风轻"));
  EXPECT_THAT(components_of("鸟鸣，花开。\n月落，星沉。"), ElementsAre("鸟鸣，花开", "月落，星沉"));
}

TEST(MrNiah, TheShareOfTheParts) {
  const std::string label = "1. Drum\n2. Horn\n3. Lyre";
  EXPECT_EQ(mr_niah_score("It was: Drum, Lyre", label), 2.0 / 3);
  EXPECT_EQ(mr_niah_score("It was: drum, Lyre", label), 1.0 / 3) << "large and small letters differ";
  EXPECT_EQ(mr_niah_score("SORRY: Drum, Horn, Lyre", label), 0);
  EXPECT_EQ(mr_niah_score("There is No Previous Conversation. Drum", label), 0);
  EXPECT_EQ(mr_niah_score("抱歉，Drum", label), 1.0 / 3) << "an English label has English apologies";
  EXPECT_EQ(mr_niah_score("抱歉，风轻", "云淡，风轻。"), 0);
  EXPECT_EQ(mr_niah_score("没有之前的对话。云淡", "云淡，风轻。"), 0);
  EXPECT_EQ(mr_niah_score("sorry 云淡", "云淡，风轻。"), 0.5);
}

TEST_F(BenchmarkFiles, ConversationsOfMrNiah) {
  const std::string label = "1. Drum\n2. Horn";
  const std::vector<std::string> early{"Name two.", label, "And?", "Nothing.", "Repeat the first."},
      late{"And?", "Nothing.", "Name two.", label, "Repeat the first."};
  write("english/2048_tokens.jsonl",
        conversation(late, label, 2048) + "\n" + conversation(early, label, 2048));
  write("english/10240_tokens.jsonl", conversation(early, label, 10240));
  write("english/notes.txt", "none of it");
  const std::vector<MrNiahItem> items = read_mr_niah(folder_.path());
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[0].length_class, 10240);
  EXPECT_EQ(items[0].place, 1);
  EXPECT_EQ(items[1].place, 2) << "the later one stands first in its file";
  EXPECT_EQ(items[2].place, 1);
  EXPECT_THAT(items[2].where, EndsWith("2048_tokens.jsonl:3"));
  EXPECT_EQ(read_mr_niah(folder_.path(), 1).size(), 2u) << "one of each file";

  // The bytes tokenizer has no template: the turns are written out. A next turn is not the answer's.
  const auto tokenizer = data::Tokenizer::bytes();
  Says model(" Horn\nUser: sorry");
  const AskedScores result = ask(model, tokenizer, {asked_of(items[2], 64)}, {});
  EXPECT_EQ(model.prompt(0),
            "User: Name two.\nAssistant: 1. Drum\n2. Horn\nUser: And?\nAssistant: Nothing.\nUser: Repeat the "
            "first.\nAssistant:");
  EXPECT_THAT(result.scores, ElementsAre(0.5));

  const auto format = data::chat::ChatFormat::of_text(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt "
      "%}<assistant>"
      "{% endif %}",
      "test", folder_.path());
  Says chatting("Drum and Horn");
  EXPECT_THAT(ask(chatting, tokenizer, {asked_of(items[2], 64)}, {.format = &format}).scores,
              ElementsAre(1.0));
  EXPECT_EQ(chatting.prompt(0),
            "<user>Name two.<assistant>1. Drum\n2. Horn<user>And?<assistant>Nothing.<user>Repeat the "
            "first.<assistant>");
}

TEST_F(BenchmarkFiles, BadConversationsAreRefused) {
  const std::string label = "1. Drum";
  const std::string good = conversation({"Name one.", label, "Repeat."}, label, 8);
  const auto refused = [&](const std::string& line, const std::string& where, const std::string& expected) {
    const auto file = write("bad.jsonl", good + line);
    expect_refused([&] { read_mr_niah(file); }, "bad.jsonl:2:" + where, expected);
  };
  refused(conversation({"Name one.", "None.", "Repeat."}, label, 8), "/label", "assistant's messages");
  refused(conversation({"Name one.", label}, label, 8), "/messages", "a last question");
  refused(conversation({"Name one.", " , ", "Repeat."}, " , ", 8), "/label", "words");
  refused(conversation({"Name one.", label, "Repeat."}, label, 0), "/length_class", "1");
  refused(R"({"messages": [{"role": "system", "content": "x"}], "label": "x", "length_class": 8})",
          "/messages/0/role", "user");
  refused(R"({"messages": [], "length_class": 8})", "", "label");
  expect_refused([&] { read_mr_niah(write("empty/a.txt", "").parent_path()); }, "empty", ".jsonl");
}

std::string question(const std::string& set, const nlohmann::json& more) {
  nlohmann::json line = {{"input", "Which?"},       {"context", "The hill is old."},
                         {"answers", {"the hill"}}, {"length", 5000},
                         {"dataset", set},          {"language", "en"},
                         {"all_classes", nullptr},  {"_id", "1"}};
  if (!more.is_null()) line.update(more);
  return line.dump() + "\n";
}

TEST(LongBench, EveryDataSetHasItsMeasure) {
  EXPECT_EQ(longbench_data_sets().size(), 21u);
  const auto score = [](const char* set, const char* said, const char* answer) {
    return longbench_score(set, said, {"nothing like it", answer},
                           {"place", "birthplace", "nothing like it"});
  };
  for (const char* set : {"narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "musique"})
    EXPECT_EQ(score(set, "A Hill!", "the hill"), 1) << set;
  EXPECT_EQ(longbench_score("qasper", "hill", {"the hill", "nothing like it"}, {}), 1)
      << "the best of the answers, wherever it stands";
  EXPECT_EQ(score("triviaqa", "\n\nhill\nPassage: hill hill hill", "the hill"), 1) << "the first line alone";
  EXPECT_EQ(score("multifieldqa_zh", "大山。", "山大"), 1) << "by characters";
  for (const char* set : {"gov_report", "qmsum", "multi_news"})
    EXPECT_NEAR(score(set, "one two three", "two three four"), 2.0 / 3, 1e-8) << set;
  EXPECT_NEAR(score("samsum", "one two\nthree", "one two three"), 0.8, 1e-8) << "the first line alone";
  for (const char* set : {"dureader", "vcsum"}) EXPECT_NEAR(score(set, "大山很高", "大山高"), 6.0 / 7, 1e-8);
  for (const char* set : {"trec", "lsht"}) {
    EXPECT_EQ(score(set, "birthplace\nplace nothing like it", "birthplace"), 1) << "place is a part of it";
    EXPECT_EQ(score(set, "birthplace", "place"), 0.5) << "both are named";
  }
  EXPECT_EQ(score("passage_count", "12 or 13", "12"), 0.5);
  EXPECT_EQ(score("passage_retrieval_en", "Paragraph 3", "Paragraph 3"), 1);
  EXPECT_EQ(score("passage_retrieval_zh", "段落4", "段落3"), 0);
  for (const char* set : {"lcc", "repobench-p"})
    EXPECT_EQ(score(set, "# first\nx = 1\ny", "x = 1"), 1) << "comments are passed over";
}

TEST_F(BenchmarkFiles, QuestionsOfLongBench) {
  write("data/trec.jsonl",
        question("trec", {{"all_classes", {"hill", "river"}}, {"answers", {"hill"}}, {"length", 3999}}));
  write("data/qasper_e.jsonl", question("qasper_e", {{"length", 8000}}) + question("qasper", {}));
  const LongBench bench = read_longbench(folder_.path());
  ASSERT_EQ(bench.items.size(), 3u);
  EXPECT_EQ(bench.version, 1);
  EXPECT_EQ(bench.items[0].group, "qasper");
  EXPECT_EQ(bench.items[0].length, "8k+");
  EXPECT_EQ(bench.items[1].length, "4-8k");
  EXPECT_EQ(bench.items[2].length, "0-4k");
  EXPECT_TRUE(bench.items[2].asked.never_as_chat);
  const std::string& prompt = bench.items[1].asked.turns[0].content;
  EXPECT_THAT(prompt, HasSubstr("The hill is old."));
  EXPECT_THAT(prompt, EndsWith("Question: Which?\nAnswer:"));
  EXPECT_EQ(bench.items[1].asked.score("Hill"), 1);
  EXPECT_EQ(bench.items[2].asked.score("\nhill\nriver"), 1);
  EXPECT_EQ(bench.items[2].asked.score("hill river"), 0.5);
}

TEST_F(BenchmarkFiles, TheSecondLongBench) {
  const nlohmann::json easy = {{"question", "Which is old? "},
                               {"choice_A", "hill"},
                               {"choice_B", "sea"},
                               {"choice_C", "sky"},
                               {"choice_D", "tree"},
                               {"answer", "B"},
                               {"context", " Long ago. "},
                               {"difficulty", "easy"},
                               {"length", "short"},
                               {"domain", "x"}};
  nlohmann::json hard = easy;
  hard.update({{"difficulty", "hard"}, {"length", "long"}, {"answer", "D"}});
  const LongBench bench = read_longbench(write("data.json", nlohmann::json::array({easy, hard}).dump()));
  ASSERT_EQ(bench.items.size(), 2u);
  EXPECT_EQ(bench.version, 2);
  EXPECT_EQ(bench.items[1].group, "hard");
  EXPECT_EQ(bench.items[1].length, "long");
  EXPECT_EQ(read_longbench(write("lines/data.jsonl", easy.dump() + "\n" + hard.dump())).items.size(), 2u);

  EXPECT_EQ(chosen_letter("So: **The correct answer is (B)**."), 'B');
  EXPECT_EQ(chosen_letter("The correct answer is C"), 'C');
  EXPECT_EQ(chosen_letter("The correct answer is A, no: The correct answer is (D)"), 'D') << "brackets win";
  EXPECT_EQ(chosen_letter("The correct answer is (E). B"), 0);
  EXPECT_EQ(chosen_letter("B"), 0);

  // Without a template the model is given the first words, and says the rest.
  const auto tokenizer = data::Tokenizer::bytes();
  Says model("B) because");
  EXPECT_THAT(ask(model, tokenizer, {bench.items[0].asked, bench.items[1].asked}, {}).scores,
              ElementsAre(1.0, 0.0));
  EXPECT_THAT(model.prompt(0), HasSubstr("\n\nLong ago.\n\nQuestion: Which is old?\n(A) hill\n(B) sea\n"));
  EXPECT_THAT(model.prompt(0), EndsWith("The correct answer is ("));
}

TEST_F(BenchmarkFiles, BadQuestionsAreRefused) {
  const auto refused = [&](const std::string& line, const std::string& where, const std::string& expected) {
    const auto file = write("bad.jsonl", question("qasper", {}) + line);
    expect_refused([&] { read_longbench(file); }, "bad.jsonl:2:" + where, expected);
  };
  refused(question("narrative", {}), "/dataset", "narrativeqa");
  refused(question("qasper", {{"answers", nlohmann::json::array()}}), "/answers", "at least one");
  refused(question("trec", {{"all_classes", nlohmann::json::array()}}), "/all_classes", "classes");
  refused(question("passage_retrieval_en", {}), "/answers/0", "Paragraph 7");
  refused(question("qasper", {{"length", -1}}), "/length", "0");
  refused(question("qasper", {{"context", 1}}), "/context", "string");
  refused(R"({"choice_A": "x"})", "", "LongBench v1");
  const nlohmann::json second = {{"question", "q"},      {"choice_A", "a"},   {"choice_B", "b"},
                                 {"choice_C", "c"},      {"choice_D", "d"},   {"answer", "E"},
                                 {"difficulty", "easy"}, {"length", "short"}, {"context", "c"}};
  const auto refused_second = [&](const nlohmann::json& more, const std::string& where,
                                  const std::string& expected) {
    nlohmann::json bad = second;
    if (!more.is_null()) bad.update(more);
    const auto file = write("bad.json", nlohmann::json::array({bad}).dump());
    expect_refused([&] { read_longbench(file); }, "bad.json:/0:" + where, expected);
  };
  refused_second({}, "/answer", "A, B, C or D");
  refused_second({{"answer", "A"}, {"length", "huge"}}, "/length", "short, medium, long");
  refused_second({{"answer", "A"}, {"difficulty", "odd"}}, "/difficulty", "easy, hard");
}

// The first and the last half of the tokens that there is room for, as LongBench cuts; the model's own words
// around it are not counted.
TEST_F(BenchmarkFiles, TextsThatAreTooLongLoseTheMiddle) {
  const auto tokenizer = data::Tokenizer::bytes();
  AskedText text{.turns = {{"user", "0123456789abcdefghij"}},
                 .answer_tokens = 5,
                 .score = [](const std::string&) { return 1.0; }};
  Says model("x");
  EXPECT_EQ(ask(model, tokenizer, {text}, {.context = 25}).cut, 0);
  EXPECT_EQ(model.prompt(0), "0123456789abcdefghij");
  const AskedScores cut = ask(model, tokenizer, {text, text}, {.context = 14});
  EXPECT_EQ(cut.cut, 2);
  EXPECT_EQ(model.prompt(1), "0123ghij") << "9 tokens are two halves of 4";
  text.turns[0].content = "ä" + std::string(8, 'b');
  ask(model, tokenizer, {text}, {.context = 7});
  EXPECT_EQ(model.prompt(3), "\uFFFDb") << "half a character";
  EXPECT_THROW(ask(model, tokenizer, {text}, {.context = 6}), Error);
}

// As two ranks ask: each its own questions, with the scores of one.
TEST_F(BenchmarkFiles, RanksShareTheQuestions) {
  const auto tokenizer = data::Tokenizer::bytes();
  std::vector<AskedText> texts;
  for (int i = 0; i < 5; ++i)
    texts.push_back({.turns = {{"user", std::string(static_cast<size_t>(3 + i), 'q')}},
                     .answer_tokens = 4,
                     .score = [i](const std::string& said) { return said == "x" ? i / 10.0 : 0; }});
  const AskSettings settings{.context = 9};
  Says whole("x");
  const AskedScores one = ask(whole, tokenizer, texts, settings);
  std::vector<double> sum;
  for (int64_t rank = 0; rank < 2; ++rank) {
    Says model("x");
    std::vector<double> own;
    ask(model, tokenizer, texts, settings, {},
        {.ranks = 2, .rank = rank, .sum_over_ranks = [&](std::vector<double>& numbers) { own = numbers; }});
    EXPECT_EQ(model.prompts.size(), rank == 0 ? 3u : 2u);
    if (sum.empty()) sum.resize(own.size());
    for (size_t i = 0; i < own.size(); ++i) sum[i] += own[i];
  }
  EXPECT_THAT(std::vector<double>(sum.begin(), sum.begin() + 5), ::testing::ElementsAreArray(one.scores));
  EXPECT_EQ(one.cut, 2);
  EXPECT_EQ(std::count(sum.begin() + 5, sum.end(), 1.0), 2);
}

}  // namespace
}  // namespace longhaul::evaluate
