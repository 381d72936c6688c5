// NarrowState: a moment of one matrix, kept in bf16 or in 8 bits (recipe: optim.state_dtype;
// kernels/narrow_states has the formats). It is read and kept in runs of a row; a run never crosses the
// border of its block of optim.state_block columns of the logical matrix. Blocks, and the random numbers of
// their rounding (stream "optimizer/<kind>/<tensor>", by step and block), belong to the logical matrix, so
// the bits do not depend on how many ranks share it. bf16 allows any cut of the columns; in 8 bits a block
// has one scale, so columns must be cut between blocks, and other cuts are refused (kUsage). CPU only.
//
// ShardState: a state of every element of a Shard, wide or narrow, for optimizers of matrices.
// Different runs may be read and kept on different threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/quantized_state/loops.h"
#include "optim/shard.h"
#include "recipe/sections/optim_options.h"

namespace longhaul::optim {

class NarrowState {
 public:
  struct Format {
    // kFloat32: this object is undefined, and the state is wide.
    recipe::StateDtype dtype = recipe::StateDtype::kFloat32;
    kernels::Signs signs = kernels::Signs::kBoth;
    int64_t block = 256;
    uint64_t seed = 0;
  };
  NarrowState() = default;
  // zeros
  NarrowState(const model::Parameter& parameter, size_t part, const std::string& kind, const Format& format);
  bool defined() const { return values_.defined(); }

  // Rows and columns are those of this rank's share. run_from: how many elements from `column` on lie in
  // one block.
  int64_t run_from(int64_t column) const;
  void read(int64_t row, int64_t column, int64_t count, float* to) const { read_run(row, column, count, to); }
  void read(int64_t row, int64_t column, int64_t count, double* to) const {
    read_run(row, column, count, to);
  }
  void keep(int64_t step, int64_t row, int64_t column, int64_t count, const float* from) const {
    keep_run(step, row, column, count, from);
  }
  void keep(int64_t step, int64_t row, int64_t column, int64_t count, const double* from) const {
    keep_run(step, row, column, count, from);
  }

  int64_t rows() const { return values_.size(0); }
  int64_t columns() const { return values_.size(1); }
  void append(std::vector<StateTensor>& to) const;  // "<kind>" in bf16, or "<kind>_codes" and "<kind>_scales"

 private:
  template <class Real>
  void read_run(int64_t row, int64_t column, int64_t count, Real* to) const;
  template <class Real>
  void keep_run(int64_t step, int64_t row, int64_t column, int64_t count, const Real* from) const;
  void require_whole_blocks() const;
  int64_t place(int64_t row, int64_t column) const { return row * values_.size(1) + column; }
  // of the logical row
  int64_t block_of(int64_t column) const { return (first_column_ + column) / format_.block; }

  Format format_;
  std::string kind_;
  const model::Parameter* parameter_ = nullptr;
  size_t part_ = 0;
  // blocks of a logical row, and of the logical matrix
  int64_t first_row_ = 0, first_column_ = 0, blocks_ = 0, all_blocks_ = 0;
  std::optional<RandomStream> stream_;
  Tensor values_, scales_;  // [rows, columns] bf16 or codes; [rows, blocks of this share]
};

class ShardState {
 public:
  ShardState() = default;  // none
  // A momentum of zeros, in the format that its optimizer's options say.
  ShardState(const Shard& shard, const std::string& kind, const recipe::OptimOptions& options, uint64_t seed);
  bool defined() const { return wide_.defined() || narrow_.defined(); }
  const NarrowState& narrow() const { return narrow_; }
  const Tensor& wide() const { return wide_; }
  // The whole state: the state itself when it is wide, otherwise a copy in the dtype of the master, which
  // put() keeps.
  Tensor take() const;
  void put(const Tensor& state, int64_t step) const;
  void append(std::vector<StateTensor>& to) const;

 private:
  Shard shard_;
  std::string kind_;
  Tensor wide_;
  NarrowState narrow_;
};

}  // namespace longhaul::optim
