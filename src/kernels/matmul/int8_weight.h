// Int8Weight: the weights [experts, out, in] of experts in eight bits, for inference. One scale for each
// output row, symmetric,
//
//   scale_eo = max_i |w_eoi| / 127      q_eoi = round(w_eoi / scale_eo), to nearest, ties to even
//   w ≈ scale · q
//
// which is what vLLM's experts_int8 keeps of the experts of a mixture (quantize_in_place_and_get_scales
// there), and what LLM.int8() does to the rows of a weight (arXiv 2208.07339 §3.1, vector-wise). So |w −
// scale · q| ≤ scale / 2 but for fp32 rounding, and a row's sums are multiplied by its scale once: y_o =
// scale_o · Σ_i x_i q_oi. A row whose scale would be denormal is zeros.
//
// The numbers lie in the order in which products on a CPU read them (matmul/panels.h), and nowhere else: a
// byte a weight, where a wide one is there twice, as it is and packed. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/matmul/panels.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

using Int8Layout =
    // where the elements of a bf16 copy lie: two rows side by side there are one behind the other here
    PanelLayout<uint16_t>;

class Int8Weight {
 public:
  Int8Weight(int64_t experts, int64_t out, int64_t in, at::Device device);  // zeros

  // Rows [first, first + n) of an expert become those of rows_ni [n, in], of any floating-point type and
  // device; a few of them at a time are there in fp32. kCheckpoint where one is not finite, which names
  // `name`.
  void write(int64_t expert, int64_t first, const Tensor& rows_ni, const std::string& name);
  Tensor values(int64_t expert) const;  // q [out, in], int8: a copy

  int64_t experts() const { return experts_; }
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  const Tensor& scale_eo() const { return scale_eo_; }  // fp32
  const Tensor& panels() const { return panels_; }      // int8, Int8Layout(in, out), expert after expert
  int64_t bytes() const { return static_cast<int64_t>(panels_.nbytes() + scale_eo_.nbytes()); }

 private:
  Tensor chunk_of(int64_t expert, int64_t chunk) const;  // a view [panels, rows of a panel, 16]

  int64_t experts_, out_, in_;
  Tensor panels_, scale_eo_;
};

}  // namespace longhaul::kernels
