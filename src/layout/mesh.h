// Mesh: the place of each rank. The same ranks form two grids, dense pp × dp × cp × tp and experts pp × edp ×
// ep × etp; pp is the slowest axis and tp (etp) the fastest on both, so the pipeline groups agree whatever
// the other sizes are. All rank arithmetic is here. Immutable, thread-safe. Source: Megatron-Core's group
// construction, arXiv 2504.14960. dp is dpr × dps and edp is edpr × edps if there are several copies of the
// shares (parallel.zero_copies): the ranks along dps hold the shares and are contiguous; dpr counts the
// copies. tp is tps × tpr if there are more tensor ranks than key heads: the ranks along tpr hold copies of a
// head and are contiguous, like the query heads that read it.
//
//   Mesh mesh(16, {.pp = 2, .cp = 2, .tp = 2, .ep = 4});      // dp 2 and edp 2 follow
//   // {1, 3, 5, 7}: the ranks that hold rank 5's dense weights
//   mesh.group_of(5, {Axis::kDp, Axis::kCp});
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layout/schedule/pipeline.h"

namespace longhaul::layout {

enum class Axis : uint8_t { kPp, kDp, kDpr, kDps, kCp, kTp, kTps, kTpr, kEdp, kEdpr, kEdps, kEp, kEtp };
inline constexpr size_t kAxes = 13;
std::string_view name_of(Axis axis);  // "pp"

// AxisSet: a set of axes. Its text and list run from the slowest axis to the fastest: "dp-cp". In the text,
// both parts of an axis are shown as the axis.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (Axis axis : axes) bits_ |= bit(axis);
  }
  constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool contains(AxisSet other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr AxisSet operator|(AxisSet other) const {
    return AxisSet(static_cast<unsigned>(bits_ | other.bits_));
  }
  constexpr AxisSet operator&(AxisSet other) const {
    return AxisSet(static_cast<unsigned>(bits_ & other.bits_));
  }
  constexpr AxisSet operator-(AxisSet other) const {
    return AxisSet(static_cast<unsigned>(bits_ & ~other.bits_));
  }
  constexpr bool operator==(const AxisSet&) const = default;
  constexpr AxisSet with(AxisSet instead, Axis of) const {
    return contains(of) ? (*this - AxisSet{of}) | instead : *this;
  }
  std::vector<Axis> axes() const;  // slowest first
  std::string text() const;        // "dp-cp"; "none" when empty

 private:
  constexpr explicit AxisSet(unsigned bits) : bits_(static_cast<uint16_t>(bits)) {}
  static constexpr uint16_t bit(Axis axis) {
    return static_cast<uint16_t>(1U << static_cast<unsigned>(axis));
  }
  uint16_t bits_ = 0;
};

inline constexpr AxisSet kDenseAxes = {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp};
inline constexpr AxisSet kExpertAxes = {Axis::kPp, Axis::kEdp, Axis::kEp, Axis::kEtp};

// The one of the two that contains the axes or parts of them; none: they are in both.
AxisSet side_of(AxisSet axes);
// parts_of replaces dp, tp and edp by their two parts; joined replaces both parts by the axis.
AxisSet parts_of(AxisSet axes);
AxisSet joined(AxisSet axes);

// MeshShape: the sizes that a user chooses; the two data-parallel sizes are the rest of the world size.
struct MeshShape {
  int64_t pp = 1;
  int64_t cp = 1;
  int64_t tp = 1;
  int64_t ep = 1;
  int64_t etp = 1;
  int64_t copies = 1;  // copies of the data ranks' shares: dpr
  // Copies of key heads when there are more tensor ranks than heads: tpr (layout::key_copies).
  int64_t key_copies = 1;
  bool operator==(const MeshShape&) const = default;
};

// GroupKind: all sets of ranks that communicate for one purpose, by the name that communicators use.
struct GroupKind {
  std::string name;  // "dp-cp"
  std::vector<std::vector<int64_t>> groups;
};

class Mesh {
 public:
  Mesh() : Mesh(1, {}) {}  // one rank
  // kUsage error that says which product does not divide the world size.
  Mesh(int64_t world, const MeshShape& shape);

  int64_t world() const { return world_; }
  int64_t size(Axis axis) const { return size_[static_cast<size_t>(axis)]; }
  int64_t size(AxisSet axes) const;  // the product, which is the number of ranks in one group of `axes`
  int64_t stride(Axis axis) const { return stride_[static_cast<size_t>(axis)]; }
  int64_t coordinate(int64_t rank, Axis axis) const;
  std::array<int64_t, kAxes> coordinates(int64_t rank) const;  // by Axis, both sides
  // The rank at these coordinates of one side; axes that are not named are 0. Axes of both sides together are
  // refused.
  int64_t rank_at(std::initializer_list<std::pair<Axis, int64_t>> coordinates) const;

  // All groups of a set of axes of one side. Each lists its ranks ascending; groups are in the order of their
  // first rank's other coordinates, fastest axis first. For the empty set every rank is a group.
  std::vector<std::vector<int64_t>> groups(AxisSet axes) const;
  std::vector<int64_t> group_of(int64_t rank, AxisSet axes) const;
  int64_t index_in_group(int64_t rank, AxisSet axes) const;

  // For axes whose ranks hold copies of a tensor: the axes over which it is cut into shares, and those over
  // which the shares are copied.
  AxisSet shared_over(AxisSet copies) const;
  AxisSet shares_copied_over(AxisSet copies) const;

  // All kinds of groups, in the fixed order in which all ranks create their communicators.
  std::vector<GroupKind> group_kinds() const;

  std::string text() const;  // "16 ranks: pp 2 × dp 2 × cp 2 × tp 2, experts pp 2 × edp 2 × ep 4 × etp 1"
  bool operator==(const Mesh&) const = default;

 private:
  int64_t world_ = 1;
  std::array<int64_t, kAxes> size_{};
  std::array<int64_t, kAxes> stride_{};
};

// MeshRank: one rank of a mesh, for which a model or a part of it is built.
struct MeshRank {
  Mesh mesh;
  int64_t rank = 0;
  PipelineOptions pipelined{};  // which stages of the model a pipeline rank has
  int64_t zero = 0;             // which copies are replaced by shares: parallel.zero (layout/shares.h)
  // Gradients of layers stay whole until the last micro-batch at every level of zero: train.elastic.
  bool elastic = false;
  // A layer's gradients, after each backward pass.
  bool gradients_leave() const { return zero >= 2 && !elastic; }
  int64_t coordinate(Axis axis) const { return mesh.coordinate(rank, axis); }
  Pipeline pipeline() const { return Pipeline(mesh.size(Axis::kPp), pipelined); }
  int64_t stage_of(int64_t chunk) const { return pipeline().stage_of({coordinate(Axis::kPp), chunk}); }
};

}  // namespace longhaul::layout
