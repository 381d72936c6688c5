#include "puzzles/dyck_language/dyck_language.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::dyck_language {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Complete this sequence of brackets.", "A sequence of brackets was cut off. Restore it.",
                   "Here is the beginning of a sequence of brackets.",
                   "Finish the following sequence of brackets.",
                   "Close everything that is open in this sequence.",
                   "The sequence below is a beginning in the Dyck language. Complete it.",
                   "Which whole sequence of brackets begins like this?", "Please complete the brackets."},
      .rules = {"The brackets are (), [], {} and <>. Every opening bracket must be closed by a closing "
                "bracket of its kind, in the right order of nesting. "
                "Add as few brackets as possible at the end, and change nothing that is there.",
                "Rules: a bracket that opened last is closed first, and by the closing bracket of its own "
                "kind; there are (), [], {} and <>. What is given "
                "stays as it is; add behind it only what is needed, and no more."},
      .formats = {"Answer with the whole sequence, what was given and what you added, without blanks.",
                  "Write the complete sequence from its first bracket to its last, without blanks, and "
                  "nothing else."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请补全这个括号序列。", "一个括号序列被截断了，请恢复它。", "下面是一个括号序列的开头。",
                   "请写完下面的括号序列。", "请把这个序列中打开的括号全部闭合。",
                   "下面是 Dyck 语言中一个序列的开头，请补全。", "哪个完整的括号序列以此开头？",
                   "请补全括号。"},
      .rules = {"括号有 ()、[]、{} 和 <> "
                "四种。每个左括号都必须由同种的右括号按正确的嵌套次序闭合。请在末尾添加尽可能少的括号，不要改"
                "动已有的部分。",
                "规则：最后打开的括号最先闭合，并且由同种的右括号闭合；共有 ()、[]、{} 和 <> "
                "四种。已给出的部分保持不变；只在其后添加必需的括号，不多加。"},
      .formats = {"请回答整个序列，包括已给出的和你添加的部分，不带空格。",
                  "请写出从第一个括号到最后一个括号的完整序列，不带空格，也不写其他内容。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  return prompt_of(language == Language::kChinese ? chinese() : english(),
                   text_of(member_of(given, "prefix", kTask.key), "\"prefix\"", kTask.key), which);
}

}  // namespace longhaul::puzzles::dyck_language
