// Placement: how a tensor is cut over the mesh. Each dimension has an ordered list of cuts, outermost first:
// the dimension is cut over the first axis, what remains over the second, and so on (heads over tp, then ZeRO
// over dp and cp). Ranks along axes without a cut hold copies. A pin restricts a tensor to the ranks at one
// coordinate of an axis: a layer's pipeline stage, an expert's ep rank. Pieces are as even as possible,
// larger ones first, possibly empty. Plain data and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layout/mesh.h"
#include "layout/rectangle.h"

namespace longhaul::layout {

struct Cut {
  Axis axis;
  int64_t unit = 1;  // elements that stay together, e.g. the rows of one head
  bool operator==(const Cut&) const = default;
};

struct Pin {
  Axis axis;
  int64_t coordinate = 0;
  bool operator==(const Pin&) const = default;
};

struct Placement {
  std::vector<std::vector<Cut>> dimensions;  // one list per dimension; an empty list: whole on every rank
  std::vector<Pin> pins;

  static Placement replicated(size_t dimension_count);
  AxisSet axes() const;      // axes in a cut or a pin
  std::string text() const;  // "[tp·dp·cp, -] at pp=1"
  bool operator==(const Placement&) const = default;
};

// Refuses (kUsage) an axis used twice, axes of both sides, a unit that does not divide its dimension, a pin
// outside the mesh.
void check(const Placement& placement, const Mesh& mesh, const Shape& global_shape);

// The part that `rank` holds; empty when a pin excludes it.
Rectangle rectangle_of(const Placement& placement, const Mesh& mesh, int64_t rank, const Shape& global_shape);

// Axes of the placement's side of the mesh that it does not use: ranks that differ only in them hold copies.
AxisSet copied_over(const Placement& placement);

// True for one rank of each set of copies: coordinate 0 on every axis of copied_over. The rectangles of these
// ranks tile the tensor.
bool is_first_copy(const Placement& placement, const Mesh& mesh, int64_t rank);

}  // namespace longhaul::layout
