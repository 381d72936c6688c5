// Experts by CUDA kernels on tensors of one device, contiguous. choice, source and place are int64 as in
// op.h; rows are bf16, weights and logits fp32.
#pragma once

#include <utility>

#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct ExpertsCuda {
  Refusal (*refuse_route)(int64_t experts, int64_t k);
  // weight [T, k], choice int64 [T, k]
  std::pair<Tensor, Tensor> (*route)(const Tensor& logits_te, int64_t k);
  // d_logits
  Tensor (*route_backward)(const Tensor& choice_tk, const Tensor& weight_tk, const Tensor& d_weight_tk,
                           int64_t experts);
  // source [T · k], place [T, k], and the offsets [experts + 1] of the experts' rows.
  void (*assign)(const Tensor& choice_tk, int64_t experts, Tensor& source_r, Tensor& place_tk,
                 Tensor& offsets);
  Tensor (*gather_rows)(const Tensor& x_td, const Tensor& source_r);
  // weight undefined: ones
  Tensor (*combine)(const Tensor& y_rd, const Tensor& weight_tk, const Tensor& place_tk);
  void (*combine_backward)(const Tensor& y_rd, const Tensor& weight_tk, const Tensor& place_tk,
                           const Tensor& d_out_td, const Tensor& dy_rd, const Tensor& d_weight_tk);
};

}  // namespace longhaul::kernels
