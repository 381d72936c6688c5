// MatrixTiles: divides the work of optimizers of matrices over the threads of a CPU
// (kernels/optimizer_loops/factored.h, tiles.h). A vector counts as a row. Matrices that are cut over ranks
// go through each pass together, because their sums must be reduced before the next pass; a matrix that is
// not cut goes through all passes by itself, while it is in a cache (MatrixWalks). A narrow momentum
// (narrow_state.h) is widened in a buffer, one run of a row after the other, and narrowed again when a pass
// writes it.
#pragma once

#include <functional>
#include <vector>

#include "kernels/optimizer_loops/factored.h"
#include "kernels/optimizer_loops/tiles.h"
#include "optim/optimizer.h"
#include "optim/optimizers/narrow_state.h"

namespace longhaul::optim {

// kAutomatic: the loops of the CPU where they take the tensors, LibTorch's operations elsewhere.
enum class MatrixImplementation { kAutomatic, kTensorOperations };

class MatrixTiles {
 public:
  struct Matrix {
    Shard shard;
    ShardState momentum;  // undefined: none
  };
  using Place = kernels::TilePlan::Place;
  enum class Momentum { kUnused, kRead, kWritten };

  MatrixTiles() = default;
  // Takes those of `matrices` that `named` lists.
  MatrixTiles(const std::vector<Matrix>& matrices, std::vector<size_t> named);
  // Whether the loops support all of them: false when a tensor is on another device or is not contiguous.
  static bool take(const std::vector<Matrix>& matrices, MatrixImplementation implementation);
  size_t size() const { return named_.size(); }
  size_t named(size_t matrix) const { return named_[matrix]; }  // the index in `matrices` of a place's matrix
  bool empty() const { return named_.empty(); }
  const kernels::TilePlan& plan() const { return plan_; }
  const std::vector<Place>& tiles() const { return plan_.tiles(); }

  // Calls body(tile, place) on all threads, for fp32 or fp64; the tile is filled in except for factors and
  // sums. `step`: the step with which a narrow momentum is kept.
  template <class Body>
  void run(Momentum momentum, int64_t step, const Body& body) const {
    plan_.each_tile([&](const Place& place) {
      if (matrices_[place.matrix].shard.master.scalar_type() == at::kDouble)
        run_tile<double>(momentum, step, place, body);
      else
        run_tile<float>(momentum, step, place, body);
    });
  }
  // Calls body(matrix) on all threads, for values that are computed from sums.
  void each_matrix(const std::function<void(size_t matrix)>& body) const { plan_.each_matrix(body); }

 private:
  template <class Real>
  kernels::Tile<Real> tile_at(const Place& place) const {
    const Matrix& matrix = matrices_[place.matrix];
    const int64_t columns = plan_.columns_of(place.matrix), at = place.row * columns + place.column;
    const auto number = [&](const Tensor& of) {
      return of.defined() ? static_cast<Real*>(of.data_ptr()) + at : nullptr;
    };
    const Tensor& value = values_[place.matrix];
    return {.gradient = number(matrix.shard.gradient),
            .master = number(matrix.shard.master),
            .momentum = number(matrix.momentum.wide()),
            .value = value.defined() ? static_cast<uint16_t*>(value.data_ptr()) + at : nullptr,
            .rows = place.rows,
            .columns = columns - place.column,
            .stride = columns,
            .momentum_stride = columns};
  }
  template <class Real, class Body>
  void run_tile(Momentum use, int64_t step, const Place& place, const Body& body) const {
    const NarrowState& narrow = matrices_[place.matrix].momentum.narrow();
    if (use == Momentum::kUnused || !narrow.defined()) return body(tile_at<Real>(place), place);
    Real wide[kernels::kMostNarrow];
    Place run = place;
    run.rows = 1;
    for (run.row = place.row; run.row < place.row + place.rows; ++run.row) {
      for (run.column = 0; run.column < plan_.columns_of(place.matrix);) {
        kernels::Tile<Real> tile = tile_at<Real>(run);
        tile.columns = narrow.run_from(run.column);
        tile.momentum = wide;
        narrow.read(run.row, run.column, tile.columns, wide);
        body(tile, run);
        if (use == Momentum::kWritten) narrow.keep(step, run.row, run.column, tile.columns, wide);
        run.column += tile.columns;
      }
    }
  }

  std::vector<size_t> named_;
  std::vector<Matrix> matrices_;
  std::vector<Tensor> values_;  // working copies in bf16, or undefined
  kernels::TilePlan plan_;
};

// The phases of an optimizer of matrices, each in two forms: fused loops, and LibTorch's operations.
class MatrixWalks {
 public:
  struct Phase {
    const char* name;
    // Null for the last phase.
    Partials* partials;
    // Updates these matrices, on all threads.
    std::function<void(const MatrixTiles& tiles, const StepSettings& settings)> fused;
    // Updates all matrices, with LibTorch's operations.
    std::function<void(const StepSettings& settings)> operations;

    // Both functions are members of the optimizer, which must outlive the phase.
    template <class Owner>
    static Phase of(Owner& owner, const char* name, Partials* partials,
                    void (Owner::*fused)(const MatrixTiles&, const StepSettings&),
                    void (Owner::*operations)(const StepSettings&)) {
      return {name, partials, std::bind_front(fused, &owner), std::bind_front(operations, &owner)};
    }
  };
  MatrixWalks() = default;
  // When MatrixTiles does not support the matrices, these walks are not usable and LibTorch's operations
  // are used.
  MatrixWalks(const std::vector<MatrixTiles::Matrix>& matrices, MatrixImplementation implementation);
  // The phases for Optimizer::add_phase: matrices that are cut go through the phases one at a time, the
  // others through all of them in the last phase. `refresh`: finishes after the last phase what the loops
  // have not done (Optimizer::refresh_members). These walks must outlive the phases.
  std::vector<optim::Phase> phases(
      std::vector<Phase> given,
      const std::function<void(const StepSettings& settings, Parts)>& refresh) const;

 private:
  void each_whole(const std::function<void(const MatrixTiles& tiles)>& body) const;

  bool usable_ = false;
  MatrixTiles cut_;
  std::vector<MatrixTiles> whole_;
  std::vector<int64_t> elements_;  // of whole_
};

}  // namespace longhaul::optim
