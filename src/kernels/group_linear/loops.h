// The inner loops of products with weights in eight bits by groups (spikes/group_weight.h): for each row of x
//
//   y_j = Σ_g scale_gj · (Σ_{i in g} x_i q_ij)
//
// Eight bits are widened in registers, because decoding waits for weights. Rows of bf16 go through VDPBF16PS
// where the processor has it and AVX-512's byte tables (VBMI); everything else is fp32 with fused
// multiply-adds. Either way each sum has one order, so a row's bits do not depend on the rows beside it, nor
// on how many panels a call has. Raw pointers, one thread.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

struct GroupProduct {
  const void* x;  // rows of groups · 128 elements, zeros where the weight has no inputs; bf16 or fp32
  int64_t ldx, rows, groups;
  const int8_t* panels;  // of the first panel, as GroupWeight has them
  const float* scales;
  int64_t panel_count;
  float* y;  // [rows, panel_count · 16], stride ldy
  int64_t ldy;
};

void multiply_groups_fp32(const GroupProduct& product);  // x: fp32
void multiply_groups_bf16(const GroupProduct& product);  // x: bf16; only where the next says so
bool multiplies_groups_in_bf16();

}  // namespace longhaul::kernels
