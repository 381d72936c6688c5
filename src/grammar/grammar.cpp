#include "grammar/grammar.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::grammar {

ByteSet byte_range(unsigned char first, unsigned char last) {
  ByteSet set;
  for (int byte = first; byte <= last; ++byte) set.set(static_cast<size_t>(byte));
  return set;
}

ByteSet byte_set(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.set(static_cast<unsigned char>(byte));
  return set;
}

Symbols join(Symbols a, const Symbols& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Symbol Grammar::bytes(const ByteSet& set) {
  const auto found = std::ranges::find(sets_, set);
  if (found != sets_.end()) return {Symbol::Kind::kBytes, static_cast<int32_t>(found - sets_.begin())};
  sets_.push_back(set);
  return {Symbol::Kind::kBytes, static_cast<int32_t>(sets_.size() - 1)};
}

Symbols Grammar::literal(std::string_view text) {
  Symbols symbols;
  for (const char& byte : text) symbols.push_back(bytes(byte_set({&byte, 1})));
  return symbols;
}

Symbol Grammar::declare() {
  rules_.emplace_back();
  return {Symbol::Kind::kRule, static_cast<int32_t>(rules_.size() - 1)};
}

void Grammar::define(Symbol rule, const std::vector<Symbols>& alternatives) {
  std::vector<int32_t>& places = rules_[static_cast<size_t>(rule.index)];
  LONGHAUL_ASSERT(places.empty() && !alternatives.empty());
  for (const Symbols& each : alternatives) {
    if (symbols_.size() + each.size() >= kMostSymbols) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "the form of the text is too large",
                   .expected = fmt::format("at most {} symbols in all rules", kMostSymbols),
                   .found = "more",
                   .hint = "have fewer properties, or smaller bounds of lengths"});
    }
    places.push_back(static_cast<int32_t>(symbols_.size()));
    symbols_.insert(symbols_.end(), each.begin(), each.end());
    symbols_.push_back({});
  }
}

Symbol Grammar::rule(const std::vector<Symbols>& alternatives) {
  const Symbol made = declare();
  define(made, alternatives);
  return made;
}

Symbols Grammar::optional(const Symbols& what) { return {rule({what, {}})}; }

Symbols Grammar::repeat(const Symbols& what, int64_t least, int64_t most) {
  const Symbol once = rule({what});
  Symbols tail;
  if (most < 0) {
    const Symbol more = declare();
    define(more, {{once, more}, {}});
    tail = {more};
  }
  for (int64_t i = least; i < most; ++i) tail = optional(join({once}, tail));
  Symbols all;
  for (int64_t i = 0; i < least; ++i) {
    all.push_back(once);
    if (all.size() > kMostSymbols) break;  // define() refuses it
  }
  return join(all, tail);
}

bool Grammar::can_end(int32_t alternative, const std::vector<bool>& ending) const {
  for (int32_t place = alternative; at(place).kind != Symbol::Kind::kEnd; ++place) {
    if (at(place).kind == Symbol::Kind::kRule && !ending[static_cast<size_t>(at(place).index)]) return false;
  }
  return true;
}

bool Grammar::remove_endless() {
  std::vector<bool> ending(rules_.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      if (ending[rule]) continue;
      ending[rule] = std::ranges::any_of(rules_[rule], [&](int32_t each) { return can_end(each, ending); });
      changed = changed || ending[rule];
    }
  }
  for (std::vector<int32_t>& alternatives : rules_)
    std::erase_if(alternatives, [&](int32_t each) { return !can_end(each, ending); });
  return ending[static_cast<size_t>(start_.index)];
}

}  // namespace longhaul::grammar
