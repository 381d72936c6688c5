// Characters of UTF-8 text that is known to be valid, as Python counts, classes and changes them. Functions
// on MarkedText keep each byte's mark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/chat/budget.h"
#include "data/chat/marked_text.h"

namespace longhaul::data::chat {

size_t characters(std::string_view text);
size_t character_length(std::string_view text, size_t at);          // in bytes
size_t byte_of_character(std::string_view text, size_t character);  // text.size() beyond the end

bool is_python_space(char32_t code);  // str.isspace
bool is_cased(char32_t code);

enum class Case { kUpper, kLower, kTitle };
// Appends the character's form; simple mappings and ß.
void append_in_case(MarkedText& to, char32_t code, Case wanted, Mark mark, bool written);
MarkedText in_case(const MarkedText& text, Case wanted);  // kTitle: str.title
MarkedText capitalized(const MarkedText& text);           // str.capitalize

enum class Ends { kBoth, kLeft, kRight };
// str.strip; `chars`: the characters to take away, none given: white space.
MarkedText stripped(const MarkedText& text, Ends ends, const std::string* chars = nullptr);
// str.split and str.rsplit; no separator: runs of white space. most: at most so many cuts; <0: any number.
std::vector<MarkedText> split_text(const MarkedText& text, const std::string* separator, int64_t most,
                                   bool from_right);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends = false);
MarkedText replaced(const MarkedText& text, const std::string& from, const MarkedText& to, int64_t most,
                    Budget& budget);
MarkedText reversed(const MarkedText& text);

}  // namespace longhaul::data::chat
