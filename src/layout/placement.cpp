#include "layout/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "layout/split.h"

namespace longhaul::layout {

namespace {

[[noreturn]] void refuse(std::string what, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kUsage,
               .what = std::move(what),
               .expected = std::move(expected),
               .found = std::move(found)});
}

// Every piece of a cut must consist of whole units: the dimension is a multiple of the unit, and so is every
// piece of the cut before it.
void check_dimension(const std::vector<Cut>& cuts, int64_t length) {
  int64_t kept = 0;  // unit that the cuts so far respect; 0: nothing was cut yet
  for (const Cut& cut : cuts) {
    const bool whole_units = cut.unit >= 1 && length % cut.unit == 0 && (kept == 0 || kept % cut.unit == 0);
    if (!whole_units) {
      refuse(fmt::format("a dimension cannot be cut over {} by units of {}", name_of(cut.axis), cut.unit),
             "a unit that divides the dimension and the unit of the cut before it",
             kept == 0 ? fmt::format("length {}", length)
                       : fmt::format("length {}, cut before by units of {}", length, kept));
    }
    kept = cut.unit;
  }
}

}  // namespace

Placement Placement::replicated(size_t dimension_count) {
  return {std::vector<std::vector<Cut>>(dimension_count), {}};
}

AxisSet Placement::axes() const {
  AxisSet used;
  for (const std::vector<Cut>& cuts : dimensions) {
    for (const Cut& cut : cuts) used = used | AxisSet{cut.axis};
  }
  for (const Pin& pin : pins) used = used | AxisSet{pin.axis};
  return used;
}

std::string Placement::text() const {
  std::vector<std::string> parts;
  for (const std::vector<Cut>& cuts : dimensions) {
    std::vector<std::string_view> names;
    for (const Cut& cut : cuts) names.push_back(name_of(cut.axis));
    parts.push_back(names.empty() ? "-" : fmt::format("{}", fmt::join(names, "·")));
  }
  std::string text = fmt::format("[{}]", fmt::join(parts, ", "));
  for (size_t i = 0; i < pins.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? " at " : ", ", name_of(pins[i].axis), pins[i].coordinate);
  }
  return text;
}

void check(const Placement& placement, const Mesh& mesh, const Shape& global_shape) {
  if (placement.dimensions.empty() || placement.dimensions.size() != global_shape.size()) {
    refuse("a placement does not fit its tensor",
           "one list of cuts for each dimension, at least one dimension",
           fmt::format("{} for shape {}", placement.text(), shape_text(global_shape)));
  }
  AxisSet used;
  const auto use = [&](Axis axis) {
    if (!(parts_of(used) & parts_of({axis})).empty())
      refuse(fmt::format("placement {} uses {} twice", placement.text(), name_of(axis)), "each axis once",
             "twice");
    used = used | AxisSet{axis};
  };
  for (size_t d = 0; d < global_shape.size(); ++d) {
    for (const Cut& cut : placement.dimensions[d]) use(cut.axis);
    check_dimension(placement.dimensions[d], global_shape[d]);
  }
  for (const Pin& pin : placement.pins) {
    use(pin.axis);
    if (pin.coordinate < 0 || pin.coordinate >= mesh.size(pin.axis)) {
      refuse(fmt::format("placement {} names a place outside the mesh", placement.text()),
             fmt::format("{} below {}", name_of(pin.axis), mesh.size(pin.axis)),
             std::to_string(pin.coordinate));
    }
  }
  if (side_of(used).empty()) {
    refuse(fmt::format("placement {} mixes both sides of the mesh", placement.text()),
           fmt::format("axes of {} or of {}", kDenseAxes.text(), kExpertAxes.text()), used.text());
  }
}

Rectangle rectangle_of(const Placement& placement, const Mesh& mesh, int64_t rank,
                       const Shape& global_shape) {
  check(placement, mesh, global_shape);
  for (const Pin& pin : placement.pins) {
    if (mesh.coordinate(rank, pin.axis) != pin.coordinate) {
      return {std::vector<int64_t>(global_shape.size(), 0), std::vector<int64_t>(global_shape.size(), 0)};
    }
  }
  Rectangle held = Rectangle::whole(global_shape);
  for (size_t d = 0; d < global_shape.size(); ++d) {
    Range range{0, global_shape[d]};
    for (const Cut& cut : placement.dimensions[d]) {
      range = even_part(range, mesh.size(cut.axis), mesh.coordinate(rank, cut.axis), cut.unit);
    }
    held.offset[d] = range.begin;
    held.length[d] = range.length;
  }
  return held;
}

AxisSet copied_over(const Placement& placement) {
  const AxisSet used = placement.axes();
  return joined(parts_of(side_of(used)) - parts_of(used));
}

bool is_first_copy(const Placement& placement, const Mesh& mesh, int64_t rank) {
  for (Axis axis : copied_over(placement).axes()) {
    if (mesh.coordinate(rank, axis) != 0) return false;
  }
  for (const Pin& pin : placement.pins) {
    if (mesh.coordinate(rank, pin.axis) != pin.coordinate) return false;
  }
  return true;
}

}  // namespace longhaul::layout
