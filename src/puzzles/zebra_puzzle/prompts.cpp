#include <algorithm>

#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"
#include "puzzles/zebra_puzzle/zebra_puzzle.h"

namespace longhaul::puzzles::zebra_puzzle {
namespace {

// Of the clues, in the order of ClueKind: {a} and {b} are people, {h} and {k} houses.
constexpr Word kSentences[kClueKinds] = {
    {"{a} lives in the same house as {b}.", "{a}和{b}住在同一所房子里。"},
    {"{a} does not live in the same house as {b}.", "{a}和{b}不住在同一所房子里。"},
    {"{a} lives in house {h}.", "{a}住在 {h} 号房子。"},
    {"{a} does not live in house {h}.", "{a}不住在 {h} 号房子。"},
    {"{a} lives in house {h} or in house {k}.", "{a}住在 {h} 号或 {k} 号房子。"},
    {"{a} lives directly to the left of {b}.", "{a}住在{b}左边紧邻的房子里。"},
    {"{a} lives directly to the right of {b}.", "{a}住在{b}右边紧邻的房子里。"},
    {"{a} lives next to {b}.", "{a}住在{b}的隔壁。"},
    {"{a} lives somewhere to the left of {b}.", "{a}住在{b}左边的某所房子里。"},
    {"{a} lives somewhere to the right of {b}.", "{a}住在{b}右边的某所房子里。"},
    {"Exactly one house lies between those of {a} and {b}.", "{a}和{b}的房子之间恰好隔着一所房子。"},
    {"Exactly two houses lie between those of {a} and {b}.", "{a}和{b}的房子之间恰好隔着两所房子。"},
};

constexpr Word kAttributes[] = {{"house", "房子"}, {"name", "姓名"},     {"colour", "颜色"},
                                {"fruit", "水果"}, {"animal", "动物"},   {"vehicle", "车辆"},
                                {"book", "书籍"},  {"furniture", "家具"}};

std::string person_with(const Zebra& zebra, size_t value, Language language) {
  const Attribute& attribute = zebra.attributes[value / zebra.houses];
  const std::string_view word = puzzles::in_language(attribute.values[value % zebra.houses], language);
  if (attribute.name == "name") return std::string(word);
  const std::string_view name = attribute_in(attribute.name, language);
  return language == Language::kChinese ? fmt::format("{}是{}的人", name, word)
                                        : fmt::format("the person whose {} is {}", name, word);
}

std::string sentence_of(const Zebra& zebra, const Clue& clue, Language language) {
  const Word& words = kSentences[static_cast<size_t>(clue.kind)];
  std::string text = fmt::format(fmt::runtime(language == Language::kChinese ? words.chinese : words.english),
                                 fmt::arg("a", person_with(zebra, clue.a, language)),
                                 fmt::arg("b", person_with(zebra, clue.b, language)),
                                 fmt::arg("h", clue.house + 1), fmt::arg("k", clue.other_house + 1));
  if (text.starts_with("the ")) text[0] = 'T';
  return text;
}

std::string header_of(const Zebra& zebra, Language language) {
  std::vector<std::string> names = {language == Language::kChinese ? "\"房子\"" : "\"House\""};
  for (const Attribute& attribute : zebra.attributes)
    names.push_back(fmt::format("\"{}\"", attribute_in(attribute.name, language)));
  return fmt::format("[{}]", fmt::join(names, ", "));
}

PromptParts english(const Zebra& zebra) {
  const std::string form = fmt::format(R"({{"header": {}, "rows": [["1", …], ["2", …], …]}})",
                                       header_of(zebra, Language::kEnglish));
  return {
      .openings = {"Solve this puzzle of houses.", "Who lives where? Work it out from the clues.",
                   "Here is a logic puzzle about a row of houses.", "Find out what belongs to each house.",
                   "The clues below leave exactly one arrangement. Find it.",
                   "Please solve the following zebra puzzle.",
                   "Work out the whole table of houses from these clues.",
                   "Some people live side by side. Find out everything about them."},
      .rules = {fmt::format("There are {0} houses in a row, numbered from 1 on the left to {0} on the right. "
                            "One person lives in each "
                            "house. Of each attribute listed, every person has one of the values, and no two "
                            "people have the same "
                            "one. \"To the left\" means towards house 1.",
                            zebra.houses),
                fmt::format("Rules: {0} people live in {0} houses that stand in a row, one in each; house 1 "
                            "is the leftmost and house "
                            "{0} the rightmost. Each value of each attribute belongs to exactly one of the "
                            "people. A house is to the "
                            "left of another if its number is smaller.",
                            zebra.houses)},
      .formats = {fmt::format("Answer with the whole table as JSON, one row for each house from left to "
                              "right, with all cells as texts, "
                              "in a form like {}",
                              form),
                  fmt::format("Give a JSON object with the header and, for each house in order, a row of "
                              "texts, in the form {}",
                              form)}};
}

PromptParts chinese(const Zebra& zebra) {
  const std::string form = fmt::format(R"({{"header": {}, "rows": [["1", …], ["2", …], …]}})",
                                       header_of(zebra, Language::kChinese));
  return {
      .openings = {"请解这道关于房子的谜题。", "谁住在哪里？请根据线索推出来。",
                   "下面是一道关于一排房子的逻辑题。", "请找出每所房子的情况。",
                   "下面的线索只允许一种安排，请找出来。", "请解下面的斑马谜题。",
                   "请根据这些线索推出整张房子的表。", "一些人比邻而居，请推出关于他们的一切。"},
      .rules =
          {fmt::format(
               "一排有 {0} 所房子，从左到右编号为 1 到 "
               "{0}。每所房子住一个人。对于列出的每个属性，每个人恰有其中一个值，任何两个人的值都不相同。"
               "“左边”指靠近 1 号房子的一边。",
               zebra.houses),
           fmt::format("规则：{0} 个人住在排成一排的 {0} 所房子里，每所一人；1 号房子在最左边，{0} "
                       "号在最右边。每个属性的每个值恰好属于其中一个人。"
                       "编号较小的房子在另一所的左边。",
                       zebra.houses)},
      .formats = {
          fmt::format("请用 JSON 给出整张表，从左到右每所房子一行，所有单元格都是文本，形式如 {}", form),
          fmt::format("请给出一个 JSON 对象，包含表头和按顺序排列的每所房子的一行文本，形式为 {}", form)}};
}

}  // namespace

std::string_view attribute_in(std::string_view name, Language language) {
  const auto found = std::ranges::find(kAttributes, name, &Word::english);
  if (found == std::end(kAttributes)) return {};
  return language == Language::kChinese ? found->chinese : found->english;
}

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  if (is_of_public_file(given))  // the text of the file, which is English, and how an answer is written
    return text_of(given["puzzle"], "\"puzzle\"", kTask.key) +
           "\n\nAnswer with the whole table as JSON, one row for each house in order, with all cells as "
           "texts: {\"header\": " +
           member_of(member_of(given, "solution", kTask.key), "header", kTask.key).dump() +
           ", \"rows\": [[\"1\", …], …]}";
  const Zebra zebra = read_given(given);
  const bool zh = language == Language::kChinese;
  std::string board = zh ? "属性：\n" : "Attributes:\n";
  for (const Attribute& attribute : zebra.attributes) {
    std::vector<std::string_view> values;
    for (const std::string& value : attribute.values) values.push_back(puzzles::in_language(value, language));
    board += fmt::format("- {}{}{}\n", attribute_in(attribute.name, language), zh ? "：" : ": ",
                         fmt::join(values, ", "));
  }
  board += zh ? "\n线索：" : "\nClues:";
  for (size_t i = 0; i < zebra.clues.size(); ++i)
    board += fmt::format("\n{}. {}", i + 1, sentence_of(zebra, zebra.clues[i], language));
  return prompt_of(zh ? chinese(zebra) : english(zebra), board, which);
}

}  // namespace longhaul::puzzles::zebra_puzzle
