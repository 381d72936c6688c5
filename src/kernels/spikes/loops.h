// The row loops of spikes: raw pointers and sizes, one thread. Every instruction set writes the same bits.
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

inline constexpr float kLeastThreshold = 1e-5f, kLargestThreshold = 1e4f;

struct SpikeRow {
  Storage storage;  // bf16 or fp32
  const void* x;    // [columns]
  int64_t columns;
  double k;
};
// counts [columns] = round(x / threshold), whole numbers; → the threshold. Where x is not finite, some of
// these are not either.
float count_spikes(const SpikeRow& row, float* counts);
// y [columns] = counts · threshold, in the storage of the row; `counts` is room for them.
void straight_through(const SpikeRow& row, float* counts, void* y);

// Counts of a row as integer products read them: bytes [padded] = count + 128 within [1, 255], 128 beyond
// `columns`. What does not fit is left out: → how many such counts there are (whose rest is count − 127 or
// count + 127). `padded`: a multiple of 4.
int64_t counts_as_bytes(const float* counts, int64_t columns, int64_t padded, uint8_t* bytes);

// y [rows, columns of some panels] of kernels/spikes/group_weight.h: Σ_g scale_g · (Σ_i x_i q_i), the inner
// sums exact in int32.
struct IntegerProduct {
  const uint8_t* bytes;  // [rows, groups · 128] as above
  int64_t rows, groups;
  const int8_t* panels;  // of the first panel
  const float* scales;
  const int32_t* sums;
  int64_t panel_count;
  float* y;  // [rows, panel_count · 16], stride ldy
  int64_t ldy;
};
void multiply_integers(const IntegerProduct& product);
// "vnni", "madd" or "plain": which instructions it uses here.
const char* integer_instructions();

// For the event-driven product (event_product.h): sums [columns] += factor · weights [columns].
void add_event(const int8_t* weights, int64_t columns, int32_t factor, int32_t* sums);
// y [columns] += scales [columns] · sums [columns]; sums become 0.
void add_group(const float* scales, int64_t columns, int32_t* sums, float* y);

}  // namespace longhaul::kernels
