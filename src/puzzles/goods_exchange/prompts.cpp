#include <array>

#include "puzzles/engine/words/words.h"
#include "puzzles/goods_exchange/goods_exchange.h"

namespace longhaul::puzzles::goods_exchange {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Who owns what in the end?", "Some people exchange things. Keep track of them.",
                   "Follow these exchanges.", "Everybody here owns one thing, until they begin to exchange.",
                   "Please work out the owners after all exchanges.", "Many things change hands below.",
                   "Read what happens and say where each thing ends.", "Find the owner of everything."},
      .rules = {"Each person owns exactly one thing at any time. The events happen one after the other, in "
                "the order of the list. If two people swap or trade, each gets the "
                "thing that the other has at that moment. An event that only tells of a wish, a search or a "
                "refusal changes nothing.",
                "Rules: everybody always has one thing. Take the events from the first to the last. In a "
                "swap both people hand over what they own just "
                "then. Where somebody refuses, merely likes or does not find a thing, all stays as it is."},
      .formats = {"Answer in a fenced block with one pair for each person, the name and the thing in quotes: "
                  "(('name','colour thing'),('name','colour thing'),…).",
                  "Write all people with what they own, in a fenced block, as (('name','colour "
                  "thing'),('name','colour thing'),…) without leaving anybody out."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"最后谁拥有什么？", "几个人交换东西，请跟踪它们。", "请跟着这些交换。",
                   "这里每个人都有一样东西，直到他们开始交换。", "请求出所有交换之后的主人。",
                   "下面许多东西换了手。", "请读所发生的事，并说出每样东西最后在谁手里。",
                   "请找出每样东西的主人。"},
      .rules = {"任何时候每个人都恰好拥有一样东西。事件按列表的次序逐个发生。两个人互换或交易时，各自得到对方"
                "当时拥有的东西。只说到愿望、寻找或拒绝的事件不改变任何东西。",
                "规则：每个人始终有一样东西。请从第一个事件到最后一个事件依次处理。互换时两人都交出自己当时拥"
                "有的东西。如果有人拒绝、只是喜欢或没有找到某样东西，一切保持不变。"},
      .formats = {"请在代码块中回答，每个人一对，名字和东西都加引号：(('名字','颜色和东西'),('名字','"
                  "颜色和东西'),…)。",
                  "请在代码块中写出所有人和他们拥有的东西，形式为 "
                  "(('名字','颜色和东西'),('名字','颜色和东西'),…)，不要漏掉任何人。"}};
  return parts;
}

}  // namespace

std::span<const StepKind> step_kinds() {
  constexpr Part P = Part::kPerson, T = Part::kThing;
  static const std::vector<StepKind> all = {
      {"swap", "ab", {P, P}, true, "{0} and {1} swap what they have.", "{0}和{1}互换各自拥有的东西。"},
      {"swap_things",
       "xy",
       {T, T},
       true,
       "The owners of {0} and {1} exchange these two things.",
       "{0}的主人和{1}的主人交换这两样东西。"},
      {"owner_swaps_with",
       "xb",
       {T, P},
       true,
       "The owner of {0} swaps with {1}.",
       "{0}的主人与{1}互换东西。"},
      {"trade_for", "axy", {P, T, T}, true, "{0} trades {1} for {2}.", "{0}用{1}换来了{2}。"},
      {"give_and_get",
       "axby",
       {P, T, P, T},
       true,
       "{0} gives {1} to {2}, and {2} gives {3} to {0}.",
       "{0}把{1}给{2}，{2}把{3}给{0}。"},
      {"exchange",
       "axby",
       {P, T, P, T},
       true,
       "{0} exchanges {1} with {2}, for {3}.",
       "{0}拿{1}与{2}的{3}交换。"},
      {"owners_swap",
       "xy",
       {T, T},
       true,
       "Whoever has {0} swaps with whoever has {1}.",
       "拥有{0}的人与拥有{1}的人互换东西。"},
      {"swap_with_owner", "ay", {P, T}, true, "{0} swaps with the owner of {1}.", "{0}与{1}的主人互换东西。"},
      {"circle",
       "abc",
       {P, P, P},
       true,
       "At the same time {0} gives what they have to {1}, {1} to {2}, and {2} to {0}.",
       "{0}把自己的东西给{1}，同时{1}把自己的给{2}，{2}把自己的给{0}。"},
      {"refuse",
       "ab",
       {P, P},
       false,
       "{0} wants to trade with {1}, but {1} refuses.",
       "{0}想和{1}交易，但{1}拒绝了。"},
      {"like", "ay", {P, T}, false, "{0} likes {1} very much.", "{0}很喜欢{1}。"},
      {"look_for", "ay", {P, T}, false, "{0} looks for {1} but cannot find it.", "{0}寻找{1}，但没有找到。"}};
  return all;
}

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Told told = read_told(given);
  const bool is_chinese = language == Language::kChinese;
  std::string board = is_chinese ? "起初：\n" : "At the beginning:\n";
  for (size_t i = 0; i < told.people.size(); ++i) {
    (board += in_language(told.people[i], language)) += is_chinese ? "有" : " has ";
    if (is_chinese) {
      write_thing(told.before[i], language, board);
    } else {
      board += with_article(told.before[i]);
    }
    board += is_chinese ? "。\n" : ".\n";
  }
  board += is_chinese ? "\n然后：" : "\nThen:";
  std::array<std::string, 4> things;
  std::array<std::string_view, 4> parts;
  for (size_t number = 0; number < told.steps.size(); ++number) {
    const Step& step = told.steps[number];
    const StepKind& kind = step_kinds()[step.kind];
    for (size_t i = 0; i < step.parts.size(); ++i) {
      if (kind.parts[i] == Part::kPerson) {
        parts[i] = in_language(told.people[step.parts[i]], language);
        continue;
      }
      things[i] = is_chinese ? "" : "the ";
      write_thing(told.before[step.parts[i]], language, things[i]);
      parts[i] = things[i];
    }
    ((board += '\n') += std::to_string(number + 1)) += ". ";
    tell(board, is_chinese ? kind.chinese : kind.english, parts);
  }
  return prompt_of(is_chinese ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::goods_exchange
