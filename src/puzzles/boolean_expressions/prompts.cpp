#include "puzzles/boolean_expressions/boolean_expressions.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::boolean_expressions {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Which of these expressions are true?", "Evaluate the boolean expressions below.",
                   "Find every true expression.", "Some of the following expressions are true. Which ones?",
                   "Here are boolean expressions, one for each letter.",
                   "Decide for each expression whether it is true.",
                   "Please work out which of the expressions are true.",
                   "Judge the expressions that follow."},
      .rules = {"True and False are constants. \"not\" turns the value of the parenthesis after it into its "
                "opposite, as often as it stands there; \"and\" is true "
                "if all its operands are true; \"or\" is true if at least one of its operands is. "
                "Comparisons are of ordinary arithmetic: * and / bind "
                "more tightly than + and -, and division is exact. == means equals and != means differs "
                "from. Sentences are true if they are true in "
                "the real world.",
                "Rules: an expression is made of the constants True and False, of comparisons of numbers, "
                "and of sentences, which are true if the real world is "
                "so; these are joined by and (all must be true), or (one at least must be true) and not (the "
                "opposite, once for each not). In arithmetic * and "
                "/ come before + and -, / gives exact fractions, == is equality and != is inequality."},
      .formats = {"At least one expression is true. Answer with the letters of all true expressions, "
                  "separated by commas, inside \\boxed{}; for two "
                  "letters X and Y that would be \\boxed{X,Y}.",
                  "One or more are true. Give the letters of all that are true and of no other, with commas "
                  "between them, in a box: \\boxed{X,Y} if "
                  "the letters were X and Y."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"下面哪些表达式为真？", "请计算下面的布尔表达式。", "请找出所有为真的表达式。",
                   "下列表达式中有一些为真，是哪些？", "下面是若干布尔表达式，每个对应一个字母。",
                   "请判断每个表达式是否为真。", "请求出哪些表达式为真。", "请对以下表达式作出判断。"},
      .rules =
          {"True 和 False 是常量。not 把它后面括号的值取反，写几次就取反几次；and "
           "在所有操作数都为真时为真；or 在至少一个操作数为真时为真。"
           "数的比较按通常的算术：* 和 / 先于 + 和 -，除法是精确的；== 表示相等，!= "
           "表示不相等。句子如果符合真实世界的事实就为真。",
           "规则：表达式由常量 True、False，数的比较，以及句子组成，句子符合现实世界的事实即为真；它们用 "
           "and（全部为真才为真）、or（至少一个为真即为真）"
           "和 not（每个 not 取反一次）连接。算术中先算 * 和 /，后算 + 和 -，/ 得到精确的分数，== 是相等，!= "
           "是不相等。"},
      .formats = {"至少有一个表达式为真。请在 \\boxed{} 中写出所有为真的表达式的字母，用逗号分隔；如果是 X "
                  "和 Y 两个字母，就写 \\boxed{X,Y}。",
                  "有一个或多个为真。请把所有为真的（且仅这些）字母用逗号隔开写在框中：若字母是 X 和 Y，则为 "
                  "\\boxed{X,Y}。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  std::string board;
  char letter = 'A';
  for (const nlohmann::json& option :
       list_of(member_of(given, "options", kTask.key), 1, 26, "\"options\"", kTask.key))
    ((board += letter == 'A' ? "" : "\n") += letter) += ". ", board += expression_of(option, language),
        ++letter;
  return prompt_of(language == Language::kChinese ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::boolean_expressions
