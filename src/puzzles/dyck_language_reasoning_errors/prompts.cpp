#include "puzzles/dyck_language_reasoning_errors/dyck_language_reasoning_errors.h"

namespace longhaul::puzzles::dyck_language_reasoning_errors {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Check this trace of a sequence of brackets.",
                   "Somebody noted how brackets open and close. Find the mistakes.",
                   "Which lines of the following trace are wrong?",
                   "Here is a record of a stack of brackets.", "Please look for errors in these lines.",
                   "Verify the stack after every bracket.",
                   "The trace below may hold mistakes. Where are they?",
                   "Read the trace and name its wrong lines."},
      .rules = {"An opening bracket is put on top of the stack; a closing bracket takes the opening bracket "
                "of its kind from the top. The stack is written from "
                "its bottom to its top, so its top is the last bracket. A line is wrong if it does not show "
                "the stack as it really is after all the brackets up "
                "to there, whatever the lines before it show. The last line is wrong if what it says of the "
                "end of the sequence is not true. Lines 1 "
                "and 2 are right.",
                "Rules: there are the brackets (), [], {} and <>. The stack holds what is open, the "
                "innermost at the right. Judge each line by the true stack at "
                "its place in the sequence, not by other lines, which may be wrong themselves; the last line "
                "makes a statement about the whole "
                "sequence, to be judged in the same way. The first two lines hold no error."},
      .formats = {"Answer with the numbers of all wrong lines, separated by commas, such as 98,99; if no "
                  "line is wrong, answer with the word none.",
                  "Give the numbers of the wrong lines with commas between them (for lines 98 and 99 that is "
                  "98,99), or the word none if all are right."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请检查这个括号序列的推导过程。", "有人记录了括号的打开和闭合，请找出错误。",
                   "下面的过程中哪些行是错的？", "下面是一个括号栈的记录。", "请在这些行中找错。",
                   "请核对每个括号之后的栈。", "下面的过程可能有错误，在哪里？",
                   "请阅读这个过程并指出错误的行。"},
      .rules =
          {"左括号压入栈顶；右括号从栈顶取走同种的左括号。栈从底到顶书写，最后一个括号是栈顶。如果某一行显示"
           "的不是到该处为止所有括号之后真实的栈，这一行就是错的，"
           "不管它前面的行显示什么。如果最后一行关于序列结尾的说法不真实，它就是错的。第1行和第2行是对的。",
           "规则：括号有 ()、[]、{} 和 <> "
           "四种。栈里是尚未闭合的括号，最里层的在右边。每一行都按序列中该处真实的栈来判断，而不按其他行，因"
           "为其他行本身可能有错；"
           "最后一行是关于整个序列的说法，同样判断。前两行没有错误。"},
      .formats = {"请回答所有错误行的行号，用逗号分隔，例如 98,99；如果没有错误行，请回答“无”。",
                  "请写出错误行的行号，中间用逗号（第98行和第99行写作 98,99）；如果全部正确，请写“无”。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const bool is_chinese = language == Language::kChinese;
  const auto& [sequence, stacks, says_empty] = read_trace(given);
  const char *empty = is_chinese ? "空" : "empty", *stack = is_chinese ? "栈" : "stack";
  std::string board =
      is_chinese
          ? fmt::format("1. 逐个读取序列 {} 中的括号，并记录打开的括号的栈。\n", sequence)
          : fmt::format("1. The brackets of {} are read one by one, and a stack of open brackets is kept.\n",
                        sequence);
  board += fmt::format("2. {}: {}\n", stack, empty);
  size_t line = 3;
  for (const std::string& shown : stacks) {
    ((board += std::to_string(line)) += ". ") += sequence.at(line - 3);
    (((board += " ; ") += stack) += ": ") += shown.empty() ? empty : shown;
    board += '\n';
    ++line;
  }
  if (is_chinese) {
    board += fmt::format("{}. 读完后栈{}空，所以序列{}配对完整的。", line, says_empty ? "为" : "不为",
                         says_empty ? "是" : "不是");
  } else {
    board += fmt::format("{}. At the end the stack is {}empty, so the sequence is {}balanced.", line,
                         says_empty ? "" : "not ", says_empty ? "" : "not ");
  }
  return prompt_of(is_chinese ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::dyck_language_reasoning_errors
