// The parts of JSON as rules: what json_schema.h puts together. Texts are valid UTF-8 and can be read by
// every reader of JSON: numbers have at most 18 digits before and after the point and two of an exponent, and
// escaped surrogates come in pairs. White space between parts is nothing, one space, or a new line with at
// most 20 spaces, since a model that may write white space without end sometimes does.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "grammar/grammar.h"

namespace longhaul::grammar {

class JsonGrammar {
 public:
  explicit JsonGrammar(Grammar& grammar);

  Symbol space() const { return space_; }
  Symbol value();   // any
  Symbol object();  // with any members
  Symbol string();
  Symbol string_of(int64_t least, int64_t most);  // characters; most < 0: any number
  Symbol number();
  Symbol integer(std::optional<int64_t> least, std::optional<int64_t> most);
  Symbols literal(const std::string& json) { return grammar_.literal(json); }

  // "[ item , item ]" with `first` items one after the other, and then `rest` (if any) repeated so that there
  // are least to most items; most < 0: any number.
  Symbol list(const std::vector<Symbol>& first, const std::optional<Symbol>& rest, int64_t least,
              int64_t most);
  // "key" : value, of a key as JSON text, or of a rule of keys
  Symbols member(const Symbols& key, Symbol value) const;
  Symbol comma() const { return comma_; }
  // A string that is none of these keys; it has no escapes.
  Symbol other_key(const std::set<std::string>& keys);

 private:
  Symbol character();
  Symbol key_from(const std::set<std::string>& keys, const std::string& begun);
  std::vector<Symbols> integers(int64_t least, int64_t most);
  Symbols digits_between(const std::string& least, const std::string& most);

  Grammar& grammar_;
  Symbol space_, comma_;
  std::optional<Symbol> value_, object_, string_, number_, character_, plain_;
};

}  // namespace longhaul::grammar
