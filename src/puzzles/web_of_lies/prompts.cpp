#include <array>

#include "puzzles/engine/words/words.h"
#include "puzzles/web_of_lies/web_of_lies.h"

namespace longhaul::puzzles::web_of_lies {
namespace {

constexpr std::string_view kSceneTexts[kScenes][2] = {{"saw a rainbow this morning", "今天早上看到了彩虹"},
                                                      {"lost an umbrella last week", "上周丢了一把雨伞"},
                                                      {"likes to drink tea", "喜欢喝茶"},
                                                      {"is waiting for a friend", "正在等朋友"},
                                                      {"bought a new hat", "买了一顶新帽子"},
                                                      {"heard a dog bark", "听到了狗叫"},
                                                      {"is reading a book", "正在看书"},
                                                      {"took a picture of the sky", "拍了一张天空的照片"},
                                                      {"found a coin", "捡到了一枚硬币"},
                                                      {"is eating a sandwich", "正在吃三明治"},
                                                      {"has a sister", "有一个妹妹"},
                                                      {"forgot what day it is", "忘了今天是星期几"}};

class Teller {
 public:
  Teller(const Given& given, Language language)
      : given_(given), chinese_(language == Language::kChinese), language_(language) {}

  void write_person(int64_t which, bool by_place, std::string& text) const {
    if (!by_place) {
      text += in_language(given_.people[static_cast<size_t>(which)], language_);
      return;
    }
    const auto place = in_language(given_.places[static_cast<size_t>(which)], language_);
    (text += chinese_ ? "在" : "the person at the ") += place;
    text += chinese_ ? "的人" : "";
  }

  // {0}, {1}, … are the people.
  void write_sentence(const Statement& one, std::string& text) const {
    std::array<std::string, 3> who;
    std::array<std::string_view, 4> parts;
    for (size_t i = 0; i < one.people.size(); ++i) {
      write_person(one.people[i], (one.by >> i & 1) != 0, who[i]);
      parts[i] = who[i];
    }
    parts[3] = one.kind == "scene" ? kSceneTexts[one.scene][chinese_ ? 1 : 0]
               : one.kind == "at"
                   ? in_language(given_.places[static_cast<size_t>(one.people[0])], language_)
                   : (one.yes ? (chinese_ ? "说真话" : "tells the truth") : (chinese_ ? "说谎" : "lies"));
    const size_t begin = text.size();
    tell(text, chinese_ ? chinese(one) : english(one), parts);
    char& first = text[begin];
    if (first >= 'a' && first <= 'z') first = static_cast<char>(first - 'a' + 'A');
  }

 private:
  static std::string_view english(const Statement& one) {
    if (one.kind == "at") return "{0} is at the {3}.";
    if (one.kind == "scene" || one.kind == "tells") return "{0} {3}.";
    if (one.kind == "says") return "{0} says that {1} {3}.";
    if (one.kind == "same")
      return one.yes ? "{0} says: {1} is of my kind." : "{0} says: {1} is not of my kind.";
    return one.yes ? "{0} says that at least one of {1} and {2} tells the truth."
                   : "{0} says that both {1} and {2} lie.";
  }
  static std::string_view chinese(const Statement& one) {
    if (one.kind == "at") return "{0}在{3}。";
    if (one.kind == "scene" || one.kind == "tells") return "{0}{3}。";
    if (one.kind == "says") return "{0}说：{1}{3}。";
    if (one.kind == "same") return one.yes ? "{0}说：{1}和我是同类人。" : "{0}说：{1}和我不是同类人。";
    return one.yes ? "{0}说：{1}和{2}中至少有一人说真话。" : "{0}说：{1}和{2}都说谎。";
  }

  const Given& given_;
  bool chinese_;
  Language language_;
};

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Find out who tells the truth.", "Who of these people can be believed?",
                   "Here is a puzzle about truth-tellers and liars.", "Some of these people lie. Which ones?",
                   "Untangle this web of lies.", "Please decide who is truthful.",
                   "Think about what these people say of each other.",
                   "Work out from what is said who lies and who does not."},
      .rules = {"Each person either always tells the truth or always lies, and stands alone at a place. What "
                "a person says is true if the person tells the "
                "truth, and false if the person lies. Sentences in which nobody says anything are true. Two "
                "people are of one kind if "
                "both tell the truth or both lie.",
                "Rules: everybody is a truth-teller or a liar. All that a truth-teller says is true; all "
                "that a liar says is false. What is told here "
                "without a speaker is a fact. No two people are at one place. \"Of my kind\" means that the "
                "one spoken of and the speaker both "
                "tell the truth or both lie."},
      .formats = {"Answer with yes (tells the truth) or no (lies) for each person asked for, in the order of "
                  "the question, separated by commas, between "
                  "two pairs of asterisks, as in **{}** for {} people.",
                  "For every person of the question write yes for a truth-teller or no for a liar, in that "
                  "order, with commas between, in bold; for {1} "
                  "people it might be **{0}**."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请找出谁说真话。", "这些人中谁可以相信？", "下面是一道关于诚实者和说谎者的谜题。",
                   "这些人中有些人说谎，是哪些人？", "请解开这张谎言之网。", "请判断谁是诚实的。",
                   "请思考这些人相互之间的说法。", "请根据所说的话推断谁说谎、谁不说谎。"},
      .rules = {"每个人要么总说真话，要么总说谎，并且独自在一个地方。说真话的人所说的都是真的，说谎的人所说的"
                "都是假的。"
                "没有人说话的句子都是真的。两个人都说真话或都说谎，就是同类人。",
                "规则：每个人都是诚实者或说谎者。诚实者的话全为真，说谎者的话全为假。没有说话人的叙述都是事实"
                "。没有两个人在同一个地方。"
                "“和我是同类人”表示被说的人与说话人都说真话或都说谎。"},
      .formats = {"请按问题中的顺序，对每个被问到的人回答“是”（说真话）或“否”（说谎），用逗号分隔，写在两对星"
                  "号之间，例如问 {1} 个人时写 **{0}**。",
                  "对问题中的每个人依次写“是”（诚实者）或“否”（说谎者），中间用逗号，用粗体；问 {1} "
                  "个人时可以是 **{0}**。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Given puzzle = read_given(given);
  const Teller teller(puzzle, language);
  const bool is_chinese = language == Language::kChinese;
  std::string board, asked;
  for (const Statement& one : puzzle.statements) {
    teller.write_sentence(one, board);
    board += '\n';
  }
  for (const auto& [person, by_place] : puzzle.asked) {
    asked += asked.empty() ? "" : is_chinese ? "；" : "; ";
    teller.write_person(person, by_place, asked);
  }
  board += is_chinese ? fmt::format("\n问题：以下的人是否说真话？{}。", asked)
                      : fmt::format("\nQuestion: Do these people tell the truth? {}.", asked);
  // The example has another length than the answer.
  PromptParts parts = is_chinese ? chinese() : english();
  const bool long_one = puzzle.asked.size() != 3;
  const char* example =
      is_chinese ? (long_one ? "是, 否, 否" : "否, 是") : (long_one ? "yes, no, no" : "no, yes");
  for (std::string& format : parts.formats)
    format = fmt::format(fmt::runtime(format), example,
                         long_one ? (is_chinese ? "3" : "three") : (is_chinese ? "2" : "two"));
  return prompt_of(parts, board, which);
}

}  // namespace longhaul::puzzles::web_of_lies
