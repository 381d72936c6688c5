#include "puzzles/mathador/mathador.h"

namespace longhaul::puzzles::mathador {
namespace {

PromptParts english(int64_t target) {
  return {.openings = {"Reach the target with the given numbers.",
                       "Play the game of 24 and its relatives: make the target.",
                       "Here is a Mathador puzzle.", "Find an expression with the wanted value.",
                       "Combine the numbers below so that they make the target.",
                       "Which calculation with these numbers gives the target?",
                       "Please solve this number puzzle.", "Build the target out of these numbers."},
          .rules = {fmt::format("Use every given number exactly once, as it is, with the operations +, -, * "
                                "and / and with parentheses, so that the result is {}. Division is "
                                "exact: fractions may come up on the way. Numbers must not be joined, and no "
                                "sign may stand in front of a number.",
                                target),
                    fmt::format("Rules: the value must be {}. Each of the given numbers appears once and no "
                                "other number does. Allowed are addition +, subtraction -, "
                                "multiplication *, division / (exact, with fractions where they come up) and "
                                "parentheses; not allowed are joining digits and signs in "
                                "front of numbers.",
                                target)},
          .formats = {"Answer with the expression alone, in a form like (1 + 2) * 3.",
                      "Write only the expression, without an equals sign, for example (1 + 2) * 3."}};
}

PromptParts chinese(int64_t target) {
  return {.openings = {"请用给定的数字得到目标值。", "请玩 24 点一类的游戏：得到目标值。",
                       "下面是一道 Mathador 谜题。", "请找出一个值等于目标的算式。",
                       "请把下面的数字组合起来得到目标值。", "用这些数字怎样计算能得到目标值？",
                       "请解这道数字谜题。", "请用这些数字构造目标值。"},
          .rules = {fmt::format(
                        "每个给定的数字必须原样使用且恰好使用一次，可以使用 +、-、*、/ 和括号，使结果等于 "
                        "{}。除法是精确的：中间可以出现分数。不能把数字拼接起来，数字前面不能带符号。",
                        target),
                    fmt::format(
                        "规则：算式的值必须是 {}。每个给定的数字出现一次，不出现其他数字。允许加 +、减 -、乘 "
                        "*、除 /（精确，可以出现分数）和括号；不允许拼接数字，也不允许在数字前加符号。",
                        target)},
          .formats = {"请只回答算式，形式如 (1 + 2) * 3。", "请只写算式，不写等号，例如 (1 + 2) * 3。"}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const auto [numbers, target] = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  const std::string board = is_chinese
                                ? fmt::format("数字：{}\n目标：{}", fmt::join(numbers, ", "), target)
                                : fmt::format("Numbers: {}\nTarget: {}", fmt::join(numbers, ", "), target);
  return prompt_of(is_chinese ? chinese(target) : english(target), board, which);
}

}  // namespace longhaul::puzzles::mathador
