// Grammar: the texts that may be written, as context-free rules over bytes. A rule has alternatives; each is
// a sequence of symbols, and a symbol is a set of bytes or another rule. JSON and JSON Schema become such
// rules (json_schema.h), and GrammarStates says which bytes may follow a text that has begun.
//
//   Grammar grammar;
//   const Symbol digit = grammar.bytes(byte_range('0', '9'));
//   grammar.set_start(grammar.rule({join(grammar.literal("-"), {digit})}));
//
// Rules may be recursive, but no rule may begin with itself. Not thread-safe while it is built.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::grammar {

using ByteSet = std::bitset<256>;
ByteSet byte_range(unsigned char first, unsigned char last);
ByteSet byte_set(std::string_view bytes);

struct Symbol {
  enum class Kind : uint8_t { kBytes, kRule, kEnd };  // kEnd: the alternative ends here
  Kind kind = Kind::kEnd;
  int32_t index = 0;  // of the set or of the rule
};
using Symbols = std::vector<Symbol>;
Symbols join(Symbols a, const Symbols& b);

class Grammar {
 public:
  // kUsage once the rules have more symbols than this together: no text needs as many.
  static constexpr size_t kMostSymbols = 400'000;

  Symbol bytes(const ByteSet& set);
  Symbols literal(std::string_view text);  // may be empty
  Symbol rule(const std::vector<Symbols>& alternatives);
  // A rule that others may name before its alternatives are known; define() gives them, once.
  Symbol declare();
  void define(Symbol rule, const std::vector<Symbols>& alternatives);
  Symbols optional(const Symbols& what);
  // what, `least` to `most` times; most < 0: any number of times
  Symbols repeat(const Symbols& what, int64_t least, int64_t most);

  void set_start(Symbol rule) { start_ = rule; }
  // Removes the alternatives that can never end (a rule that needs itself). false: no text fits the grammar.
  bool remove_endless();

  Symbol start() const { return start_; }
  const Symbol& at(int32_t place) const { return symbols_[static_cast<size_t>(place)]; }
  const std::vector<ByteSet>& sets() const { return sets_; }
  const ByteSet& set(int32_t index) const { return sets_[static_cast<size_t>(index)]; }
  // Where each alternative of the rule begins: its symbols stand one after the other up to a kEnd.
  const std::vector<int32_t>& alternatives(int32_t rule) const { return rules_[static_cast<size_t>(rule)]; }

 private:
  bool can_end(int32_t alternative, const std::vector<bool>& ending) const;

  std::vector<Symbol> symbols_;
  std::vector<ByteSet> sets_;
  std::vector<std::vector<int32_t>> rules_;
  Symbol start_;
};

}  // namespace longhaul::grammar
