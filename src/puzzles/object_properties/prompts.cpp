#include "puzzles/object_properties/object_properties.h"

namespace longhaul::puzzles::object_properties {
namespace {

std::string_view value_text(size_t property, uint8_t value, Language language) {
  const Word& word = properties()[property].values[value];
  return language == Language::kChinese ? word.chinese : word.english;
}

std::string item_text(const Item& item, size_t left_out, Language language) {
  const bool chinese = language == Language::kChinese;
  std::string text;
  for (const size_t property : {kSize, kColour, kOrigin, kMaterial}) {
    if (property != left_out) (text += value_text(property, item[property], language)) += chinese ? "" : " ";
  }
  text += left_out != kName ? value_text(kName, item[kName], language) : chinese ? "物品" : "item";
  if (!chinese) text = with_article(text);
  if (left_out == kSmell) return text;
  (text += chinese ? "（" : " that smells of ") += value_text(kSmell, item[kSmell], language);
  return text += chinese ? "味）" : "";
}

std::string runs_text(const Given& puzzle, Language language) {
  const bool chinese = language == Language::kChinese;
  std::string text;
  for (size_t i = 0; i < puzzle.items.size();) {
    const uint8_t value = puzzle.items[i][puzzle.in_runs];
    size_t end = i;
    while (end < puzzle.items.size() && puzzle.items[end][puzzle.in_runs] == value) ++end;
    std::string told(value_text(puzzle.in_runs, value, language));
    if (!chinese && puzzle.in_runs == kName && end - i > 1) told = plural_of(told);
    if (chinese) {
      text += fmt::format("{}{}个{}", i == 0 ? "前" : "，接下来", end - i, told);
    } else {
      text += fmt::format("{} {} {}", i == 0 ? "the first" : ", the next", end - i, told);
    }
    i = end;
  }
  const PropertyTable& table = properties()[puzzle.in_runs];
  return chinese ? fmt::format("这些物品的{}按次序为：{}。", table.chinese, text)
                 : fmt::format("The {} of these items, in their order: {}.", table.plural, text);
}

std::string question_text(const Given& puzzle, Language language) {
  const bool chinese = language == Language::kChinese;
  std::string text;
  for (const auto& [property, value] : puzzle.question) {
    const auto told = value_text(property, value, language);
    if (chinese) {
      text += fmt::format("{}{}为{}", text.empty() ? "" : "，或", properties()[property].chinese, told);
    } else {
      const char* joint = text.empty() ? "" : ", or ";
      text += property == kSmell  ? fmt::format("{}smell of {}", joint, told)
              : property == kName ? fmt::format("{}are {}", joint, plural_of(told))
                                  : fmt::format("{}are {}", joint, told);
    }
  }
  return chinese ? fmt::format("问题：最后有多少物品满足以下至少一项：{}？", text)
                 : fmt::format("Question: In the end, how many of my items {}?", text);
}

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Count items of a collection that changes.", "I have a collection of items.",
                   "Here is what happened to my collection.", "Keep track of a collection and its changes.",
                   "Please count some of my items.", "My collection has changed a lot.",
                   "Work out what my collection is like in the end.", "Follow these changes and count."},
      .rules =
          {"Each item has a size, a colour, an origin, a material, a smell and a name. The changes come one "
           "after the other. Which items a change is about is "
           "decided by what they are before that change, and items that come from a change are not changed "
           "by it again. What a change does not "
           "name stays as it is. An item counts once even if several parts of the question are true of it.",
           "Rules: take the changes in their order. A change concerns exactly those items that fit its "
           "description when it begins, and all of their "
           "properties that it does not mention (size, colour, origin, material, smell and name) stay the "
           "same. The question is about items of which at "
           "least one of its parts is true, each counted once."},
      .formats = {"Answer with one whole number inside \\boxed{}. If what is told does not decide it, "
                  "because something of an item is not known, "
                  "answer \\boxed{unknown}.",
                  "Write the number, and nothing else, in a box: \\boxed{number}. Where nobody can know it "
                  "from what is told, write "
                  "\\boxed{unknown}."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请对一批不断变化的收藏品计数。", "我有一批收藏品。", "下面是我的收藏所经历的事。",
                   "请跟踪一批收藏品及其变化。", "请数出我的一些物品。", "我的收藏变化很大。",
                   "请求出我的收藏最后的样子。", "请跟着这些变化计数。"},
      .rules = {"每件物品有大小、颜色、产地、材料、气味和名称。变化逐个发生。一次变化涉及哪些物品，由它们在这"
                "次变化之前的状态决定，由这次变化产生的物品不会再被它改变。"
                "变化没有提到的都保持不变。一件物品即使满足问题中的几项，也只算一次。",
                "规则：请按次序处理这些变化。一次变化恰好涉及在它开始时符合其描述的物品，没有提到的属性（大小"
                "、颜色、产地、材料、气味和名称）保持不变。"
                "问题问的是至少满足其中一项的物品，每件只数一次。"},
      .formats = {"请在 \\boxed{} 中用一个整数回答。如果因为物品的某些情况不明而无法由所述内容确定，请回答 "
                  "\\boxed{未知}。",
                  "请只把这个数写在框里：\\boxed{数}。如果由所述内容无法知道这个数，请写 \\boxed{未知}。"}};
  return parts;
}

}  // namespace

std::span<const PropertyTable> properties() {
  static constexpr PropertyTable kAll[kProperties] = {{"sizes",
                                                       "大小",
                                                       {{{"tiny", "微型"},
                                                         {"small", "小号"},
                                                         {"medium", "中号"},
                                                         {"large", "大号"},
                                                         {"huge", "特大号"},
                                                         {"gigantic", "巨型"},
                                                         {"narrow", "窄型"},
                                                         {"wide", "宽型"},
                                                         {"short", "短款"},
                                                         {"long", "长款"}}}},
                                                      {"colours",
                                                       "颜色",
                                                       {{{"red", "红色"},
                                                         {"blue", "蓝色"},
                                                         {"green", "绿色"},
                                                         {"yellow", "黄色"},
                                                         {"black", "黑色"},
                                                         {"white", "白色"},
                                                         {"grey", "灰色"},
                                                         {"brown", "棕色"},
                                                         {"pink", "粉色"},
                                                         {"purple", "紫色"}}}},
                                                      {"origins",
                                                       "产地",
                                                       {{{"French", "法国"},
                                                         {"Italian", "意大利"},
                                                         {"Chinese", "中国"},
                                                         {"Japanese", "日本"},
                                                         {"Brazilian", "巴西"},
                                                         {"Indian", "印度"},
                                                         {"German", "德国"},
                                                         {"Mexican", "墨西哥"},
                                                         {"Canadian", "加拿大"},
                                                         {"Egyptian", "埃及"}}}},
                                                      {"materials",
                                                       "材料",
                                                       {{{"wooden", "木制"},
                                                         {"metal", "金属"},
                                                         {"glass", "玻璃"},
                                                         {"plastic", "塑料"},
                                                         {"paper", "纸质"},
                                                         {"stone", "石制"},
                                                         {"leather", "皮革"},
                                                         {"clay", "陶土"},
                                                         {"rubber", "橡胶"},
                                                         {"silk", "丝绸"}}}},
                                                      {"smells",
                                                       "气味",
                                                       {{{"vanilla", "香草"},
                                                         {"mint", "薄荷"},
                                                         {"smoke", "烟熏"},
                                                         {"cinnamon", "肉桂"},
                                                         {"coffee", "咖啡"},
                                                         {"jasmine", "茉莉"},
                                                         {"pine", "松木"},
                                                         {"honey", "蜂蜜"},
                                                         {"ginger", "生姜"},
                                                         {"lemon", "柠檬"}}}},
                                                      {"names",
                                                       "名称",
                                                       {{{"ball", "球"},
                                                         {"cup", "杯子"},
                                                         {"doll", "洋娃娃"},
                                                         {"ring", "戒指"},
                                                         {"vase", "花瓶"},
                                                         {"lamp", "台灯"},
                                                         {"clock", "时钟"},
                                                         {"mask", "面具"},
                                                         {"kite", "风筝"},
                                                         {"spoon", "勺子"}}}}};
  return kAll;
}

std::span<const ChangeKind> change_kinds() {
  static const std::vector<ChangeKind> all = {
      {"treat",
       {kSize, kMaterial, kSmell},
       "Every {0} item becomes {1} and takes on the smell of {2}.",
       "每件{0}物品的材料变为{1}，气味变为{2}。"},
      {"split",
       {kSize, kSize, kColour},
       "Every {0} item is replaced by two items: one that is the same but {1}, and one that is the same but "
       "{2}.",
       "每件{0}物品换成两件：一件只有大小变为{1}，另一件只有颜色变为{2}。"},
      {"dye",
       {kMaterial, kColour, kSmell},
       "Every {0} item becomes {1} and takes on the smell of {2}.",
       "每件{0}物品的颜色变为{1}，气味变为{2}。"},
      {"copy",
       {kColour, kColour, kOrigin, kSize, kSmell, kMaterial},
       "For every {0} item I get one more item of the same name, which is {3}, {1}, {2} and {5} and smells "
       "of {4}.",
       "每有一件{0}物品，就增加一件同名的物品，其大小为{3}，颜色为{1}，产地为{2}，材料为{5}，气味为{4}。"},
      {"add_new_pairs",
       {},
       "For every item whose smell and colour did not occur together in any item at the very beginning I get "
       "one more item that is the same in everything.",
       "对每件气味与颜色的组合在最初的收藏中没有出现过的物品，都增加一件完全相同的物品。"},
      {"lose", {kSize}, "I lose all {0} items.", "我失去了所有{0}物品。"},
      {"remake", {kColour, kMaterial}, "Every {0} item becomes {1}.", "每件{0}物品的材料变为{1}。"},
      {"trade",
       {kOrigin, kOrigin, kSize, kColour, kMaterial, kSmell, kName},
       "I trade every {0} item for a {2} {3} {1} {4} {6} that smells of {5}.",
       "我把每件{0}物品都换成一件{2}{3}{1}{4}{6}（{5}味）。"},
      {"twin",
       {kSmell, kColour},
       "For every item that smells of {0} I get a twin that is the same but {1}.",
       "每有一件{0}味的物品，就增加一件只有颜色变为{1}的相同物品。"},
      {"recolour", {kSize, kColour}, "Every {0} item becomes {1}.", "每件{0}物品的颜色变为{1}。"},
      {"trade_unseen",
       {kOrigin, kSize, kMaterial},
       "I trade every {0} item for a {1} {2} item, of which nothing else is known.",
       "我把每件{0}物品都换成一件{1}{2}物品，其余情况不明。"}};
  return all;
}

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Given puzzle = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  std::string board = is_chinese ? "我的收藏起初是：" : "My collection at the beginning:";
  for (size_t i = 0; i < puzzle.items.size(); ++i)
    ((board += '\n') += std::to_string(i + 1)) += ". ",
        board += item_text(puzzle.items[i], puzzle.in_runs, language);
  board += "\n" + runs_text(puzzle, language) + (is_chinese ? "\n\n然后：" : "\n\nThen:");
  for (size_t i = 0; i < puzzle.changes.size(); ++i) {
    const ChangeKind& kind = change_kinds()[puzzle.changes[i].kind];
    std::array<std::string_view, kProperties + 1> told;
    for (size_t j = 0; j < kind.values.size(); ++j)
      told[j] = value_text(kind.values[j], puzzle.changes[i].values[j], language);
    ((board += '\n') += std::to_string(i + 1)) += ". ";
    tell(board, is_chinese ? kind.chinese : kind.english, told);
  }
  board += "\n\n" + question_text(puzzle, language);
  return prompt_of(is_chinese ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::object_properties
