#include "puzzles/operation/operation.h"

namespace longhaul::puzzles::operation {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Compute an expression with new operators.",
                   "Some new operators are defined below. Evaluate the expression.",
                   "What is the value of the following expression?",
                   "Work out the expression by the definitions that are given.",
                   "Please compute the value asked for below.",
                   "Here are definitions of new operators, and an expression to compute.",
                   "Evaluate the expression below exactly.", "By these definitions, what is the result?"},
      .rules =
          {"x stands for the left operand of a new operator and y for the right one. Parentheses are "
           "computed first; |a| is the "
           "absolute value of a. Operators of higher precedence are applied before those of lower "
           "precedence: ** has precedence 3, "
           "*, / and % have 2, + and - have 1, and the precedence of a new operator stands beside it. "
           "Operators of equal "
           "precedence, ** included, are applied from left to right. a ** b is a to the power of b. a / b is "
           "exact, not rounded. "
           "a % b is the remainder of whole numbers, with the sign of b. A condition holds only if both "
           "operands are whole numbers "
           "and it is true; in all other cases the formula after \"otherwise\" is used.",
           "Rules: in a definition x is what stands on the left of the operator and y what stands on its "
           "right. First come "
           "parentheses (|a| is the absolute value), then the operators by their precedence, the highest "
           "first: 3 for **, 2 for *, "
           "/ and %, 1 for + and -, and for new operators the number given with them. Equal precedence, also "
           "of **, means from left "
           "to right. ** is the power, / divides exactly without rounding, and % is the remainder of whole "
           "numbers and takes the "
           "sign of the number on its right. Where a definition has a condition, its first formula counts if "
           "both operands are "
           "whole numbers that fulfil it, and the formula after \"otherwise\" counts in every other case."},
      .formats = {
          "Answer with the value as a whole number or as a reduced fraction, in a form like 7 or -3/4.",
          "Give the result as a whole number, or as a reduced fraction where it is none, for example 7 or "
          "-3/4."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请计算含有新运算符的表达式。", "下面定义了一些新的运算符，请求出表达式的值。",
                   "下列表达式的值是多少？", "请按给出的定义计算表达式。", "请计算下面所求的值。",
                   "这里有新运算符的定义和一个要计算的表达式。", "请精确计算下面的表达式。",
                   "按照这些定义，结果是多少？"},
      .rules = {"x 表示新运算符左边的数，y 表示右边的数。先算括号；|a| 是 a "
                "的绝对值。优先级高的运算符先算：** 的优先级为 3，*、/ 和 % 为 2，"
                "+ 和 - 为 1，新运算符的优先级写在它旁边。优先级相同的运算符（包括 **）从左到右计算。a ** b "
                "是 a 的 b 次方。a / b 是精确值，不取整。"
                "a % b 是整数的余数，符号与 b "
                "相同。只有当两个操作数都是整数且条件为真时，条件才成立；其他情况都用“否则”后面的公式。",
                "规则：在定义中，x 是运算符左边的数，y 是右边的数。先算括号（|a| "
                "为绝对值），再按优先级从高到低计算：** 为 3，*、/、% 为 2，+、- 为 1，"
                "新运算符的优先级是与它一起给出的数。同级（包括 **）从左到右。** 是乘方，/ "
                "是不取整的精确除法，% 是整数的余数，符号与右边的数相同。"
                "定义带有条件时，如果两个操作数都是满足条件的整数，就用第一个公式，其他情况都用“否则”后面的公"
                "式。"},
      .formats = {"请用整数或最简分数回答，形式如 7 或 -3/4。",
                  "请给出结果：整数，或者不是整数时的最简分数，例如 7 或 -3/4。"}};
  return parts;
}

std::string definition_text(const Symbol& symbol, bool zh) {
  const std::string left = fmt::format("x {} y", symbol.text);
  const std::string head = fmt::format(fmt::runtime(zh ? "{}（优先级 {}）：" : "{} (precedence {}): "),
                                       symbol.text, symbol.precedence);
  if (symbol.condition == nullptr) return fmt::format("{}{} = {}", head, left, symbol.formula);
  return fmt::format(
      fmt::runtime(zh ? "{}如果{}，则 {} = {}；否则 {} = {}" : "{}if {}, {} = {}; otherwise {} = {}"), head,
      zh ? symbol.condition->chinese : symbol.condition->english, left, symbol.formula, left,
      symbol.otherwise);
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Task task = read_given(given);
  const bool zh = language == Language::kChinese;
  std::string board;
  for (const Symbol& symbol : task.symbols) board += definition_text(symbol, zh) + "\n";
  board += (zh ? "表达式：" : "Expression: ") + task.expression;
  return prompt_of(zh ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::operation
