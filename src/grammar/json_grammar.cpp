#include "grammar/json_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace longhaul::grammar {
namespace {

constexpr int64_t kMostDigits = 18, kMostExponentDigits = 2, kMostIndent = 20;

ByteSet without(ByteSet set, std::string_view bytes) { return set & ~byte_set(bytes); }

// A byte that stands for itself in a string.
bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

Symbol ranged(Grammar& grammar, int first, int last) {
  return grammar.bytes(byte_range(static_cast<unsigned char>(first), static_cast<unsigned char>(last)));
}

// Characters of more than one byte: all of UTF-8 but surrogates.
std::vector<Symbols> long_characters(Grammar& grammar) {
  const Symbol more = ranged(grammar, 0x80, 0xbf);
  const auto byte = [&](int value) { return ranged(grammar, value, value); };
  return {{ranged(grammar, 0xc2, 0xdf), more},
          {byte(0xe0), ranged(grammar, 0xa0, 0xbf), more},
          {ranged(grammar, 0xe1, 0xec), more, more},
          {byte(0xed), ranged(grammar, 0x80, 0x9f), more},
          {ranged(grammar, 0xee, 0xef), more, more},
          {byte(0xf0), ranged(grammar, 0x90, 0xbf), more, more},
          {ranged(grammar, 0xf1, 0xf3), more, more, more},
          {byte(0xf4), ranged(grammar, 0x80, 0x8f), more, more}};
}

// What may follow a backslash.
std::vector<Symbols> escapes(Grammar& grammar) {
  const auto set = [&](std::string_view bytes) { return grammar.bytes(byte_set(bytes)); };
  const Symbol hex = set("0123456789abcdefABCDEF"), d = set("dD"), u = set("u");
  const Symbol low = set("cdefCDEF");
  return {{set("\"\\/bfnrt")},
          {u, set("0123456789abcefABCEF"), hex, hex, hex},
          {u, d, set("01234567"), hex, hex},
          {u, d, set("89abAB"), hex, hex, set("\\"), u, d, low, hex, hex}};
}

Symbol digits(Grammar& grammar, int64_t least, int64_t most) {
  return grammar.rule({grammar.repeat({ranged(grammar, '0', '9')}, least, most)});
}

}  // namespace

JsonGrammar::JsonGrammar(Grammar& grammar) : grammar_(grammar) {
  const Symbols blank = grammar_.literal(" ");
  space_ = grammar_.rule({{}, blank, join(grammar_.literal("\n"), grammar_.repeat(blank, 0, kMostIndent))});
  comma_ = grammar_.rule({join(join({space_}, grammar_.literal(",")), {space_})});
}

Symbol JsonGrammar::character() {
  if (character_) return *character_;
  std::vector<Symbols> all = long_characters(grammar_);
  all.push_back({grammar_.bytes(without(byte_range(0x20, 0x7f), "\"\\"))});
  plain_ = grammar_.rule(all);
  std::vector<Symbols> with_escapes = {{*plain_}};
  const Symbol backslash = grammar_.bytes(byte_set("\\"));
  for (const Symbols& each : escapes(grammar_)) with_escapes.push_back(join({backslash}, each));
  character_ = grammar_.rule(with_escapes);
  return *character_;
}

Symbol JsonGrammar::string_of(int64_t least, int64_t most) {
  const Symbol quote = grammar_.bytes(byte_set("\""));
  return grammar_.rule({join(join({quote}, grammar_.repeat({character()}, least, most)), {quote})});
}

Symbol JsonGrammar::string() {
  if (!string_) string_ = string_of(0, -1);
  return *string_;
}

Symbol JsonGrammar::number() {
  if (number_) return *number_;
  const Symbol whole = grammar_.rule(
      {grammar_.literal("0"), {ranged(grammar_, '1', '9'), digits(grammar_, 0, kMostDigits - 1)}});
  const Symbols fraction = grammar_.optional(join(grammar_.literal("."), {digits(grammar_, 1, kMostDigits)}));
  const Symbol e = grammar_.bytes(byte_set("eE")), sign = grammar_.bytes(byte_set("+-"));
  const Symbols exponent = grammar_.optional(
      join(join({e}, grammar_.optional({sign})), {digits(grammar_, 1, kMostExponentDigits)}));
  const Symbols minus = grammar_.optional(grammar_.literal("-"));
  number_ = grammar_.rule({join(join(join(minus, {whole}), fraction), exponent)});
  return *number_;
}

// The numbers between two of as many digits.
Symbols JsonGrammar::digits_between(const std::string& least, const std::string& most) {
  const Symbol digit = ranged(grammar_, '0', '9');
  const bool all_of_them =
      least.find_first_not_of('0') == std::string::npos && most.find_first_not_of('9') == std::string::npos;
  if (all_of_them) return Symbols(least.size(), digit);
  const std::string low = least.substr(1), high = most.substr(1);
  const auto any = Symbols(low.size(), digit);
  if (least[0] == most[0]) return join(grammar_.literal(least.substr(0, 1)), digits_between(low, high));
  std::vector<Symbols> all = {
      join(grammar_.literal(least.substr(0, 1)), digits_between(low, std::string(low.size(), '9'))),
      join(grammar_.literal(most.substr(0, 1)), digits_between(std::string(high.size(), '0'), high))};
  if (most[0] - least[0] > 1) all.push_back(join({ranged(grammar_, least[0] + 1, most[0] - 1)}, any));
  return {grammar_.rule(all)};
}

// Numbers from least to most, both 0 or more, as their digits: those of each length.
std::vector<Symbols> JsonGrammar::integers(int64_t least, int64_t most) {
  std::vector<Symbols> all;
  std::string low = std::to_string(least);
  const std::string high = std::to_string(most);
  while (low.size() < high.size()) {
    all.push_back(digits_between(low, std::string(low.size(), '9')));
    low = "1" + std::string(low.size(), '0');
  }
  all.push_back(digits_between(low, high));
  return all;
}

Symbol JsonGrammar::integer(std::optional<int64_t> least, std::optional<int64_t> most) {
  constexpr int64_t kLargest = 999'999'999'999'999'999;  // of kMostDigits
  const int64_t low = std::max(least.value_or(-kLargest), -kLargest);
  const int64_t high = std::min(most.value_or(kLargest), kLargest);
  LONGHAUL_ASSERT(low <= high);
  std::vector<Symbols> all;
  if (low < 0) {
    for (const Symbols& each : integers(std::max<int64_t>(1, -high), -low))
      all.push_back(join(grammar_.literal("-"), each));
  }
  if (high >= 0) {
    for (const Symbols& each : integers(std::max<int64_t>(0, low), high)) all.push_back(each);
  }
  return grammar_.rule(all);
}

Symbols JsonGrammar::member(const Symbols& key, Symbol value) const {
  return join(join(key, {space_}), join(grammar_.literal(":"), {space_, value}));
}

Symbol JsonGrammar::list(const std::vector<Symbol>& first, const std::optional<Symbol>& rest, int64_t least,
                         int64_t most) {
  const auto begun = std::ssize(first);
  std::vector<Symbols> all;
  const Symbols open = join(grammar_.literal("["), {space_}), close = join({space_}, grammar_.literal("]"));
  const auto fits = [&](int64_t items) { return items >= least && (most < 0 || items <= most); };
  if (fits(0)) all.push_back(join(open, grammar_.literal("]")));
  Symbols items;
  for (int64_t i = 0; i < begun; ++i) {
    if (i > 0) items.push_back(comma_);
    items.push_back(first[static_cast<size_t>(i)]);
    if (fits(i + 1) && (i + 1 < begun || !rest)) all.push_back(join(join(open, items), close));
  }
  const int64_t stand = std::max<int64_t>(1, begun);  // items before the first comma of `rest`
  if (rest && (most < 0 || most >= stand)) {
    if (begun == 0) items.push_back(*rest);
    const Symbols more =
        grammar_.repeat({comma_, *rest}, std::max<int64_t>(0, least - stand), most < 0 ? -1 : most - stand);
    all.push_back(join(join(open, join(items, more)), close));
  }
  if (all.empty()) return grammar_.declare();  // no list fits: remove_endless() finds it
  return grammar_.rule(all);
}

Symbol JsonGrammar::object() {
  if (object_) return *object_;
  object_ = grammar_.declare();
  const Symbol one = grammar_.rule({member({string()}, value())});
  const Symbols open = join(grammar_.literal("{"), {space_}), close = join({space_}, grammar_.literal("}"));
  grammar_.define(*object_, {join(open, grammar_.literal("}")),
                             join(join(open, {one}), join(grammar_.repeat({comma_, one}, 0, -1), close))});
  return *object_;
}

Symbol JsonGrammar::value() {
  if (value_) return *value_;
  value_ = grammar_.declare();
  const Symbol array = list({}, *value_, 0, -1);
  grammar_.define(*value_, {{object()},
                            {array},
                            {string()},
                            {number()},
                            grammar_.literal("true"),
                            grammar_.literal("false"),
                            grammar_.literal("null")});
  return *value_;
}

// The rest of a key that has begun like some of the keys.
Symbol JsonGrammar::key_from(const std::set<std::string>& keys, const std::string& begun) {
  std::string nexts;
  bool is_key = false;
  for (const std::string& key : keys) {
    if (!key.starts_with(begun)) continue;
    if (key == begun) {
      is_key = true;
    } else if (nexts.empty() || nexts.back() != key[begun.size()]) {
      nexts += key[begun.size()];
    }
  }
  const Symbol quote = grammar_.bytes(byte_set("\""));
  const Symbols rest = join(grammar_.repeat({*plain_}, 0, -1), {quote});
  std::vector<Symbols> all;
  if (!is_key) all.push_back({quote});
  all.push_back(join({grammar_.bytes(without(byte_range(0x20, 0x7f), nexts + "\"\\"))}, rest));
  for (const char& next : nexts) {
    if (is_plain(next)) all.push_back(join(grammar_.literal({&next, 1}), {key_from(keys, begun + next)}));
  }
  // Where a key goes on with a character of several bytes, other keys go on with none.
  if (std::ranges::none_of(nexts, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) {
    for (const Symbols& each : long_characters(grammar_)) all.push_back(join(each, rest));
  }
  return grammar_.rule(all);
}

Symbol JsonGrammar::other_key(const std::set<std::string>& keys) {
  if (keys.empty()) return string();
  character();  // makes plain_
  return grammar_.rule({{grammar_.bytes(byte_set("\"")), key_from(keys, "")}});
}

}  // namespace longhaul::grammar
