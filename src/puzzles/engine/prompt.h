// Prompts: the text that a model is asked with. Every template of a task states the same facts and rules in
// one language; they differ in their words and in the order of the parts. The instruction about tags is the
// trainer's to add, not the puzzle's.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace longhaul::puzzles {

enum class Language : uint8_t { kEnglish, kChinese };

// Appends `pattern`, in which {0}, {1}, … stand for the parts.
inline void tell(std::string& text, std::string_view pattern, std::span<const std::string_view> parts) {
  for (size_t at = 0; at < pattern.size();) {
    const size_t brace = std::min(pattern.find('{', at), pattern.size());
    text.append(pattern.substr(at, brace - at));
    if (brace < pattern.size()) text.append(parts[static_cast<size_t>(pattern[brace + 1] - '0')]);
    at = brace + 3;
  }
}

inline constexpr int64_t kTemplates = 8;  // of each task in each language

// The parts of a task's prompts in one language. Template t takes openings[t], rules[t % 2] and formats[t / 2
// % 2]; odd templates have the board in front of the rules, even ones behind them.
struct PromptParts {
  std::string_view openings[kTemplates];
  std::array<std::string, 2> rules, formats;
};

inline std::string prompt_of(const PromptParts& parts, const std::string& board, int64_t which) {
  const std::string& rules = parts.rules[static_cast<size_t>(which % 2)];
  const std::string& format = parts.formats[static_cast<size_t>(which / 2 % 2)];
  if (which % 2 == 1) return fmt::format("{}\n\n{}\n\n{}\n\n{}", parts.openings[which], board, rules, format);
  return fmt::format("{}\n\n{}\n\n{}\n\n{}", parts.openings[which], rules, board, format);
}

}  // namespace longhaul::puzzles
