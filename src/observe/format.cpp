#include "observe/format.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <array>
#include <cmath>

#include "base/clock.h"
#include "base/progress.h"

namespace longhaul::observe {

std::string fixed(double value, int decimals) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{:.{}f}", value, decimals);
}

std::string compact(double value) {
  if (!std::isfinite(value)) return fixed(value, 0);
  static constexpr std::array<const char*, 7> kUnits = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  double size = std::abs(value);
  while (size >= 999.5 && unit + 1 < kUnits.size()) {
    size /= 1000;
    ++unit;
  }
  const bool whole = unit == 0 && value == std::round(value);
  const int decimals = whole || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{}{:.{}f}{}", value < 0 ? "-" : "", size, decimals, kUnits[unit]);
}

std::string grouped(double value) {
  if (!std::isfinite(value) || std::abs(value) > 9e18) return fixed(value, 0);
  return count_text(std::llround(value));
}

std::string percent(double fraction) {
  return fixed(fraction * 100, std::abs(fraction) < 0.1 ? 2 : 1) + " %";
}

std::string scientific(double value) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return fixed(value, 0);
  int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  double digits = value / std::pow(10, exponent);
  if (std::abs(digits) >= 9.995) {
    digits /= 10;
    ++exponent;
  }
  return fmt::format("{:.2f}e{}", digits, exponent);
}

std::string milliseconds_text(double milliseconds) {
  if (!std::isfinite(milliseconds)) return fixed(milliseconds, 0);
  if (milliseconds < 10) return fmt::format("{:.1f} ms", milliseconds);
  if (milliseconds < 10000) return fmt::format("{:.0f} ms", milliseconds);
  return duration_text(milliseconds / 1000);
}

int display_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t character = 0;
    const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    if (used <= 0) {
      ++width;
      ++at;
      continue;
    }
    width += utf8proc_charwidth(character);
    at += static_cast<size_t>(used);
  }
  return width;
}

}  // namespace longhaul::observe
