#include "puzzles/engine/words/words.h"
#include "puzzles/space_reasoning_tree/space_reasoning_tree.h"

namespace longhaul::puzzles::space_reasoning_tree {
namespace {

void write_sentence(const Fact& fact, bool chinese, std::string& text) {
  if (chinese) {
    const char* kind = fact.kind == "children" ? "孩子" : fact.kind == "grandchildren" ? "孙辈" : "兄弟姐妹";
    text += in_language(fact.about, Language::kChinese);
    (text += fact.things.empty() ? "没有" : "的全部") += kind;
  } else if (fact.things.empty()) {
    (((text += "The ") += fact.about) += " has no ") += fact.kind;
  } else {
    (((text += "All ") += fact.kind) += " of the ") += fact.about;
  }
  const char* between = chinese ? "：" : ": the ";
  for (const std::string_view thing : fact.things) {
    (text += between) += chinese ? in_language(thing, Language::kChinese) : thing;
    between = chinese ? "、" : ", the ";
  }
  text += chinese ? "。\n" : ".\n";
}

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Find the cousins in a tree of things.", "Some things are arranged as a tree.",
                   "Here are statements about a tree.", "Which things are cousins of the one asked for?",
                   "Work out the cousins from these statements.",
                   "The statements below describe parts of a tree.",
                   "Please read the family tree of these things.",
                   "Somewhere in this tree there are cousins. Which?"},
      .rules = {"Things are the nodes of one tree with a root; each thing but the root has exactly one "
                "parent. Siblings have the same parent; grandchildren "
                "are the children of children. The cousins of a thing are all children of its parent's "
                "siblings. Each statement is complete: it "
                "names all children, grandchildren or siblings that there are.",
                "Rules: it is a rooted tree. A thing's children are the nodes right below it, its "
                "grandchildren those below them, and its siblings the other "
                "children of its parent. Its cousins are the children of all siblings of its parent. A "
                "statement leaves nobody out."},
      .formats = {"Answer with all cousins, separated by commas, in any order, inside \\boxed{}: "
                  "\\boxed{first thing, second thing}.",
                  "Write their names in a box, with commas between them: \\boxed{first thing, second thing}. "
                  "The order does not matter."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请在一棵由东西组成的树中找出表亲。", "一些东西排成了一棵树。", "下面是关于一棵树的陈述。",
                   "哪些东西是所问之物的表亲？", "请根据这些陈述求出表亲。",
                   "下面的陈述描述了一棵树的一部分。", "请阅读这些东西的家谱。", "这棵树中有表亲，是哪些？"},
      .rules = {"这些东西是一棵有根树的节点；除根以外每样东西恰好有一个父节点。兄弟姐妹有同一个父节点；孙辈是"
                "孩子的孩子。一样东西的表亲是其父节点的所有兄弟姐妹的孩子。"
                "每条陈述都是完整的：列出了全部的孩子、孙辈或兄弟姐妹。",
                "规则：这是一棵有根树。孩子是紧接其下的节点，孙辈是再下一层的节点，兄弟姐妹是父节点的其他孩子"
                "。表亲是父节点的所有兄弟姐妹的孩子。陈述没有遗漏。"},
      .formats = {"请在 \\boxed{} 中写出所有表亲，用逗号分隔，次序不限：\\boxed{第一样, 第二样}。",
                  "请把它们的名称用逗号隔开写在框里：\\boxed{第一样, 第二样}。次序无关紧要。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Given puzzle = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  std::string board;
  for (const Fact& fact : puzzle.facts) write_sentence(fact, is_chinese, board);
  board += is_chinese ? fmt::format("\n问题：{}的表亲有哪些？", in_language(puzzle.asked, language))
                      : fmt::format("\nQuestion: Which are the cousins of the {}?", puzzle.asked);
  return prompt_of(is_chinese ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::space_reasoning_tree
