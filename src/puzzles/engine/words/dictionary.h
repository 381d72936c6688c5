// English words for puzzles that are made of words: some 23,000 of a to z, 3 to 12 letters long, in
// alphabetical order, each once. They are of SCOWL, chosen by scripts/make-word-list. Pure; the first call
// splits the text, and any number of threads may make it.
#pragma once

#include <span>
#include <string_view>

namespace longhaul::puzzles {

std::span<const std::string_view> dictionary();
std::span<const std::string_view> dictionary_of(char first_letter);  // the words that begin with it

extern const std::string_view kDictionaryText;  // the words, a blank after each (english_words.txt)

}  // namespace longhaul::puzzles
