// Knobs: the whole numbers that make a puzzle of a task easy or hard. A task lists them with their range and
// with their values at the easiest and at the hardest level; the levels between are evenly spaced.
//
//   const KnobValues knobs = at_level(kKnobs, 4);
//   // Error 64: unknown name, out of range
//   const KnobValues mine = with_changes(kKnobs, knobs, {{"clues", 30}});
//
// Levels: 0 (easiest) to 10 (hardest). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace longhaul::puzzles {

inline constexpr int64_t kHardestLevel = 10;

struct Knob {
  std::string_view name;
  int64_t least = 0, most = 0;       // that it may be
  int64_t easiest = 0, hardest = 0;  // at level 0 and at level 10
  std::string_view says;             // "cells that are given"
};

class KnobValues {
 public:
  KnobValues() = default;
  explicit KnobValues(std::map<std::string, int64_t, std::less<>> values) : values_(std::move(values)) {}
  int64_t operator[](std::string_view name) const;  // it must be there
  const std::map<std::string, int64_t, std::less<>>& all() const { return values_; }
  bool operator==(const KnobValues&) const = default;

 private:
  std::map<std::string, int64_t, std::less<>> values_;
};

KnobValues at_level(std::span<const Knob> knobs, int64_t level);
KnobValues with_changes(std::span<const Knob> knobs, const KnobValues& values,
                        const std::map<std::string, int64_t, std::less<>>& changes);

}  // namespace longhaul::puzzles
