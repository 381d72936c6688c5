// Shard: this rank's share of one logical tensor that trains, as an optimizer sees it. Each logical matrix
// is a shard of its own, even when several are fused in memory. For each dimension it has the mesh axes
// over which that dimension is cut; a sum along the dimension must be reduced over these axes.
// Partials: such sums (or maxima) of all tensors, reduced together.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "comm/call.h"
#include "model/parameter.h"

namespace longhaul::optim {

// Whether this rank has the tensor's first element and is the first of the ranks that have it. This is true
// on exactly one of the ranks that share a tensor.
inline bool holds_first(const model::Part& part) {
  return part.first_copy && !part.own.empty() &&
         std::ranges::all_of(part.own.offset, [](int64_t offset) { return offset == 0; });
}

struct Shard {
  model::Parameter* parameter = nullptr;
  size_t part = 0;
  Tensor master, gradient;  // shaped as the own box; written in place

  const model::Part& of() const { return parameter->parts[part]; }
  const layout::ParameterSpec& spec() const { return of().spec; }
  const std::vector<int64_t>& global_shape() const { return spec().tensor.global_shape; }
  bool matrix() const { return global_shape().size() == 2; }
  layout::AxisSet cut(size_t dimension) const { return of().cuts[dimension].over; }
  layout::AxisSet cut() const;  // over all dimensions
  // Ranks that hold different ranges of one dimension hold the same ranges of the others; the first of
  // these ranks counts what all of them have.
  bool first_along(size_t dimension) const { return of().cuts[dimension].first; }
  bool first_of_all() const { return holds_first(of()); }
};

// One piece of an optimizer's state for a checkpoint. It belongs to a logical tensor and has that tensor's
// shape or one of its own.
struct StateTensor {
  std::string name;  // of the logical tensor: "layers.3.mixer.query.weight"
  std::string kind;  // "master", "m", "v", "row_mean"
  std::vector<int64_t> global_shape;
  layout::Rectangle held;  // the box of that shape that this rank has
  bool first_copy = true;  // no rank before this one has the same box
  Tensor view;             // writable; shaped as the box
};
StateTensor state_of_part(const model::Parameter& parameter, size_t part, const std::string& kind,
                          const Tensor& shaped_as_box);
// The state of a vector along one dimension of a matrix: the row means of [n, m] are along dimension 0.
StateTensor state_along(const Shard& shard, size_t dimension, const std::string& kind, const Tensor& vector);

// Sums `numbers` (one dimension, on the parameters' device), or takes the maximum, in place, over the ranks
// that differ in these axes only. An empty function: one process.
using Reducer = std::function<void(layout::AxisSet over, const Tensor& numbers, comm::Reduction how)>;

// The numbers that one phase of a step computes for all ranks: sums (in fp64, or the dtype given to the
// constructor) or maxima. Places are reserved once, when the optimizer is made; each step writes its own
// numbers there. One reduction for each set of axes then combines them over the ranks, however many tensors
// there are and however many optimizers run the same phase.
class Partials {
 public:
  struct Place {
    size_t group = 0;
    int64_t begin = 0, count = 0;
  };
  explicit Partials(comm::Reduction how = comm::Reduction::kSum, ScalarType dtype = at::kDouble)
      : how_(how), dtype_(dtype) {}
  Place reserve(layout::AxisSet over, int64_t count);
  void clear(at::Device device);                // sets zeros, before a step's numbers are written
  void release();                               // frees the memory of the numbers, when they are large
  Tensor operator[](const Place& place) const;  // [count]; after reduce() the numbers over all ranks
  // The same for fp64 numbers without the cost of a tensor: numbers() on a CPU only, number() on any
  // device.
  double* numbers(const Place& place) const;
  double number(const Place& place) const;
  static void reduce(const std::vector<Partials*>& together, const Reducer& reduce);

 private:
  struct Group {
    layout::AxisSet over;
    int64_t count = 0;
    Tensor numbers;
  };
  comm::Reduction how_;
  ScalarType dtype_;
  std::vector<Group> groups_;
};

}  // namespace longhaul::optim
