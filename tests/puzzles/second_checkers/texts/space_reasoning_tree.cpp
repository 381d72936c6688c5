#include "puzzles/second_checkers/checkers.h"

#include <map>
#include <set>

namespace longhaul::puzzles {

namespace {

using PlainSet = std::set<std::string>;

// What follows from statements: who surely is somebody's child, and of whom all children are known.
// Everything is followed until nothing is new.
struct PlainTree {
  std::map<std::string, std::string> parent;
  std::map<std::string, PlainSet> children, grandchildren, siblings;  // whole families only

  void follow() {
    for (size_t before = 0, now = 1; before != now;) {
      before = now;
      for (const auto& [above, family] : std::map(children)) {
        for (const std::string& child : family) parent[child] = above;
      }
      for (const auto& [one, others] : siblings) {
        if (!parent.contains(one)) continue;
        PlainSet family = others;
        family.insert(one);
        children[parent[one]] = family;
      }
      for (const auto& [above, all] : grandchildren) {  // the parent of a grandchild is a child
        for (const std::string& one : all) {
          if (parent.contains(one)) parent[parent[one]] = above;
        }
      }
      now = parent.size() + children.size();
    }
  }
};

}  // namespace

bool plain_space_reasoning_tree(const nlohmann::json& given, const std::string& text) {
  PlainTree tree;
  std::string asked;
  for (const std::string& line : plain_prompt_lines("space_reasoning_tree", given)) {
    const auto family = [&](const std::string& kind) -> std::map<std::string, PlainSet>& {
      return kind == "children"        ? tree.children
             : kind == "grandchildren" ? tree.grandchildren
                                       : tree.siblings;
    };
    const size_t no = line.find(" has no "), of = line.find(" of the "), colon = line.find(": ");
    if (line.starts_with("The ") && no != std::string::npos && line.ends_with('.')) {
      family(line.substr(no + 8, line.size() - no - 9))[line.substr(4, no - 4)] = {};
    } else if (line.starts_with("All ") && of != std::string::npos && colon != std::string::npos) {
      PlainSet all;
      for (const std::string& thing : plain_words(line.substr(colon + 2, line.size() - colon - 3), ','))
        all.insert(thing.substr(4));
      family(line.substr(4, of - 4))[line.substr(of + 8, colon - of - 8)] = all;
    } else if (line.starts_with("Question: ")) {
      asked = line.substr(line.find("of the ") + 7);
      asked.pop_back();
    }
  }
  tree.follow();
  if (!tree.parent.contains(asked) || !tree.parent.contains(tree.parent[asked])) return false;
  const std::string parent = tree.parent[asked], above = tree.parent[parent];
  PlainSet cousins, answer;
  if (tree.grandchildren.contains(above)) {
    for (const std::string& one : tree.grandchildren[above]) {
      if (!tree.children.at(parent).contains(one)) cousins.insert(one);
    }
  } else {
    for (const std::string& one : tree.children.at(above)) {
      if (one != parent) cousins.insert(tree.children.at(one).begin(), tree.children.at(one).end());
    }
  }
  for (const std::string& word : plain_words(text, ',')) answer.insert(word);
  return answer == cousins;
}

}  // namespace longhaul::puzzles
