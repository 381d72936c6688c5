// The loops over rows behind CAME, Adafactor and SM3 (docs/sources/optimizers.md §1, §2, §4, §9). An
// optimizer that needs sums over a matrix before it can continue makes one pass for each of them; the last
// pass that reads the gradient sets it to zero. Raw pointers, one thread, no tensors; compiled for several
// instruction sets, which all give the same bits (loops.h).
//
// A tile is some rows of a matrix, or of a range of its columns. Sums are fp64 and are added to the given
// values: for a row in eight interleaved sums, for a column in the order of rows. Gradients are multiplied
// by gradient_scale.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

template <class Real>
struct Tile {
  Real *gradient = nullptr, *master = nullptr, *momentum = nullptr;
  uint16_t* value = nullptr;  // the working copy in bf16, or null
  int64_t rows = 0, columns = 0;
  int64_t stride = 0, momentum_stride = 0;                   // from row to row; of gradient, master and value
  const Real *of_rows = nullptr, *of_columns = nullptr;      // what each loop says
  double *row_numbers = nullptr, *column_numbers = nullptr;  // sums, or largest numbers
};

// u = g · of_rows · of_columns, which hold inverse roots; with `floor` above 0 g / sqrt(max(of_rows ·
// of_columns, floor)), which hold what is divided by.
struct DirectionScalars {
  double gradient_scale = 1, floor = 0;
};
// A = g² + ε: row_numbers and column_numbers += A.
struct SquareScalars {
  double gradient_scale = 1, eps = 0;
};
// û = u · shrink;  m ← β m + (1 − β) û;  row_numbers and column_numbers += (û − m)² + ε.
struct CameScalars {
  DirectionScalars direction;
  double shrink = 1, beta = 0.9, eps = 0;
  bool zero_gradient = true;
};
// w ← kept · w − lr · m · of_rows · of_columns, inverse roots.
struct CameStep {
  double kept_weight = 1, lr = 0;
};
// s = u · inside;  m ← β m + (1 − β) s, without a momentum (null) m is s;  w ← kept · w − outside · m.
struct AdafactorScalars {
  DirectionScalars direction;
  double inside = 1, outside = 1, beta = 0, kept_weight = 1;
  bool zero_gradient = true;
};
// ν = min(of_rows, of_columns) + g², the bounds before this step;
// m ← β m + (1 − β) g / sqrt(ν + ε), or m is that;  w ← kept · w − lr · m;
// row_numbers and column_numbers become the larger of themselves and ν. Of a vector (of_rows null) ν is kept
// instead: of_columns ← of_columns + g².
struct Sm3Scalars {
  double gradient_scale = 1, eps = 1e-30, beta = 0, kept_weight = 1, lr = 0;
  bool zero_gradient = true;
};

template <class Real>
struct FactoredLoops {
  void (*square_sums)(const Tile<Real>& tile, const SquareScalars& scalars) = nullptr;
  double (*direction_squares)(const Tile<Real>& tile, const DirectionScalars& scalars) = nullptr;  // Σ u²
  void (*came_momentum)(const Tile<Real>& tile, const CameScalars& scalars) = nullptr;
  void (*came_update)(const Tile<Real>& tile, const CameStep& step) = nullptr;
  void (*adafactor_update)(const Tile<Real>& tile, const AdafactorScalars& scalars) = nullptr;
  void (*sm3_update)(const Tile<Real>& tile, const Sm3Scalars& scalars) = nullptr;
};

template <class Real>
const FactoredLoops<Real>& factored_loops();  // of the set that block_kernels() names

}  // namespace longhaul::kernels
