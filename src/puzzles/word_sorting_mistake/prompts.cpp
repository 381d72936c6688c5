#include <algorithm>

#include "puzzles/word_sorting_mistake/word_sorting_mistake.h"

namespace longhaul::puzzles::word_sorting_mistake {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Find the first mistake in this sort of words.",
                   "Somebody has sorted words step by step. Which step is the first wrong one?",
                   "The thoughts below sort some words. Check them.",
                   "Which of the following thoughts is the first that is wrong?",
                   "Check this sort, thought by thought.",
                   "Is there a mistake in the following sort of words? Where is the first one?",
                   "Read the thoughts below and find the first wrong one.",
                   "Please check how these words were sorted."},
      .rules = {"The words are sorted alphabetically. Thoughts of two kinds take turns. The first kind takes "
                "the leftmost group of several "
                "words (at the beginning, all words are one group) and names the next letter of each of its "
                "words, with the letter's place in "
                "the alphabet (a is 1, z is 26; for a word that has no more letters it names - with 0). The "
                "second kind shows all words in "
                "order: the words of the group have been put into order by these numbers, and those with the "
                "same number remain together in a "
                "group, written [a ? b]; everything else stays as it was. Inside of a group the order of the "
                "words does not matter. A thought "
                "is wrong if it does not follow from the words and the thoughts before it: a wrong letter or "
                "number, a wrong order, words "
                "grouped wrongly, a word that is lost or repeated.",
                "Rules: letters are looked at from left to right. A thought about letters gives, for each "
                "word of the leftmost group of several "
                "words, the letter that comes next and its place in the alphabet, from 1 for a to 26 for z; "
                "- and 0 stand for a word that has "
                "ended. In the beginning all words form one group. The thought after it orders the words of "
                "that group by the numbers, writes "
                "words with equal numbers as a group [a ? b] (in any order inside of it), and leaves all "
                "other words where they were. A thought "
                "that does not follow from the list of words and the thoughts before it is wrong: a letter, "
                "a number, the order or the groups "
                "may be wrong, a word may be missing or stand twice."},
      .formats = {"Answer with the number of the first wrong thought, or with No if all thoughts are right.",
                  "Give one number, that of the first thought that is wrong; if there is none, answer No."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请找出这次单词排序中的第一个错误。", "有人一步一步地给单词排序，哪一步最先出错？",
                   "下面的思考步骤在给一些单词排序，请检查。", "下列思考中，第一个错误的是哪一个？",
                   "请逐条检查这次排序。", "下面的单词排序有错误吗？第一个错误在哪里？",
                   "请阅读下面的思考步骤，找出第一个错误的步骤。", "请检查这些单词是怎样排序的。"},
      .rules = {"单词按字母顺序排序。两种思考交替出现。第一种取最左边的含有多个单词的组（开始时所有单词为"
                "一组），写出其中每个单词的下一个字母"
                "以及该字母在字母表中的位置（a 为 1，z 为 26；已经没有字母的单词写 - 和 "
                "0）。第二种给出所有单词的顺序：该组的单词按这些数字排好，"
                "数字相同的单词仍在同一组，写作 [a ? "
                "b]"
                "；其余保持不变。组内单词的次序无关紧要。如果一个思考不能由单词表和它之前的思考得出，它就"
                "是错误的："
                "字母或数字错误、顺序错误、分组错误、单词丢失或重复。",
                "规则：从左到右逐个字母比较。关于字母的思考针对最左边的含有多个单词的组，给出其中每个单词"
                "接下来的字母及其在字母表中的位置（a 为 1，"
                "直到 z 为 26）；- 和 0 "
                "表示单词已经结束。开始时所有单词构成一组。其后的思考把这一组的单词按数字排序，数字相同的"
                "写成组 [a ? b]（组内次序任意），"
                "其他单词位置不变。不能由单词表和前面的思考得出的思考是错误的：字母、数字、顺序或分组可能"
                "有错，单词可能缺少或出现两次。"},
      .formats = {"请回答第一个错误思考的编号；如果所有思考都正确，请回答 No。",
                  "请给出一个数：第一个错误思考的编号；如果没有错误，请回答 No。"}};
  return parts;
}

void write_joined(std::string& text, const std::vector<std::string_view>& words, std::string_view between) {
  for (size_t i = 0; i < words.size(); ++i) (text += i == 0 ? "" : between) += words[i];
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Trace trace = read_given(given);
  const bool zh = language == Language::kChinese;
  std::string board = zh ? "单词：" : "Words: ";
  board.reserve(4096);
  write_joined(board, trace.words, ", ");
  for (size_t i = 0; i < trace.thoughts.size(); ++i) {
    const Thought& thought = trace.thoughts[i];
    ((board += zh ? "\n思考 " : "\nThought ") += std::to_string(i + 1)) += zh ? "：" : ": ";
    if (thought.letter > 0) {
      ((board += zh ? "第 " : "letter ") += std::to_string(thought.letter)) += zh ? " 个字母：" : ": ";
      for (const Place& place : thought.places) {
        (board += &place == &thought.places[0] ? "" : ", ") += place.word;
        ((((board += ' ') += place.letter) += " (") += std::to_string(place.number)) += ')';
      }
      continue;
    }
    for (const std::vector<std::string_view>& group : thought.order) {
      (board += &group == &thought.order[0] ? "" : " < ") += group.size() == 1 ? "" : "[";
      write_joined(board, group, " ? ");
      board += group.size() == 1 ? "" : "]";
    }
  }
  board += zh ? "\n结果：" : "\nResult: ";
  const auto ordered = std::ranges::find(trace.thoughts.rbegin(), trace.thoughts.rend(), 0, &Thought::letter);
  std::vector<std::string_view> last;
  if (ordered == trace.thoughts.rend()) {
    last = trace.words;
  } else {
    for (const std::vector<std::string_view>& group : ordered->order)
      last.insert(last.end(), group.begin(), group.end());
  }
  write_joined(board, last, ", ");
  return prompt_of(zh ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::word_sorting_mistake
