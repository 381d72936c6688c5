#include "puzzles/dyck_language_errors/dyck_language_errors.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::dyck_language_errors {
namespace {

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Find the first error in this sequence of brackets.",
                   "Is this sequence of brackets correct? If not, where does it go wrong?",
                   "At which place does this sequence of brackets become wrong?",
                   "Check the following sequence of brackets.",
                   "The sequence below may hold an error. Find its place.",
                   "Read these brackets from left to right and find the first mistake.",
                   "Where is the first wrong bracket?", "Please check the brackets below."},
      .rules = {"The brackets are (), [], {} and <>. A closing bracket must be of the kind of the bracket "
                "that was opened last and is still open. Places are "
                "counted from 1. The first error is the first closing bracket that does not fit, or that "
                "comes when nothing is open. If there is no such bracket "
                "but some bracket is never closed, the error is at the place after the last bracket (the "
                "length plus 1). If everything is closed, there is no error.",
                "Rules: count places from 1. Going from left to right, an error is a closing bracket without "
                "an open bracket before it, or of another kind than "
                "the last one that is open; there are (), [], {} and <>. A sequence that has no such error "
                "but ends with open brackets has its error one place "
                "after its end. A sequence in which every bracket is closed in order has none."},
      .formats = {
          "Answer with the place of the first error as a whole number, or with -1 if there is no error.",
          "Give one whole number: the place of the first error, and -1 if the sequence is correct."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请找出这个括号序列中的第一处错误。", "这个括号序列正确吗？如果不正确，从哪里开始出错？",
                   "这个括号序列在第几个位置出错？", "请检查下面的括号序列。",
                   "下面的序列可能有一处错误，请找出它的位置。", "请从左到右阅读这些括号，找出第一个错误。",
                   "第一个错误的括号在哪里？", "请检查下面的括号。"},
      .rules = {"括号有 ()、[]、{} 和 <> 四种。右括号必须与最近打开且尚未闭合的括号同种。位置从 1 "
                "开始计数。第一处错误是第一个不匹配的右括号，或者在没有打开的括号时出现的"
                "右括号。如果没有这样的括号，但有括号始终没有闭合，则错误位置是最后一个括号之后的位置（长度加"
                " 1）。如果所有括号都已闭合，则没有错误。",
                "规则：位置从 1 "
                "开始计数。从左到右，前面没有打开的括号的右括号，或者与最近打开的括号不同种的右括号，是错误；"
                "共有 ()、[]、{} 和 <> 四种。没有这种错误但结尾"
                "仍有打开的括号的序列，错误在结尾之后的一个位置。每个括号都按次序闭合的序列没有错误。"},
      .formats = {"请用一个整数回答第一处错误的位置；如果没有错误，请回答 -1。",
                  "请给出一个整数：第一处错误的位置；序列正确时为 -1。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  return prompt_of(language == Language::kChinese ? chinese() : english(),
                   text_of(member_of(given, "sequence", kTask.key), "\"sequence\"", kTask.key), which);
}

}  // namespace longhaul::puzzles::dyck_language_errors
