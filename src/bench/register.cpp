#include "bench/register.h"

namespace longhaul::bench {

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> list = {
      {"gemm", "LibTorch's matrix products, fp32 and bf16: the limit of what computes", bench_gemm},
      {"copy", "memory copies, in and out of cache: the limit of what moves", bench_copy},
      {"matmul", "the three products of linear layers and experts, with weights kept packed", bench_matmul},
      {"linear_cross_entropy", "head and loss with their gradients and without the logits: time and memory",
       bench_linear_cross_entropy},
      {"linear_recurrence",
       "the recurrence of lightning attention, decay per head and per channel, one document and packed ones",
       bench_linear_recurrence},
      {"grid", "images and video: one sum over all tokens beside scans each way and along each axis",
       bench_grid},
      {"attention",
       "softmax attention over whole, packed and long documents, and decoding over a paged cache",
       bench_attention},
      {"norm", "RMSNorm and LayerNorm with residual join and gate", bench_norm},
      {"activation", "SiLU over fused heads, SwiGLU, bias + GeLU", bench_activation},
      {"heads", "fused query, key and value split into heads with rotary positions", bench_heads},
      {"embedding", "rows by token and position, and their gradients", bench_embedding},
      {"experts", "routing, moving tokens to experts and combining them", bench_experts},
      {"int8", "experts with weights in eight bits beside the dtype's, from one row for each to many",
       bench_int8},
      {"detect", "one call of Minder over 1,024 machines, fifteen minutes and seven metrics", bench_detect},
      {"recorder", "what a rank pays for telling where it is: phases and calls with a board and without",
       bench_recorder},
      {"optim", "AdamW with clipping and bf16 refresh in one pass, and the gradient norm", bench_optim},
  };
  return list;
}

}  // namespace longhaul::bench
