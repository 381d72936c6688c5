#include "puzzles/space_reasoning_tree/space_reasoning_tree.h"

#include <algorithm>
#include <array>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles::space_reasoning_tree {
namespace {

constexpr int64_t kMostNodes = 350;
constexpr size_t kMostFacts = 1000;
constexpr Knob kKnobs[] = {{"nodes", 15, kMostNodes, 20, 140, "things in the tree"}};

struct Tree {
  std::vector<std::vector<size_t>> children;
  std::vector<size_t> parent;  // the root is its own

  size_t add(size_t above) {
    const size_t node = children.size();
    children.emplace_back();
    parent.push_back(above);
    if (node != above) children[above].push_back(node);
    return node;
  }
  std::vector<size_t> grandchildren(size_t node) const {
    std::vector<size_t> all;
    for (const size_t child : children[node])
      all.insert(all.end(), children[child].begin(), children[child].end());
    return all;
  }
  std::vector<size_t> siblings(size_t node) const {
    std::vector<size_t> all = children[parent[node]];
    std::erase(all, node);
    return all;
  }
};

// Four generations below the root, ever smaller families; then leftovers at inner nodes.
Tree random_tree(size_t nodes, Draw& draw) {
  struct Generation {
    int64_t percent, least, most;
  };
  constexpr Generation kGenerations[] = {{100, 3, 6}, {100, 2, 5}, {75, 1, 4}, {60, 1, 3}};
  Tree tree;
  std::vector<size_t> last = {tree.add(0)};
  for (const Generation& generation : kGenerations) {
    std::vector<size_t> next;
    for (const size_t node : last) {
      if (!draw.chance(generation.percent)) continue;
      for (int64_t count = draw.between(generation.least, generation.most);
           count > 0 && tree.children.size() < nodes; --count)
        next.push_back(tree.add(node));
    }
    last = std::move(next);
  }
  std::vector<size_t> inner;
  for (size_t node = 0; node < tree.children.size(); ++node) {
    if (!tree.children[node].empty()) inner.push_back(node);
  }
  while (tree.children.size() < nodes) tree.add(draw.pick(inner));
  return tree;
}

class Facts {
 public:
  Facts(const Tree& tree, const std::vector<Word>& words, Draw& draw)
      : tree_(tree), words_(words), draw_(draw) {
    told_.fill(std::vector<bool>(tree.children.size()));
  }

  void add(const char* kind, size_t about) {
    const std::string_view which = kind;
    std::vector<size_t> nodes = which == "children"        ? tree_.children[about]
                                : which == "grandchildren" ? tree_.grandchildren(about)
                                                           : tree_.siblings(about);
    draw_.shuffle(nodes);
    std::vector<bool>& told = told_[which[0] == 'c' ? 0 : which[0] == 'g' ? 1 : 2];
    if (told[about]) return;
    told[about] = true;
    nlohmann::json::array_t things;
    things.reserve(nodes.size());
    for (const size_t node : nodes) things.emplace_back(words_[node].english);
    facts_.push_back(json_list(kind, words_[about].english, std::move(things)));
  }
  nlohmann::json shuffled() {
    draw_.shuffle(facts_);
    return std::move(facts_);
  }

 private:
  const Tree& tree_;
  const std::vector<Word>& words_;
  Draw& draw_;
  std::array<std::vector<bool>, 3> told_;  // children, grandchildren and siblings, by node
  nlohmann::json::array_t facts_;
};

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const auto nodes = static_cast<size_t>(knobs["nodes"]);
  const Tree tree = random_tree(nodes, draw);
  std::vector<Word> words(things().begin(), things().end());
  for (size_t i = 0; i < nodes; ++i) std::swap(words[i], words[i + draw.below(words.size() - i)]);
  const size_t asked = draw.below(nodes), parent = tree.parent[asked], above = tree.parent[parent];
  std::vector<size_t> cousins = tree.grandchildren(above);
  std::erase_if(cousins, [&](size_t node) { return tree.parent[node] == parent; });
  if (parent == above || cousins.empty()) return std::nullopt;
  Facts facts(tree, words, draw);
  if (draw.chance(50)) {
    facts.add("grandchildren", above);
    facts.add("children", parent);
  } else {
    facts.add("children", above);
    for (const size_t child : tree.children[above]) facts.add("children", child);
  }
  const auto more = draw.between(static_cast<int64_t>(nodes) / 3, static_cast<int64_t>(nodes) / 2);
  constexpr const char* kKinds[] = {"children", "grandchildren", "siblings"};
  for (int64_t i = 0; i < more; ++i) {
    const char* kind = kKinds[draw.below(3)];
    const size_t about = draw.below(nodes);
    if (about != 0 || kind != kKinds[2]) facts.add(kind, about);  // nobody asks for siblings of the root
  }
  std::vector<std::string> names;
  for (const size_t node : cousins) names.emplace_back(words[node].english);
  std::ranges::sort(names);
  nlohmann::json given = nlohmann::json::object();
  given["facts"] = facts.shuffled();
  given["asked"] = words[asked].english;
  return Puzzle{.given = std::move(given), .solution = fmt::format("{}", fmt::join(names, ", "))};
}

const Fact* fact_of(const Given& given, std::string_view kind, std::string_view about) {
  const auto found = std::ranges::find_if(
      given.facts, [&](const Fact& fact) { return fact.kind == kind && fact.about == about; });
  return found == given.facts.end() ? nullptr : &*found;
}

const Fact* fact_with(const Given& given, std::string_view kind, std::string_view thing) {
  const auto found = std::ranges::find_if(given.facts, [&](const Fact& fact) {
    return fact.kind == kind && std::ranges::find(fact.things, thing) != fact.things.end();
  });
  return found == given.facts.end() ? nullptr : &*found;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::optional<std::set<std::string>> wanted = cousins_of(read_given(given));
  if (!wanted) refuse_given(kTask.key, "facts that tell the cousins", given);
  std::set<std::string> answer;
  for (const std::string& word : words_between(payload, ',')) {
    const std::optional<std::string_view> thing = english_word(word);
    if (!thing) return {VerdictCode::kUnreadable, "not names of things, separated by commas"};
    answer.emplace(*thing);
  }
  for (const std::string& thing : answer) {
    if (!wanted->contains(thing)) return {VerdictCode::kRuleBroken, fmt::format("{} is no cousin", thing)};
  }
  if (answer.size() != wanted->size())
    return {VerdictCode::kRuleBroken, fmt::format("{} cousins are missing", wanted->size() - answer.size())};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  // whose order makes no other puzzle, and neither does the order of things in one
  Given puzzle = read_given(given);
  std::ranges::sort(puzzle.facts, {}, [](const Fact& fact) { return std::pair(fact.about, fact.kind); });
  std::string text(puzzle.asked);
  for (Fact& fact : puzzle.facts) {
    std::ranges::sort(fact.things);
    ((text += '\n') += fact.kind[0]) += fact.about;
    for (const std::string_view thing : fact.things) (text += ',') += thing;
  }
  return text;
}

Puzzle told_in(Puzzle puzzle, Language language) {
  std::vector<std::string_view> told;
  const std::vector<std::string> words = words_between(puzzle.solution, ',');
  for (const std::string& word : words) told.push_back(in_language(word, language));
  puzzle.solution = fmt::format("{}", fmt::join(told, ", "));
  return puzzle;
}

}  // namespace

Given read_given(const nlohmann::json& given) {
  const auto thing = [](const nlohmann::json& json) {
    const std::string_view text = text_of(json, "a thing", kTask.key);
    if (!word_in(text, Language::kEnglish)) refuse_given(kTask.key, "things that our table holds", json);
    return text;
  };
  Given puzzle{.asked = thing(member_of(given, "asked", kTask.key))};
  for (const nlohmann::json& json :
       list_of(member_of(given, "facts", kTask.key), 1, kMostFacts, "\"facts\"", kTask.key)) {
    list_of(json, 3, 3, "a fact", kTask.key);
    Fact fact{.kind = text_of(json[0], "the kind of a fact", kTask.key), .about = thing(json[1])};
    if (fact.kind != "children" && fact.kind != "grandchildren" && fact.kind != "siblings")
      refuse_given(kTask.key, "facts of children, grandchildren or siblings", json);
    fact.things.reserve(json[2].size());
    for (const nlohmann::json& one : list_of(json[2], 0, kMostNodes, "the things of a fact", kTask.key))
      fact.things.push_back(thing(one));
    puzzle.facts.push_back(std::move(fact));
  }
  return puzzle;
}

std::optional<std::set<std::string>> cousins_of(const Given& given) {
  const Fact* family = fact_with(given, "children", given.asked);
  if (family == nullptr) return std::nullopt;
  std::set<std::string> cousins;
  if (const Fact* all = fact_with(given, "grandchildren", given.asked)) {
    cousins.insert(all->things.begin(), all->things.end());
    for (const std::string_view sibling : family->things) cousins.erase(std::string(sibling));
    return cousins;
  }
  const Fact* parents = fact_with(given, "children", family->about);
  if (parents == nullptr) return std::nullopt;
  for (const std::string_view uncle : parents->things) {
    if (uncle == family->about) continue;
    const Fact* children = fact_of(given, "children", uncle);
    if (children == nullptr) return std::nullopt;
    cousins.insert(children->things.begin(), children->things.end());
  }
  return cousins;
}

const TaskEntry kTask = {.key = "space_reasoning_tree",
                         .title = "Find the cousins of a thing in a tree",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .in_language = told_in};

}  // namespace longhaul::puzzles::space_reasoning_tree
