#include "puzzles/engine/knobs.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"

namespace longhaul::puzzles {

int64_t KnobValues::operator[](std::string_view name) const {
  const auto found = values_.find(name);
  LONGHAUL_ASSERT(found != values_.end(), "no knob '{}'", name);
  return found->second;
}

KnobValues at_level(std::span<const Knob> knobs, int64_t level) {
  if (level < 0 || level > kHardestLevel)
    throw Error({.code = ExitCode::kUsage,
                 .what = "no such level",
                 .expected = fmt::format("0 (easiest) to {} (hardest)", kHardestLevel),
                 .found = fmt::format("{}", level),
                 .where = "--level"});
  std::map<std::string, int64_t, std::less<>> values;
  for (const Knob& knob : knobs) {
    const int64_t way = (knob.hardest - knob.easiest) * level,
                  half = way < 0 ? -kHardestLevel / 2 : kHardestLevel / 2;
    values.emplace(knob.name, knob.easiest + (way + half) / kHardestLevel);
  }
  return KnobValues(std::move(values));
}

KnobValues with_changes(std::span<const Knob> knobs, const KnobValues& values,
                        const std::map<std::string, int64_t, std::less<>>& changes) {
  std::map<std::string, int64_t, std::less<>> changed = values.all();
  for (const auto& [name, value] : changes) {
    const auto knob = std::ranges::find(knobs, std::string_view(name), &Knob::name);
    if (knob == knobs.end()) {
      std::vector<std::string> known;
      for (const Knob& each : knobs) known.emplace_back(each.name);
      throw Error({.code = ExitCode::kUsage,
                   .what = fmt::format("this task has no knob '{}'", brief(printable(name))),
                   .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                   .hint = "longhaul puzzles list TASK tells what each does"});
    }
    if (value < knob->least || value > knob->most)
      throw Error({.code = ExitCode::kUsage,
                   .what = fmt::format("the knob '{}' cannot be that", name),
                   .expected = fmt::format("{} to {}: {}", knob->least, knob->most, knob->says),
                   .found = fmt::format("{}", value)});
    changed[name] = value;
  }
  return KnobValues(std::move(changed));
}

}  // namespace longhaul::puzzles
