// The answer in what a model wrote: the text between the last complete pair of answer tags after the last
// closing think tag, without the shell that models put around it (a fenced block, \boxed{…}, \text{…}).
// Nothing is ever evaluated.
//
//   // "[[1]]"
//   const std::optional<std::string> payload = payload_of(
//       "<think>…</think><answer>```python\n[[1]]\n```</answer>");
//
// Full-width digits, letters, commas and brackets become the plain ones, and the minus sign of mathematics a
// hyphen. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul::puzzles {

inline constexpr size_t kLongestPayload = 64 << 10;  // bytes; a longer one is no answer

// None: there is no pair of tags, or what is between them is longer than kLongestPayload.
std::optional<std::string> payload_of(std::string_view response);
// The same of an answer that stands without tags, as `puzzles play` reads it.
std::optional<std::string> payload_without_tags(std::string_view answer);

// The format that training rewards: the response begins with the opening think tag, ends with the closing
// answer tag, and has each of the four tags once.
bool has_strict_format(std::string_view response);

std::string plain_characters(std::string_view text);

}  // namespace longhaul::puzzles
