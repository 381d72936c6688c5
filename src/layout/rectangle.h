// Rectangle: an axis-aligned box in a tensor's global shape, the unit of sharding, checkpoints and
// resharding. Offsets and lengths are in elements, one entry per dimension, at least one dimension (a scalar
// is [1]); a length may be 0. Buffers that hold a rectangle are row-major and dense. Pure functions of
// integers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longhaul::layout {

using Shape = std::vector<int64_t>;

int64_t volume(const Shape& shape);          // number of elements
std::string shape_text(const Shape& shape);  // "[4096, 512]"

struct Rectangle {
  std::vector<int64_t> offset;
  std::vector<int64_t> length;

  static Rectangle whole(const Shape& shape);
  int64_t volume() const;
  bool empty() const { return volume() == 0; }
  bool contains(const Rectangle& inner) const;  // an empty rectangle is inside everything
  bool inside(const Shape& shape) const;        // no negative offset or length, nothing beyond the shape
  std::string text() const;                     // "[0:128, 256:512]"
  bool operator==(const Rectangle&) const = default;
};

Rectangle intersection(const Rectangle& a,
                       const Rectangle& b);  // same number of dimensions; length 0 where they are disjoint

// Checks whether the rectangles tile the shape exactly. Returns nothing if they do; else the first defect in
// words: a rectangle outside the shape, two that overlap, or how many elements nobody holds.
std::optional<std::string> covering_defect(const Shape& shape, std::span<const Rectangle> rectangles);

// CopyRun: one memcpy: `length` bytes from source_offset of the source's buffer to target_offset of the
// target's.
struct CopyRun {
  int64_t source_offset = 0;
  int64_t target_offset = 0;
  int64_t length = 0;
  bool operator==(const CopyRun&) const = default;
};

// The smallest number of runs that copy the intersection of two rectangles between their row-major buffers,
// in ascending order.
std::vector<CopyRun> copy_plan(const Rectangle& source, const Rectangle& target, int64_t bytes_per_element);

}  // namespace longhaul::layout
