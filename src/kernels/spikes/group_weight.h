// GroupWeight: weights [experts, out, in] in eight bits with one scale for every 128 inputs of a row, for
// products with counts of spikes (SpikingBrain, arXiv 2509.05276 §4) and with numbers (kernels/group_linear);
// the form of GPTQ's and AWQ's files. Symmetric,
//
//   scale_og = max_{i in g} |w_oi| / 127      q_oi = round(w_oi / scale_og), to nearest, ties to even
//
// so |w − scale · q| ≤ scale / 2 but for fp32 rounding. A group whose scale would be denormal is zeros.
// kernels/matmul/int8_weight.h has the form with one scale for a whole row, which experts may have.
//
// The numbers lie as integer products read them and nowhere else: panels of 16 outputs, in which four inputs
// of each output stand side by side (64 bytes are one operand of VPDPBUSD), zeros beyond the edges:
//   panels [experts, ⌈out / 16⌉, ⌈in / 128⌉, 32, 16, 4]
//   scales, sums [experts, ⌈out / 16⌉, ⌈in / 128⌉, 16]
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/tensor.h"

namespace longhaul::kernels {

class GroupWeight {
 public:
  static constexpr int64_t kGroup = 128;

  GroupWeight(int64_t experts, int64_t out, int64_t in);  // zeros, on the CPU

  // Rows [first, first + n) of an expert become those of rows_ni [n, in], of any floating-point type.
  // kCheckpoint where one is not finite, which names `name`.
  void write(int64_t expert, int64_t first, const Tensor& rows_ni, const std::string& name);

  int64_t experts() const { return experts_; }
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  int64_t groups() const { return (in_ + kGroup - 1) / kGroup; }
  int64_t panels() const { return (out_ + kColumns - 1) / kColumns; }
  int64_t bytes() const;

  Tensor values(int64_t expert) const;  // q [out, in], int8: a copy
  Tensor scales(int64_t expert) const;  // [out, groups], fp32: a copy
  Tensor wide(int64_t expert) const;    // scale · q [out, in], fp32: a copy

  // What products read.
  const int8_t* panels_of(int64_t expert) const;
  const float* scales_of(int64_t expert) const;
  const int32_t* sums_of(int64_t expert) const;  // Σ q of each group

 private:
  static constexpr int64_t kColumns = 16;
  int64_t experts_, out_, in_;
  Tensor panels_, scales_, sums_;
};

// The weight [out, in], or of experts, as GroupWeight would hold it, in its own type: scale · q rounded to
// that. It is for training, on any device; no gradient.
Tensor rounded_in_groups(const Tensor& weight_oi);

}  // namespace longhaul::kernels
