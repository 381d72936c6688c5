#include "grammar/grammar_states.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace longhaul::grammar {

GrammarStates::GrammarStates(Grammar grammar) : grammar_(std::move(grammar)) {
  sort_bytes();
  Key first;
  for (const int32_t alternative : grammar_.alternatives(grammar_.start().index))
    expect(alternative, kBottom, first);
  state_of(std::move(first));
}

void GrammarStates::sort_bytes() {
  std::map<std::vector<bool>, uint8_t> classes;
  for (size_t byte = 0; byte < 256; ++byte) {
    std::vector<bool> in_sets;
    for (const ByteSet& set : grammar_.sets()) in_sets.push_back(set.test(byte));
    class_of_[byte] =
        classes.try_emplace(std::move(in_sets), static_cast<uint8_t>(classes.size())).first->second;
  }
  classes_ = classes.size();
}

int32_t GrammarStates::stack(int32_t place, int32_t below) {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(place)) << 32 | static_cast<uint32_t>(below);
  const auto [found, is_new] = stack_of_.try_emplace(key, static_cast<int32_t>(stacks_.size()));
  if (is_new) stacks_.push_back({place, below});
  return found->second;
}

// Adds the stacks that this place begins: rules are opened until a set of bytes is on top.
void GrammarStates::expect(int32_t place, int32_t below, Key& into) {
  std::set<std::pair<int32_t, int32_t>> seen;
  std::vector<std::pair<int32_t, int32_t>> open = {{place, below}};
  while (!open.empty()) {
    const auto [at, under] = open.back();
    open.pop_back();
    if (!seen.insert({at, under}).second) continue;
    const Symbol& symbol = grammar_.at(at);
    switch (symbol.kind) {
      case Symbol::Kind::kBytes:
        into.first.push_back(stack(at, under));
        break;
      case Symbol::Kind::kEnd:
        if (under == kBottom) {
          into.second = true;
        } else {
          const Stack& next = stacks_[static_cast<size_t>(under)];
          open.emplace_back(next.place, next.below);
        }
        break;
      case Symbol::Kind::kRule: {
        const bool is_last = grammar_.at(at + 1).kind == Symbol::Kind::kEnd;
        const int32_t afterwards = is_last ? under : stack(at + 1, under);
        for (const int32_t alternative : grammar_.alternatives(symbol.index))
          open.emplace_back(alternative, afterwards);
        break;
      }
    }
  }
}

State GrammarStates::state_of(Key key) {
  std::ranges::sort(key.first);
  // Clang 14 cannot compile std::ranges::unique of GCC 12's library.
  key.first.erase(std::unique(key.first.begin(), key.first.end()), key.first.end());
  const auto [found, is_new] = state_of_.try_emplace(std::move(key), static_cast<State>(states_.size()));
  if (is_new) {
    if (states_.size() >= kMostStates) {
      state_of_.erase(found);
      throw Error({.code = ExitCode::kUsage,
                   .what = "the text nests too deeply for its form",
                   .expected = fmt::format("a text of at most {} states", kMostStates),
                   .found = "more",
                   .hint = "bound the depth or the length of what the form allows"});
    }
    Entry& entry = states_.emplace_back(Entry{.tops = found->first.first, .may_end = found->first.second});
    entry.next.assign(classes_, kUnknown);
  }
  return found->second;
}

State GrammarStates::after(State state, unsigned char byte) {
  const size_t which = class_of_[byte];
  const State known = states_[static_cast<size_t>(state)].next[which];
  if (known != kUnknown) return known;
  Key key;
  const std::vector<int32_t> tops = states_[static_cast<size_t>(state)].tops;
  for (const int32_t top : tops) {
    const Stack stack = stacks_[static_cast<size_t>(top)];
    if (grammar_.set(grammar_.at(stack.place).index).test(byte)) expect(stack.place + 1, stack.below, key);
  }
  const State next = key.first.empty() && !key.second ? kNoState : state_of(std::move(key));
  states_[static_cast<size_t>(state)].next[which] = next;
  return next;
}

}  // namespace longhaul::grammar
