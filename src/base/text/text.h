// Text for people and shells: counts with nouns, suggestions for misspelt names, commands that can be typed
// again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// "1 file", "2,285 files". `many` is for plurals without a plain s: counted(2, "entry", "entries").
std::string counted(int64_t count, std::string_view one, std::string_view many = "");

// How much two words differ, from 0 to 1: the number of insertions, deletions, substitutions and swaps of
// neighbours per letter.
double spelling_difference(std::string_view a, std::string_view b);
inline constexpr double kNearSpelling = 0.34;  // the most by which a typing error changes a word
// The one of `known` that is spelled most like `typed`, or empty when none is near.
std::string nearest_spelling(std::string_view typed, const std::vector<std::string>& known);

// Makes foreign text (data, models, file names) safe for a terminal or a comment: control characters, which
// would move the cursor, and bytes that are not UTF-8 become \x1b; line ends and tabs too, unless they are
// kept.
enum class LineEnds { kEscaped, kKept };
std::string printable(std::string_view text, LineEnds line_ends = LineEnds::kEscaped);
// The first bytes only, for error messages: "layers.0.… (1000000 bytes)".
std::string brief(std::string_view text, size_t most_bytes = 80);

// The pieces between the separators, as views of `text`: one more than there are separators, so an empty text
// is one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);
// Without the blanks, tabs and line ends at both ends.
std::string_view trimmed(std::string_view text);

// Quotes one word for a POSIX shell: a.txt, 'it'\''s'.
std::string shell_quoted(std::string_view word);

// The command that starts this program with these arguments, for hints: "./longhaul data prepare RECIPE". The
// program's name is the one by which it was started; main sets it once, and before that it is "longhaul".
void set_program_name(std::string_view typed);
std::string program_name();
std::string program_command(std::string_view arguments);

}  // namespace longhaul
