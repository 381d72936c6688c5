// GrammarStates: which bytes may follow a text that a grammar has begun. A state is what all beginnings have
// in common after which the same bytes may follow; it is found when it is first needed, and kept. So a text
// that goes on (the inside of a string) walks among few states, whose steps are one look into a table.
//
//   GrammarStates states(grammar);
//   State state = states.start();
//   for (const char byte : text) state = states.after(state, byte);   // kNoState: no text of the grammar
//
// Inside, a state is a set of stacks: what is expected next, and what is expected once that has ended. Stacks
// share their lower parts, and a rule that another one ends with replaces it, so lists do not grow them.
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace longhaul::grammar {

using State = int32_t;
inline constexpr State kNoState = -1;

class GrammarStates {
 public:
  // kUsage from after() once there are this many: a text nests without end.
  static constexpr size_t kMostStates = 200'000;

  explicit GrammarStates(Grammar grammar);

  State start() const { return 0; }
  State after(State state, unsigned char byte);
  bool may_end(State state) const { return states_[static_cast<size_t>(state)].may_end; }
  // nothing may follow
  bool must_end(State state) const { return states_[static_cast<size_t>(state)].tops.empty(); }
  size_t count() const { return states_.size(); }

 private:
  static constexpr State kUnknown = -2;
  static constexpr int32_t kBottom = -1;
  // What is expected at this place of the grammar, and below it what is expected afterwards.
  struct Stack {
    int32_t place, below;
  };
  struct Entry {
    std::vector<int32_t> tops;  // stacks, each with a set of bytes on top, in ascending order
    bool may_end = false;
    std::vector<State> next;  // by class of bytes
  };
  using Key = std::pair<std::vector<int32_t>, bool>;

  void sort_bytes();
  int32_t stack(int32_t place, int32_t below);
  void expect(int32_t place, int32_t below, Key& into);
  State state_of(Key key);

  Grammar grammar_;
  // Bytes that stand in the same sets of the grammar are of one class: after all of them comes the same.
  std::array<uint8_t, 256> class_of_{};
  size_t classes_ = 0;
  std::vector<Stack> stacks_;
  std::unordered_map<uint64_t, int32_t> stack_of_;
  std::vector<Entry> states_;
  std::map<Key, State> state_of_;
};

}  // namespace longhaul::grammar
