#include "layout/rectangle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace longhaul::layout {

int64_t volume(const Shape& shape) {
  int64_t product = 1;
  for (int64_t length : shape) {
    LONGHAUL_ASSERT(length >= 0 && !__builtin_mul_overflow(product, length, &product), "shape {}",
                    shape_text(shape));
  }
  return product;
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Rectangle Rectangle::whole(const Shape& shape) { return {std::vector<int64_t>(shape.size(), 0), shape}; }

int64_t Rectangle::volume() const { return layout::volume(length); }

bool Rectangle::contains(const Rectangle& inner) const {
  LONGHAUL_ASSERT(offset.size() == inner.offset.size(), "{} and {}", text(), inner.text());
  if (inner.empty()) return true;
  for (size_t d = 0; d < offset.size(); ++d) {
    if (inner.offset[d] < offset[d] || inner.offset[d] + inner.length[d] > offset[d] + length[d])
      return false;
  }
  return true;
}

bool Rectangle::inside(const Shape& shape) const {
  if (offset.size() != shape.size() || length.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    // Compared without adding: offsets may come from a damaged file and overflow.
    if (offset[d] < 0 || length[d] < 0 || offset[d] > shape[d] || length[d] > shape[d] - offset[d])
      return false;
  }
  return true;
}

std::string Rectangle::text() const {
  std::vector<std::string> ranges;
  for (size_t d = 0; d < offset.size(); ++d) {
    int64_t end = 0;  // of a rectangle from a damaged file it may overflow
    const bool overflows = __builtin_add_overflow(offset[d], length[d], &end);
    ranges.push_back(overflows ? fmt::format("{}:{}+{}", offset[d], offset[d], length[d])
                               : fmt::format("{}:{}", offset[d], end));
  }
  return fmt::format("[{}]", fmt::join(ranges, ", "));
}

Rectangle intersection(const Rectangle& a, const Rectangle& b) {
  LONGHAUL_ASSERT(a.offset.size() == b.offset.size(), "{} and {}", a.text(), b.text());
  Rectangle common = a;
  for (size_t d = 0; d < a.offset.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.length[d], b.offset[d] + b.length[d]);
    common.offset[d] = begin;
    common.length[d] = std::max<int64_t>(0, end - begin);
  }
  return common;
}

namespace {

// The dimension with the most distinct offsets: sorted along it, a rectangle has the fewest neighbours with
// which it must be compared.
size_t sweep_dimension(size_t dimensions, std::span<const Rectangle> rectangles,
                       const std::vector<size_t>& order) {
  size_t best = 0;
  size_t best_count = 0;
  for (size_t d = 0; d < dimensions; ++d) {
    std::vector<int64_t> offsets;
    for (size_t i : order) offsets.push_back(rectangles[i].offset[d]);
    std::sort(offsets.begin(), offsets.end());
    const auto count = static_cast<size_t>(std::unique(offsets.begin(), offsets.end()) - offsets.begin());
    if (count > best_count) {
      best = d;
      best_count = count;
    }
  }
  return best;
}

}  // namespace

std::optional<std::string> covering_defect(const Shape& shape, std::span<const Rectangle> rectangles) {
  std::vector<size_t> order;
  int64_t held = 0;
  for (size_t i = 0; i < rectangles.size(); ++i) {
    if (!rectangles[i].inside(shape)) {
      return fmt::format("rectangle {} is not inside the shape {}", rectangles[i].text(), shape_text(shape));
    }
    if (rectangles[i].empty()) continue;
    order.push_back(i);
  }
  const size_t axis = sweep_dimension(shape.size(), rectangles, order);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(rectangles[a].offset[axis], a) < std::pair(rectangles[b].offset[axis], b);
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const Rectangle& rectangle = rectangles[order[i]];
    const int64_t end = rectangle.offset[axis] + rectangle.length[axis];
    for (size_t j = i + 1; j < order.size() && rectangles[order[j]].offset[axis] < end; ++j) {
      if (!intersection(rectangle, rectangles[order[j]]).empty()) {
        return fmt::format("rectangles {} and {} overlap", rectangle.text(), rectangles[order[j]].text());
      }
    }
    held += rectangle.volume();  // disjoint and inside, so this never exceeds the shape's volume
  }
  const int64_t missing = volume(shape) - held;
  if (missing != 0)
    return fmt::format("{} of {} elements of shape {} are missing", missing, volume(shape),
                       shape_text(shape));
  return std::nullopt;
}

namespace {

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& length) {
  std::vector<int64_t> strides(length.size(), 1);
  for (size_t d = length.size(); d-- > 1;) strides[d - 1] = strides[d] * length[d];
  return strides;
}

}  // namespace

std::vector<CopyRun> copy_plan(const Rectangle& source, const Rectangle& target, int64_t bytes_per_element) {
  LONGHAUL_ASSERT(bytes_per_element >= 1, "{} bytes", bytes_per_element);
  const Rectangle common = intersection(source, target);
  if (common.empty()) return {};
  const std::vector<int64_t> source_strides = row_major_strides(source.length);
  const std::vector<int64_t> target_strides = row_major_strides(target.length);
  // Dimensions after `inner` are whole in both buffers, so a range of `inner` is one run.
  size_t inner = common.length.size();
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= common.length[inner];
    if (common.length[inner] != source.length[inner] || common.length[inner] != target.length[inner]) break;
  }
  int64_t source_start = 0;
  int64_t target_start = 0;
  int64_t runs = 1;
  for (size_t d = 0; d < common.length.size(); ++d) {
    source_start += (common.offset[d] - source.offset[d]) * source_strides[d];
    target_start += (common.offset[d] - target.offset[d]) * target_strides[d];
    if (d < inner) runs *= common.length[d];
  }
  std::vector<CopyRun> plan;
  plan.reserve(static_cast<size_t>(runs));
  std::vector<int64_t> index(inner, 0);
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t source_element =
        std::inner_product(index.begin(), index.end(), source_strides.begin(), source_start);
    const int64_t target_element =
        std::inner_product(index.begin(), index.end(), target_strides.begin(), target_start);
    plan.push_back(
        {source_element * bytes_per_element, target_element * bytes_per_element, run * bytes_per_element});
    for (size_t d = inner; d-- > 0;) {
      if (++index[d] < common.length[d]) break;
      index[d] = 0;
    }
  }
  return plan;
}

}  // namespace longhaul::layout
