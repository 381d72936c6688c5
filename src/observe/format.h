// Numbers in readable form, shared by the terminal and the report. base/clock.h formats durations,
// base/progress.h bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul::observe {

// "812", "8.19 k", "46.4 M", "1.23 T"; three significant digits
std::string compact(double value);
std::string fixed(double value, int decimals);       // "1.7124"; also "nan" and "inf"
std::string grouped(double value);                   // "10,085", rounded
std::string percent(double fraction);                // "41.2 %"
std::string scientific(double value);                // "3.00e-4"; "0"
std::string milliseconds_text(double milliseconds);  // "0.4 ms", "812 ms", "12.3 s"

// Width on a terminal in cells: wide characters count two, combining ones none. Each byte that is not UTF-8
// counts one.
int display_width(std::string_view text);

}  // namespace longhaul::observe
