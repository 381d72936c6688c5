// What the kinds of ciphers share: keys that are drawn and read, ciphers that treat one letter after the
// other, and transpositions.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "puzzles/cipher/steps.h"
#include "puzzles/engine/answers/literal.h"

namespace longhaul::puzzles::cipher {

using Key = nlohmann::json;
using Text = std::optional<std::string>;

inline constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                                  kSquareLetters = "ABCDEFGHIKLMNOPQRSTUVWXYZ";

inline std::string shuffled(std::string_view characters, Draw& draw) {
  std::string text(characters);
  draw.shuffle(text);
  return text;
}
inline std::string drawn_key_word(Draw& draw) {
  std::string word;
  for (int64_t letters = draw.between(3, 6); letters > 0; --letters) word += kLetters[draw.below(26)];
  return word;
}
inline std::vector<int64_t> drawn_order(int64_t count, Draw& draw) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{1});
  draw.shuffle(order);
  return order;
}

inline bool has_text(const Key& key, const char* name) { return key.contains(name) && key[name].is_string(); }
inline bool is_shuffle_of(const Key& key, const char* name, std::string_view characters) {
  if (!has_text(key, name)) return false;
  std::string text = key[name].get<std::string>(), plain(characters);
  std::ranges::sort(text);
  std::ranges::sort(plain);
  return text == plain;
}
inline bool is_number(const Key& key, const char* name, int64_t least, int64_t most) {
  return key.contains(name) && key[name].is_number_integer() && key[name].get<int64_t>() >= least &&
         key[name].get<int64_t>() <= most;
}
inline bool is_order(const Key& key) {
  if (!key.contains("order") || !key["order"].is_array() || key["order"].empty() || key["order"].size() > 20)
    return false;
  if (!std::ranges::all_of(key["order"], [](const Key& one) { return one.is_number_integer(); }))
    return false;
  auto order = key["order"].get<std::vector<int64_t>>();
  std::ranges::sort(order);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i) + 1) return false;
  }
  return true;
}
inline bool is_list_of_numbers(const Key& key, const char* name, size_t count, int64_t least, int64_t most) {
  if (!key.contains(name) || !key[name].is_array() || key[name].size() != count) return false;
  return std::ranges::all_of(key[name], [&](const Key& one) {
    return one.is_number_integer() && one.get<int64_t>() >= least && one.get<int64_t>() <= most;
  });
}

inline size_t number_of(char letter) { return static_cast<size_t>(letter - 'A'); }
inline char shifted(char letter, int64_t by) {
  return static_cast<char>('A' + (static_cast<int64_t>(number_of(letter)) + by) % 26);
}

// The code of a letter at a place of the text.
using Code = std::string (*)(const Key& key, char letter, size_t at);

template <Code code, bool with_blanks>
Text encrypt_letters(const Key& key, const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (with_blanks && i > 0) out += ' ';
    out += code(key, text[i], i);
  }
  return out;
}
// The letter whose code stands there; keys make codes different.
template <Code code, bool with_blanks>
Text decrypt_letters(const Key& key, const std::string& text) {
  std::vector<std::string> codes;
  if (with_blanks) {
    codes = words_between(text, ' ');
  } else {
    for (const char c : text) codes.emplace_back(1, c);
  }
  std::string out;
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto letter = std::ranges::find_if(kLetters, [&](char c) { return code(key, c, i) == codes[i]; });
    if (letter == kLetters.end()) return std::nullopt;
    out += *letter;
  }
  return out;
}

// Which letter of the text stands at each place of the result.
using Transposition = std::vector<size_t> (*)(const Key& key, size_t length);

template <Transposition places_of>
Text encrypt_places(const Key& key, const std::string& text) {
  std::string out;
  for (const size_t place : places_of(key, text.size())) out += text[place];
  return out;
}
template <Transposition places_of>
Text decrypt_places(const Key& key, const std::string& text) {
  const std::vector<size_t> places = places_of(key, text.size());
  std::string out(text.size(), ' ');
  for (size_t i = 0; i < places.size(); ++i) out[places[i]] = text[i];
  return out;
}

}  // namespace longhaul::puzzles::cipher
