// Words for people and shells: things counted, names guessed, commands that can be typed again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// "1 file", "2,285 files"; `many` where an s at the end is not enough: counted(2, "entry", "entries").
std::string counted(int64_t count, std::string_view one, std::string_view many = "");

// The share of letters, 0 to 1, by which two words differ: insertions, deletions, substitutions, swaps of neighbours.
double spelling_difference(std::string_view a, std::string_view b);
inline constexpr double kNearSpelling = 0.34;  // what a typing error may make of it
// The one of `known` that is spelled most like `typed`, or empty when none is near.
std::string nearest_spelling(std::string_view typed, const std::vector<std::string>& known);

// Text of others (data, models, file names) for a terminal or a comment: control characters, which would move the cursor, and bytes that are
// not UTF-8 as \x1b; line ends and tabs as well unless they are kept.
enum class LineEnds { kEscaped, kKept };
std::string printable(std::string_view text, LineEnds line_ends = LineEnds::kEscaped);
// Its first bytes only, as an error shows them: "layers.0.… (1000000 bytes)".
std::string brief(std::string_view text, size_t most_bytes = 80);

// The pieces between the separators, as views of `text`: one more than there are separators, so an empty text is one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);
// Without the blanks, tabs and line ends at both ends.
std::string_view trimmed(std::string_view text);

// One word as a POSIX shell must be given it: a.txt, 'it'\''s'.
std::string shell_quoted(std::string_view word);

// What to type to start this program with these arguments, for hints: "./longhaul data prepare RECIPE". The program's name is the one it was
// started by; set once by main, "longhaul" before.
void set_program_name(std::string_view typed);
std::string program_name();
std::string program_command(std::string_view arguments);

}  // namespace longhaul
