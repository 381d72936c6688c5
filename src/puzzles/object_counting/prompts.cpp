#include <fmt/compile.h>

#include <algorithm>
#include <cstdlib>

#include "puzzles/engine/words/words.h"
#include "puzzles/object_counting/object_counting.h"

namespace longhaul::puzzles::object_counting {
namespace {

// Remarks that tell of no other number of things.
constexpr std::string_view kRemarkTexts[kRemarks][2] = {{"a gift from an aunt", "是姑妈送的"},
                                                        {"bought at the market", "是在市场上买的"},
                                                        {"kept in a dry place", "放在干燥的地方"},
                                                        {"all of very good quality", "质量都很好"},
                                                        {"most of them quite old", "大多数都很旧了"},
                                                        {"much admired by the neighbours", "邻居们都很羡慕"},
                                                        {"found after a long search", "找了很久才找到"},
                                                        {"inherited from a grandmother", "是外婆留下的"},
                                                        {"the envy of the whole street", "整条街的人都羡慕"},
                                                        {"counted again yesterday", "昨天又数过一遍"},
                                                        {"some of them a little dusty", "有些落了点灰"},
                                                        {"all photographed last week", "上周都拍了照片"}};

void write_history(const std::vector<int64_t>& counts, bool chinese, std::string& text) {
  const auto add = std::back_inserter(text);
  (text += chinese ? "起初有" : "at first ") += std::to_string(counts[0]);
  for (size_t i = 1; i < counts.size(); ++i) {
    const bool more = counts[i] > counts[i - 1];
    const int64_t change = std::abs(counts[i] - counts[i - 1]);
    if (chinese) {
      fmt::format_to(add, FMT_COMPILE("，后来{}{}，变成{}"), more ? "又得到" : "失去", change, counts[i]);
    } else {
      fmt::format_to(add, FMT_COMPILE(", then {} {}, which made {}"), more ? "got" : "lost", change,
                     counts[i]);
    }
  }
}

void write_sentence(const Statement& one, bool chinese, std::string& text) {
  if (chinese) {
    text += one.owner.empty() ? "我" : in_language(one.owner, Language::kChinese);
    (text += "有") += std::to_string(one.count);
    (text += categories()[category_of(one.thing)].measure) += in_language(one.thing, Language::kChinese);
  } else {
    (text += one.owner.empty() ? "I" : one.owner) += one.owner.empty() ? " have " : " has ";
    (text += std::to_string(one.count)) += ' ';
    if (one.count == 1) {
      text += one.thing;
    } else {
      text += plural_of(one.thing);
    }
  }
  if (one.remark >= 0 || !one.history.empty()) {
    text += chinese ? "（" : " (";
    if (one.history.empty()) {
      text += kRemarkTexts[one.remark][chinese ? 1 : 0];
    } else {
      write_history(one.history, chinese, text);
    }
    text += chinese ? "）" : ")";
  }
  text += chinese ? "。\n" : ".\n";
}

// Which things count as what: those that occur, so that no one has to guess.
std::string kinds_text(const Given& puzzle, bool chinese) {
  std::vector<std::vector<std::string>> all(categories().size());
  for (const Statement& one : puzzle.statements)
    all[category_of(one.thing)].push_back(chinese ? std::string(in_language(one.thing, Language::kChinese))
                                                  : plural_of(one.thing));
  std::string text;
  for (size_t category = 0; category < categories().size(); ++category) {
    std::vector<std::string>& things = all[category];
    if (things.empty()) continue;
    std::ranges::sort(things);
    things.erase(std::unique(things.begin(), things.end()), things.end());
    text += chinese
                ? fmt::format("{}：{}。\n", categories()[category].name.chinese, fmt::join(things, "、"))
                : fmt::format("These are {}: {}.\n", categories()[category].plural, fmt::join(things, ", "));
  }
  return text;
}

std::string question_text(const Given& puzzle, bool chinese) {
  const auto name = [&](size_t i) {
    const Category& category = categories()[puzzle.asked[i]];
    return chinese ? category.name.chinese : category.plural;
  };
  if (puzzle.question == "total")
    return fmt::format(
        fmt::runtime(chinese ? "问题：我的{}一共有多少？" : "Question: How many {} do I have in all?"),
        name(0));
  if (puzzle.question == "sum")
    return fmt::format(fmt::runtime(chinese ? "问题：我的{}和{}加起来一共有多少？"
                                            : "Question: How many {} and {} do I have taken together?"),
                       name(0), name(1));
  return fmt::format(fmt::runtime(chinese ? "问题：我的{}总数与{}总数相差多少（绝对值）？"
                                          : "Question: By how much do the numbers of {} and of {} that I "
                                            "have differ (as a number that is not negative)?"),
                     name(0), name(1));
}

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Count what I have.", "How many things do I have?", "Here is what some people and I have.",
                   "Please count carefully.", "Find the number that is asked for.",
                   "Many things are listed below, and only some of them count.",
                   "Help me to count my things.", "Work out a count from this list."},
      .rules = {"Only my own things count, not those of other people. The number in front of a thing is how "
                "many there are now; what stands in "
                "parentheses is how it came to that, or a remark.",
                "Rules: count nothing that belongs to other people. Each sentence says how many of a thing "
                "its owner has now; parentheses hold the "
                "history of that number or something that does not matter."},
      .formats = {"Answer with one whole number inside \\boxed{}.",
                  "Write the number, and nothing else, in a box: \\boxed{number}."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请数一数我有的东西。", "我有多少东西？", "下面是一些人和我所拥有的东西。", "请仔细计数。",
                   "请求出所问的数。", "下面列出了许多东西，只有一部分要计入。", "请帮我数我的东西。",
                   "请根据这个清单计数。"},
      .rules = {"只计算我自己的东西，不算别人的。东西前面的数是现在的数量；括号里是这个数量的由来，或者只是一"
                "句说明。",
                "规则：属于别人的东西都不算。每句话说明其主人现在有多少某种东西；括号里是这个数的历史，或无关"
                "紧要的内容。"},
      .formats = {"请在 \\boxed{} 中用一个整数回答。", "请只把这个数写在框里：\\boxed{数}。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Given puzzle = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  std::string board;
  board.reserve(puzzle.statements.size() * 64);
  for (const Statement& one : puzzle.statements) write_sentence(one, is_chinese, board);
  board += "\n" + kinds_text(puzzle, is_chinese) + "\n" + question_text(puzzle, is_chinese);
  return prompt_of(is_chinese ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::object_counting
