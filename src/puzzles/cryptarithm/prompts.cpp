#include "puzzles/cryptarithm/cryptarithm.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::cryptarithm {
namespace {

PromptParts english() {
  return {
      .openings = {"Solve this cryptarithm.", "Here is a cryptarithm. Which digits do its letters stand for?",
                   "In the equation below, letters hide digits. Find them.", "Decode the following equation.",
                   "The letters of this equation stand for digits. Work out which.",
                   "The cryptarithm below has exactly one solution. Find it.",
                   "Please solve the puzzle of letters and digits that follows.",
                   "Replace the letters of this equation by digits so that it is true."},
      .rules = {"Each letter stands for one digit from 0 to 9, the same one wherever it occurs, and "
                "different letters stand for "
                "different digits. A number of two or more digits does not begin with 0. The equation must "
                "be true, where "
                "multiplication (*) comes before addition (+) and subtraction (-).",
                "Rules: equal letters are equal digits (0 to 9) and different letters are different digits. "
                "No number begins with "
                "0, unless it has one digit only. With the digits put in, the equation must hold; * is "
                "computed before + and -."},
      .formats = {fmt::format("Answer with the whole equation in digits, with the numbers and signs in the "
                              "order in which they stand, in "
                              "a form like {}.",
                              kExample),
                  fmt::format("Write the complete equation with digits in place of the letters and "
                              "everything else as it is, for "
                              "example {}.",
                              kExample)}};
}

PromptParts chinese() {
  return {.openings = {"请解这道字母算式谜题。", "下面是一道字母算式，其中的字母各代表哪个数字？",
                       "在下面的等式中，字母代替了数字，请找出这些数字。", "请破译下面的等式。",
                       "这个等式中的字母代表数字，请推出它们。", "下面的字母算式只有一个解，请找出来。",
                       "请解出下面的字母与数字谜题。", "请用数字替换等式中的字母，使等式成立。"},
          .rules = {"每个字母代表 0 到 9 "
                    "中的一个数字，同一个字母处处代表同一个数字，不同的字母代表不同的数字。两位或更多位的数不"
                    "能以 0 开头。"
                    "等式必须成立，其中乘法（*）先于加法（+）和减法（-）。",
                    "规则：相同的字母是相同的数字（0 到 "
                    "9），不同的字母是不同的数字。除一位数外，任何数都不以 0 开头。填入数字后等式必须成立；"
                    "先算 *，再算 + 和 -。"},
          .formats = {fmt::format("请用数字写出整个等式，数和符号的次序保持不变，形式如 {}。", kExample),
                      fmt::format("请写出完整的等式，用数字替换字母，其余保持原样，例如 {}。", kExample)}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  return prompt_of(language == Language::kChinese ? chinese() : english(),
                   text_of(member_of(given, "equation", kTask.key), "\"equation\"", kTask.key), which);
}

}  // namespace longhaul::puzzles::cryptarithm
