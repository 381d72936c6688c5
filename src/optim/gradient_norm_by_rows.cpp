#include "optim/gradient_norm_by_rows.h"

#include <cmath>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/adamw/loops.h"

namespace longhaul::optim {
namespace {

using layout::Axis;

// Rows of one logical tensor that this rank has, and where their sums go: `pieces` behind each other of each
// row.
struct Rows {
  const Tensor* gradient = nullptr;
  const std::string* name = nullptr;
  int64_t begin = 0, length = 0, count = 0;  // elements of the gradient; of a row; rows
  int64_t first_place = 0, pieces = 1;
};

double squares(const Tensor& gradient, int64_t begin, int64_t length) {
  const kernels::ElementLoops& loops = kernels::element_loops();
  LONGHAUL_ASSERT(gradient.device().is_cpu(), "a gradient on {}", gradient.device().str());
  if (gradient.scalar_type() == at::kDouble)
    return loops.squares_fp64(gradient.const_data_ptr<double>() + begin, length);
  LONGHAUL_ASSERT(gradient.scalar_type() == at::kFloat, "a main gradient in {}",
                  name_of(gradient.scalar_type()));
  return loops.squares_fp32(gradient.const_data_ptr<float>() + begin, length);
}

// Into how many pieces the rows of a tensor are cut, and which of them this rank has.
std::pair<int64_t, int64_t> piece_of(const model::Part& part, const layout::MeshRank& place) {
  int64_t pieces = 1, own = 0;
  for (size_t d = 1; d < part.cuts.size(); ++d) {
    pieces *= place.mesh.size(part.cuts[d].over);
    own = own * place.mesh.size(part.cuts[d].over) + place.mesh.index_in_group(place.rank, part.cuts[d].over);
  }
  return {pieces, own};
}

// The list that all ranks of a stage have: rows of all its tensors in the order of their specifications.
struct List {
  std::vector<Rows> own;
  int64_t places = 0;
};

List list_of(const model::ParameterSet& parameters) {
  List list;
  for (const layout::ParameterSpec& spec : parameters.specs()) {
    size_t index = 0;
    const model::Parameter* const holder =
        spec.trainable ? parameters.holder_of(spec.tensor.name, &index) : nullptr;
    if (holder == nullptr || !holder->trainable()) continue;
    const model::Part& part = holder->parts[index];
    const auto [pieces, piece] = piece_of(part, parameters.place());
    const layout::Range run = holder->own_run_of(index);
    if (part.first_copy && run.length > 0) {
      const int64_t rows = part.own.length[0];
      list.own.push_back({.gradient = &holder->own_grad,
                          .name = &spec.tensor.name,
                          .begin = run.begin,
                          .length = run.length / rows,
                          .count = rows,
                          .first_place = list.places + part.own.offset[0] * pieces + piece,
                          .pieces = pieces});
    }
    list.places += spec.tensor.global_shape[0] * pieces;
  }
  return list;
}

}  // namespace

GradientNorm gradient_norm_by_rows(const model::ParameterSet& parameters, double scale, const Reducer& sum) {
  GradientNorm result;
  const List list = list_of(parameters);
  const Tensor all = at::zeros({list.places}, at::kDouble);
  double* const places = all.mutable_data_ptr<double>();
  for (const Rows& rows : list.own) {
    const int64_t grain = std::max<int64_t>(1, 32768 / rows.length);
    parallel_for(0, rows.count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        places[rows.first_place + r * rows.pieces] =
            squares(*rows.gradient, rows.begin + r * rows.length, rows.length);
    });
    for (int64_t r = 0; r < rows.count && result.first_nonfinite.empty(); ++r) {
      if (!std::isfinite(places[rows.first_place + r * rows.pieces])) result.first_nonfinite = *rows.name;
    }
  }
  // A place is written by one rank: a sum with zeros is exact in any order.
  if (sum) sum({Axis::kDp, Axis::kCp, Axis::kTp}, all, comm::Reduction::kSum);
  const layout::MeshRank& place = parameters.place();
  const Tensor stages = at::zeros({place.mesh.size(Axis::kPp)}, at::kDouble);
  double* const of_stage = stages.mutable_data_ptr<double>();
  of_stage[place.coordinate(Axis::kPp)] = std::accumulate(places, places + list.places, 0.0);
  if (sum) sum({Axis::kPp}, stages, comm::Reduction::kSum);
  result.norm = std::sqrt(std::accumulate(of_stage, of_stage + stages.numel(), 0.0)) * std::abs(scale);
  result.finite = std::isfinite(result.norm);
  return result;
}

}  // namespace longhaul::optim
