// features and gated by CUDA kernels on tensors of one device: rows of x, n and u contiguous, however far
// apart; tables contiguous and fp32. Results are contiguous and written whole.
#pragma once

#include "kernels/cuda/calls.h"
#include "kernels/feature_maps/op.h"

namespace longhaul::kernels {

struct FeaturesCuda {
  void (*features)(const Tensor& x_tc, int64_t heads, FeatureMap map, Turn turn, const TurnTable& table,
                   const Tensor& y_thd);
  // The gradients of the table may be undefined: not wanted.
  void (*features_gradient)(const Tensor& x_tc, int64_t heads, FeatureMap map, Turn turn,
                            const TurnTable& table, const Tensor& dy_thd, const Tensor& dx_tc,
                            const TurnTable& d_table);
  void (*gated)(const Tensor& n_tc, const Tensor& u_tc, FeatureMap map, const Tensor& y_tc);
  void (*gated_gradient)(const Tensor& n_tc, const Tensor& u_tc, FeatureMap map, const Tensor& dy_tc,
                         const Tensor& dn_tc, const Tensor& du_tc);
};

}  // namespace longhaul::kernels
