#include "puzzles/engine/answers/rational.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>

namespace longhaul::puzzles {
namespace {

__extension__ using Wide = __int128;

std::optional<Rational> reduced(Wide above, Wide below) {
  if (below == 0) return std::nullopt;
  if (below < 0) above = -above, below = -below;
  constexpr Wide kNarrow = int64_t{1} << 62;
  if (above < kNarrow && above > -kNarrow && below < kNarrow) {  // almost always, and much faster
    const auto up = static_cast<int64_t>(above), down = static_cast<int64_t>(below);
    const int64_t common = down == 1 ? 1 : std::gcd(up, down);
    return Rational{up / common, down / common};
  }
  Wide a = above < 0 ? -above : above, b = below;
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  if (a > 1) above /= a, below /= a;
  constexpr Wide kMost = std::numeric_limits<int64_t>::max();
  if (above > kMost || above < -kMost || below > kMost) return std::nullopt;
  return Rational{static_cast<int64_t>(above), static_cast<int64_t>(below)};
}

}  // namespace

std::strong_ordering Rational::operator<=>(const Rational& other) const {
  return Wide{above} * other.below <=> Wide{other.above} * below;
}

std::optional<Rational> added(const Rational& a, const Rational& b) {
  return reduced(Wide{a.above} * b.below + Wide{b.above} * a.below, Wide{a.below} * b.below);
}
std::optional<Rational> subtracted(const Rational& a, const Rational& b) {
  return reduced(Wide{a.above} * b.below - Wide{b.above} * a.below, Wide{a.below} * b.below);
}
std::optional<Rational> multiplied(const Rational& a, const Rational& b) {
  return reduced(Wide{a.above} * b.above, Wide{a.below} * b.below);
}
std::optional<Rational> divided(const Rational& a, const Rational& b) {
  return reduced(Wide{a.above} * b.below, Wide{a.below} * b.above);
}

std::string text_of(const Rational& value) {
  return value.below == 1 ? fmt::format("{}", value.above) : fmt::format("{}/{}", value.above, value.below);
}

}  // namespace longhaul::puzzles
