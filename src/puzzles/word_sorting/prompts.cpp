#include "puzzles/word_sorting/word_sorting.h"

namespace longhaul::puzzles::word_sorting {
namespace {

PromptParts english(bool descending) {
  const std::string_view order =
      descending ? "descending (from last to first)" : "ascending (from first to last)";
  return {
      .openings = {"Sort these words by a new alphabet.",
                   "The alphabet has changed. Put the words below into order.",
                   "Order the following words by the alphabet that is described here.",
                   "Please sort the words below.",
                   "Here are some words and a new alphabet. How must the words be ordered?",
                   "Arrange these words as a dictionary with another alphabet would.",
                   "Put the words into the order that is asked for.",
                   "In an alphabet with another order of letters, sort these words."},
      .rules =
          {fmt::format("In the new alphabet the letters listed as front letters come first, in the order in "
                       "which they are "
                       "listed; all other letters follow in their usual order from a to z. Words are "
                       "compared letter by letter, "
                       "and a word that is the beginning of another one counts as the smaller of the two. "
                       "Sort the words in {} "
                       "order.",
                       order),
           fmt::format(
               "Rules: the new alphabet begins with the front letters, as they are listed, and goes on with "
               "the "
               "remaining letters of a to z in their usual order. The first letter in which two words differ "
               "decides; "
               "if one word is the beginning of the other, it is the smaller one. The order asked for is {}.",
               order)},
      .formats = {"Answer with all words, separated by commas, in a form like: pear, fig, plum",
                  "Give the sorted words with commas between them, for example: pear, fig, plum"}};
}

PromptParts chinese(bool descending) {
  const std::string_view order = descending ? "降序（从后到前）" : "升序（从前到后）";
  return {
      .openings = {"请按新的字母表给这些单词排序。", "字母表变了，请把下面的单词排好。",
                   "请按这里描述的字母表排列下列单词。", "请给下面的单词排序。",
                   "这里有一些单词和一个新的字母表，单词应当怎样排列？",
                   "请像使用另一种字母表的词典那样排列这些单词。", "请把单词按要求的顺序排列。",
                   "在一个字母次序不同的字母表中，请给这些单词排序。"},
      .rules =
          {fmt::format("在新的字母表中，列为前置字母的字母按所列次序排在最前面，其余字母按 a 到 z "
                       "的通常次序跟在后面。"
                       "单词逐个字母比较；如果一个单词是另一个单词的开头，则它较小。请按{}排列单词。",
                       order),
           fmt::format(
               "规则：新的字母表以前置字母（按所列次序）开始，然后是 a 到 z 中其余的字母，次序照常。"
               "两个单词第一个不同的字母决定先后；如果一个单词是另一个的开头，它就是较小的。要求的顺序是{}。",
               order)},
      .formats = {"请写出全部单词，用逗号分隔，形式如：pear, fig, plum",
                  "请给出排好的单词，中间用逗号隔开，例如：pear, fig, plum"}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Sorting sorting = read_given(given);
  const std::vector<char> front(sorting.front.begin(), sorting.front.end());
  const bool zh = language == Language::kChinese;
  const std::string board =
      fmt::format("{}{}\n{}{}", zh ? "前置字母：" : "Front letters: ", fmt::join(front, ", "),
                  zh ? "单词：" : "Words: ", fmt::join(sorting.words, ", "));
  static const std::array<PromptParts, 4> parts = {english(false), english(true), chinese(false),
                                                   chinese(true)};
  return prompt_of(parts[(zh ? 2 : 0) + (sorting.descending ? 1 : 0)], board, which);
}

}  // namespace longhaul::puzzles::word_sorting
