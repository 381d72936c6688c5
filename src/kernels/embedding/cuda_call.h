// embedding by CUDA kernels on tensors of one device, contiguous: tables bf16, sinks fp32, ids int64.
#pragma once

#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct EmbeddingCuda {
  // positions and position_table: both or neither.
  void (*forward)(const Tensor& ids_t, const Tensor& table_vd, const Tensor& positions_t,
                  const Tensor& position_table_pd, const Tensor& out_td);
  // sink += the rows of dy by id.
  void (*add_gradient)(const Tensor& ids_t, const Tensor& dy_td, const Tensor& sink_vd);
};

}  // namespace longhaul::kernels
