// Shard: this rank's share of one logical tensor that trains, as an optimizer sees it: matrices by themselves, whatever lies fused in
// memory, and along each dimension the axes of the mesh over which it is cut, which is what a sum along that dimension goes over.
// Partials: such sums (or largest numbers) of all tensors, reduced together.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "comm/call.h"
#include "model/parameter.h"

namespace longhaul::optim {

// Whether this rank is the one, of those that share a tensor, that has its first element and is the first to have it.
inline bool holds_first(const model::Part& part) {
  return part.first_copy && !part.own.empty() && std::ranges::all_of(part.own.offset, [](int64_t offset) { return offset == 0; });
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
  // Ranks that hold other ranges of a dimension hold the same of the others: the first of them counts what they all have.
  bool first_along(size_t dimension) const { return of().cuts[dimension].first; }
  bool first_of_all() const { return holds_first(of()); }
};

// One piece of an optimizer's state for a checkpoint: of a logical tensor, in its shape or in one of its own.
struct StateTensor {
  std::string name;  // of the logical tensor: "layers.3.mixer.query.weight"
  std::string kind;  // "master", "m", "v", "row_mean"
  std::vector<int64_t> global_shape;
  layout::Rectangle held;  // the box of that shape that this rank has
  bool first_copy = true;  // no rank before this one has the same box
  Tensor view;             // writable; shaped as the box
};
StateTensor state_of_part(const model::Parameter& parameter, size_t part, const std::string& kind, const Tensor& shaped_as_box);
// A vector along one dimension of a matrix: the row means of [n, m] are along dimension 0.
StateTensor state_along(const Shard& shard, size_t dimension, const std::string& kind, const Tensor& vector);

// Adds up `numbers` (one dimension, on the parameters' device), or finds the largest, over the ranks that differ in these axes only, in place.
// Empty: one process.
using Reducer = std::function<void(layout::AxisSet over, const Tensor& numbers, comm::Reduction how)>;

// The numbers that one phase of a step makes for all ranks: sums (fp64, or what the constructor is told), or the largest. Places are reserved once,
// when the optimizer is made; each step writes its own numbers there, and one reduction for each set of axes, however many tensors and phases of
// one moment there are, makes them those of all ranks.
class Partials {
 public:
  struct Place {
    size_t group = 0;
    int64_t begin = 0, count = 0;
  };
  explicit Partials(comm::Reduction how = comm::Reduction::kSum, ScalarType dtype = at::kDouble) : how_(how), dtype_(dtype) {}
  Place reserve(layout::AxisSet over, int64_t count);
  void clear(at::Device device);                // zeros, before a step's numbers are written
  void release();                               // the numbers' memory, for those that are large
  Tensor operator[](const Place& place) const;  // [count]; in the phases after reduce(), of all ranks
  // The same of numbers in fp64 without a tensor's cost: on a CPU, and one of them anywhere.
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
