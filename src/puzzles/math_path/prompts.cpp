#include "puzzles/engine/given.h"
#include "puzzles/math_path/math_path.h"

namespace longhaul::puzzles::math_path {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Fill in the hidden digits of this equation.",
                   "Which digits make the following equation true?",
                   "Replace the question marks by digits so that the equation holds.",
                   "Find the missing digits.",
                   "Some digits of the equation below are hidden. Find digits that fit.",
                   "Please complete this equation.", "Put a digit in place of each question mark.",
                   "Work out digits that complete the equation below."},
      .rules = {"Each ? stands for one digit from 0 to 9; different question marks may stand for different "
                "digits or for the same one. "
                "Expressions in parentheses are computed first; *, / and % come before + and -, and "
                "operators of the same rank are "
                "computed from left to right. Every division must come out exactly (and nothing is divided "
                "by 0). a % b is the remainder "
                "of a divided by b: b must be greater than 0, and the remainder is from 0 to b - 1, also "
                "where a is negative. Everything "
                "except the question marks stays as it is.",
                "Rules: put one digit (0 to 9) in place of each ? and change nothing else; the digits need "
                "not be different. Parentheses "
                "come first, then *, / and %, then + and -, always from left to right. A division is only "
                "allowed where its result is a "
                "whole number and its divisor is not 0. In a % b, b must be above 0; the result is the "
                "remainder from 0 to b - 1, also "
                "for a negative a. The left side must be equal to the number on the right."},
      .formats = {"Answer with the complete equation between double brackets, in a form like [[1 + 2 = 3]].",
                  "Write the whole equation with all digits filled in between [[ and ]], for example [[1 + 2 "
                  "= 3]]."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请填出等式中隐藏的数字。", "哪些数字能使下面的等式成立？",
                   "请用数字替换问号，使等式成立。", "请找出缺少的数字。",
                   "下面等式中的一些数字被隐藏了，请找出合适的数字。", "请完成这个等式。",
                   "请在每个问号处填一个数字。", "请推出能补全下面等式的数字。"},
      .rules = {"每个 ? 代表 0 到 9 中的一个数字，不同的问号可以代表不同或相同的数字。先算括号里的式子；*、/ "
                "和 % 先于 + 和 -，同级运算从左到右。"
                "每次除法都必须整除（且除数不为 0）。a % b 是 a 除以 b 的余数：b 必须大于 0，余数在 0 到 b - "
                "1 之间，a 为负数时也是如此。除问号外一切保持不变。",
                "规则：在每个 ? 处填一个数字（0 到 9），其余不得改动；数字可以相同。先算括号，再算 *、/ 和 "
                "%，最后算 + 和 -，同级从左到右。"
                "只有结果为整数且除数不为 0 的除法才允许。在 a % b 中 b 必须大于 0，结果是 0 到 b - 1 "
                "之间的余数，a 为负数时也一样。左边必须等于右边的数。"},
      .formats = {"请把完整的等式写在双方括号中，形式如 [[1 + 2 = 3]]。",
                  "请写出填好所有数字的整个等式，放在 [[ 和 ]] 之间，例如 [[1 + 2 = 3]]。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  return prompt_of(language == Language::kChinese ? chinese() : english(),
                   text_of(member_of(given, "query_expr", kTask.key), "\"query_expr\"", kTask.key), which);
}

}  // namespace longhaul::puzzles::math_path
