// came, adafactor, sm3: passes over tiles, one for each sum that the next one waits for
// (kernels/optimizer_loops/factored.h), of one matrix after the other, so that it lies in a cache; sm3's one
// pass goes over all of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/adamw/loops.h"
#include "kernels/optimizer_loops/factored.h"
#include "kernels/optimizer_loops/means.h"
#include "kernels/optimizer_loops/tiles.h"
#include "kernels/optimizer_step/problem.h"

namespace longhaul::kernels {
namespace {

using Place = TilePlan::Place;

template <class Real>
class TileWalk {
 public:
  explicit TileWalk(const std::vector<StepMatrix<Real>>& matrices) : matrices_(matrices) {
    std::vector<TilePlan::Sizes> sizes;
    for (const StepMatrix<Real>& matrix : matrices) sizes.push_back({matrix.rows, matrix.columns});
    plan_ = TilePlan(std::move(sizes));
  }
  const TilePlan& plan() const { return plan_; }
  size_t tiles() const { return plan_.tiles().size(); }
  // body(tile, place) on all threads.
  template <class Body>
  void run(const Body& body) const {
    plan_.each_tile([&](const Place& place) {
      const StepMatrix<Real>& matrix = matrices_[place.matrix];
      const int64_t at = place.row * matrix.columns;
      body(Tile<Real>{.gradient = matrix.gradient + at,
                      .master = matrix.value + at,
                      .momentum = matrix.first != nullptr ? matrix.first + at : nullptr,
                      .rows = place.rows,
                      .columns = matrix.columns,
                      .stride = matrix.columns,
                      .momentum_stride = matrix.columns},
           place);
    });
  }
  // Σ over tiles, in their order, of numbers of a matrix's tiles.
  std::vector<double> of_matrices(const std::vector<double>& of_tiles) const {
    std::vector<double> sums(matrices_.size());
    for (const Place& place : plan_.tiles()) sums[place.matrix] += of_tiles[place.tile];
    return sums;
  }

 private:
  const std::vector<StepMatrix<Real>>& matrices_;
  TilePlan plan_;
};

// What the loops multiply by, of a matrix: from its rows' and columns' means, or a vector's whole second
// moment.
template <class Real>
struct DivisorsOf {
  std::vector<Real> rows, columns;
  void set(Tile<Real>& tile, const Place& place) const {
    tile.of_rows = rows.data() + place.row;
    tile.of_columns = columns.data() + place.column;
  }
};

template <class Real>
struct MeansOf {
  Real *rows = nullptr, *columns = nullptr;
};

template <class Real>
DivisorsOf<Real> divisors_of_matrix(const StepMatrix<Real>& matrix, const MeansOf<Real>& means,
                                    double mean_of_rows, bool inverse_roots) {
  DivisorsOf<Real> result{std::vector<Real>(static_cast<size_t>(matrix.rows)),
                          std::vector<Real>(static_cast<size_t>(matrix.columns))};
  prepare_divisors(means.rows, matrix.rows, mean_of_rows, inverse_roots, result.rows.data());
  prepare_divisors(means.columns, matrix.columns, 1, inverse_roots, result.columns.data());
  return result;
}
template <class Real>
DivisorsOf<Real> divisors_of_vector(const StepMatrix<Real>& vector, bool inverse_roots) {
  DivisorsOf<Real> result{{1}, std::vector<Real>(static_cast<size_t>(vector.columns))};
  prepare_divisors(vector.whole, vector.columns, 1, inverse_roots, result.columns.data());
  return result;
}

// Moving averages follow sums over the rows and columns; returns the mean of the rows' ones, rounded as they
// are.
template <class Real>
double follow_means(const StepMatrix<Real>& matrix, const MeansOf<Real>& means, const double* sums_of_rows,
                    const double* sums_of_columns, double beta) {
  const double of_row = (1 - beta) / static_cast<double>(matrix.columns),
               of_column = (1 - beta) / static_cast<double>(matrix.rows);
  const double sum =
      followed_sum(sums_of_rows, matrix.rows, of_row) + kept_sum(means.rows, matrix.rows, beta);
  follow_sums(means.rows, sums_of_rows, matrix.rows, beta, of_row);
  follow_sums(means.columns, sums_of_columns, matrix.columns, beta, of_column);
  return static_cast<double>(static_cast<Real>(sum / static_cast<double>(matrix.rows)));
}

// passes(problem of one matrix), of all matrices.
template <class Real>
void each_by_itself(const StepProblem<Real>& problem, void (*passes)(const StepProblem<Real>&)) {
  std::vector<int64_t> elements;
  for (const StepMatrix<Real>& matrix : problem.matrices) elements.push_back(matrix.elements());
  each_alone(elements, [&](size_t i) {
    passes({.matrices = {problem.matrices[i]},
            .options = problem.options,
            .bf16_products = problem.bf16_products,
            .step = problem.step,
            .lr = problem.lr});
  });
}

double shrink_of(double squares, int64_t elements, double clip) {
  return 1 / std::max(1.0, std::sqrt(squares / static_cast<double>(elements)) / clip);
}

template <class Real>
void passes_of_came(const StepProblem<Real>& problem) {
  const recipe::OptimOptions& options = problem.options;
  const std::vector<StepMatrix<Real>>& matrices = problem.matrices;
  const FactoredLoops<Real>& loops = factored_loops<Real>();
  const TileWalk<Real> walk(matrices);
  TileSums squares(walk.plan()), residuals(walk.plan());
  walk.run([&](Tile<Real> tile, const Place& place) {
    tile.row_numbers = squares.rows(place), tile.column_numbers = squares.columns(place);
    loops.square_sums(tile, {.eps = options.square_eps});
  });
  squares.settle(TileSums::How::kSum);
  std::vector<DivisorsOf<Real>> divisors(matrices.size());
  walk.plan().each_matrix([&](size_t i) {
    const StepMatrix<Real>& matrix = matrices[i];
    const double beta = options.beta2;
    if (matrix.vector) {
      follow_sums(matrix.whole, squares.columns_of(i), matrix.columns, beta, 1 - beta);
      divisors[i] = divisors_of_vector(matrix, /*inverse_roots=*/true);
      return;
    }
    const MeansOf<Real> means{matrix.row_states[0], matrix.column_states[0]};
    divisors[i] = divisors_of_matrix(
        matrix, means, follow_means(matrix, means, squares.rows_of(i), squares.columns_of(i), beta), true);
  });
  std::vector<double> sizes(walk.tiles());
  walk.run([&](Tile<Real> tile, const Place& place) {
    divisors[place.matrix].set(tile, place);
    sizes[place.tile] = loops.direction_squares(tile, {});
  });
  const std::vector<double> size_of = walk.of_matrices(sizes);
  walk.run([&](Tile<Real> tile, const Place& place) {
    divisors[place.matrix].set(tile, place);
    tile.row_numbers = residuals.rows(place), tile.column_numbers = residuals.columns(place);
    loops.came_momentum(tile, {.shrink = shrink_of(size_of[place.matrix], matrices[place.matrix].elements(),
                                                   options.update_clip),
                               .beta = options.beta1,
                               .eps = options.residual_eps,
                               .zero_gradient = false});
  });
  residuals.settle(TileSums::How::kSum);
  walk.plan().each_matrix([&](size_t i) {
    const StepMatrix<Real>& matrix = matrices[i];
    if (matrix.vector) {  // no confidence term
      divisors[i] = {{1}, std::vector<Real>(static_cast<size_t>(matrix.columns), 1)};
      return;
    }
    const MeansOf<Real> means{matrix.row_states[1], matrix.column_states[1]};
    const double mean =
        follow_means(matrix, means, residuals.rows_of(i), residuals.columns_of(i), options.beta3);
    divisors[i] = divisors_of_matrix(matrix, means, mean, true);
  });
  const double correction = options.correct_residuals
                                ? std::sqrt(1 - std::pow(options.beta3, static_cast<double>(problem.step)))
                                : 1;
  walk.run([&](Tile<Real> tile, const Place& place) {
    divisors[place.matrix].set(tile, place);
    loops.came_update(tile, {.kept_weight = 1 - problem.lr * options.weight_decay,
                             .lr = problem.lr * (matrices[place.matrix].vector ? 1 : correction)});
  });
}

}  // namespace

template <class Real>
void step_of_came(const StepProblem<Real>& problem) {
  each_by_itself(problem, &passes_of_came<Real>);
}
template void step_of_came(const StepProblem<float>&);
template void step_of_came(const StepProblem<double>&);

namespace {

// The forms of optim/optimizers/adafactor.h.
class AdafactorForms {
 public:
  explicit AdafactorForms(const recipe::OptimOptions& options, int64_t step, double lr)
      : fairseq(options.adafactor_form == recipe::AdafactorForm::kFairseq),
        torch(options.adafactor_form == recipe::AdafactorForm::kTorch),
        options_(options),
        t_(static_cast<double>(step)),
        lr_(lr) {}
  bool relative() const { return torch || (fairseq && options_.scale_by_weights); }
  double beta2() const {
    const double decay = 1 - std::pow(t_, -0.8);
    return fairseq || torch ? decay : std::min(decay, 0.999);
  }
  double step_size(double squared_weights, int64_t elements) const {
    if (!fairseq && !torch) return lr_;
    const double rate = torch || options_.relative_step ? std::min(lr_, 1 / std::sqrt(t_)) : lr_;
    return relative() ? rate * std::max(1e-3, std::sqrt(squared_weights / static_cast<double>(elements)))
                      : rate;
  }
  const bool fairseq, torch;

 private:
  const recipe::OptimOptions& options_;
  double t_, lr_;
};

template <class Real>
double squares_of(const Tile<Real>& tile) {
  if constexpr (std::is_same_v<Real, double>)
    return element_loops().squares_fp64(tile.master, tile.rows * tile.columns);
  else
    return element_loops().squares_fp32(tile.master, tile.rows * tile.columns);
}

template <class Real>
void passes_of_adafactor(const StepProblem<Real>& problem) {
  const recipe::OptimOptions& options = problem.options;
  const std::vector<StepMatrix<Real>>& matrices = problem.matrices;
  const FactoredLoops<Real>& loops = factored_loops<Real>();
  const AdafactorForms form(options, problem.step, problem.lr);
  const double eps = std::numeric_limits<Real>::epsilon(), floor = form.torch ? eps * eps : 0;
  const TileWalk<Real> walk(matrices);
  TileSums squares(walk.plan());
  std::vector<double> weights(walk.tiles()), sizes(walk.tiles());
  walk.run([&](Tile<Real> tile, const Place& place) {
    tile.row_numbers = squares.rows(place), tile.column_numbers = squares.columns(place);
    loops.square_sums(tile, {.eps = form.torch ? 0 : options.square_eps});
    if (form.relative()) weights[place.tile] = squares_of(tile);
  });
  squares.settle(TileSums::How::kSum);
  std::vector<DivisorsOf<Real>> divisors(matrices.size());
  walk.plan().each_matrix([&](size_t i) {
    const StepMatrix<Real>& matrix = matrices[i];
    if (matrix.vector) {
      follow_sums(matrix.whole, squares.columns_of(i), matrix.columns, form.beta2(), 1 - form.beta2());
      divisors[i] = divisors_of_vector(matrix, !form.torch);
      return;
    }
    const MeansOf<Real> means{matrix.row_states[0], matrix.column_states[0]};
    const double mean = follow_means(matrix, means, squares.rows_of(i), squares.columns_of(i), form.beta2());
    divisors[i] = divisors_of_matrix(matrix, means, form.torch ? std::max(eps, mean) : mean, !form.torch);
  });
  walk.run([&](Tile<Real> tile, const Place& place) {
    divisors[place.matrix].set(tile, place);
    sizes[place.tile] = loops.direction_squares(tile, {.floor = floor});
  });
  const std::vector<double> weights_of = walk.of_matrices(weights), size_of = walk.of_matrices(sizes);
  const double decay = options.weight_decay;
  walk.run([&](Tile<Real> tile, const Place& place) {
    divisors[place.matrix].set(tile, place);
    const int64_t elements = matrices[place.matrix].elements();
    const double alpha = form.step_size(weights_of[place.matrix], elements);
    loops.adafactor_update(tile, {.direction = {.floor = floor},
                                  .inside = shrink_of(size_of[place.matrix], elements, options.update_clip) *
                                            (form.fairseq ? alpha : 1),
                                  .outside = form.fairseq ? 1 : alpha,
                                  .beta = problem.momentum(),
                                  .kept_weight = 1 - (form.fairseq ? alpha : problem.lr) * decay,
                                  .zero_gradient = false});
  });
}

}  // namespace

template <class Real>
void step_of_adafactor(const StepProblem<Real>& problem) {
  each_by_itself(problem, &passes_of_adafactor<Real>);
}
template void step_of_adafactor(const StepProblem<float>&);
template void step_of_adafactor(const StepProblem<double>&);

template <class Real>
void step_of_sm3(const StepProblem<Real>& problem) {
  const recipe::OptimOptions& options = problem.options;
  const std::vector<StepMatrix<Real>>& matrices = problem.matrices;
  const TileWalk<Real> walk(matrices);
  TileSums largest(walk.plan());
  walk.run([&](Tile<Real> tile, const Place& place) {
    const StepMatrix<Real>& matrix = matrices[place.matrix];
    tile.row_numbers = largest.rows(place), tile.column_numbers = largest.columns(place);
    tile.of_rows = matrix.vector ? nullptr : matrix.row_states[0] + place.row;
    tile.of_columns = matrix.vector ? matrix.whole : matrix.column_states[0];
    factored_loops<Real>().sm3_update(tile, {.eps = options.square_eps,
                                             .beta = problem.momentum(),
                                             .kept_weight = 1 - problem.lr * options.weight_decay,
                                             .lr = problem.lr,
                                             .zero_gradient = false});
  });
  largest.settle(TileSums::How::kLargest);
  for (size_t i = 0; i < matrices.size(); ++i) {
    const StepMatrix<Real>& matrix = matrices[i];
    if (matrix.vector) continue;
    const auto keep = [](const double* from, int64_t count, Real* to) {
      for (int64_t k = 0; k < count; ++k) to[k] = static_cast<Real>(from[k]);
    };
    keep(largest.rows_of(i), matrix.rows, matrix.row_states[0]);
    keep(largest.columns_of(i), matrix.columns, matrix.column_states[0]);
  }
}
template void step_of_sm3(const StepProblem<float>&);
template void step_of_sm3(const StepProblem<double>&);

}  // namespace longhaul::kernels
