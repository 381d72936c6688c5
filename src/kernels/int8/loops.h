// Widens what is kept in eight bits. Of weights (matmul/int8_weight.h), for a product: a panel of whole
// numbers [rows][16] becomes a panel of block.h. Whole numbers below 128 are exact in bf16, so a product with
// the wide panel is one with the numbers themselves. Of keys and values (attention/page_pool.h): rows times
// their scales, rounded once. Raw pointers, one thread; every instruction set writes the same bits.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

struct Int8Loops {
  void (*widen_bf16)(const int8_t* panel, int64_t rows, uint16_t* wide) = nullptr;  // rows: even
  void (*widen_fp32)(const int8_t* panel, int64_t rows, float* wide) = nullptr;
  // to [rows, columns] = scales [rows] · from [rows, columns]
  void (*scale_rows_bf16)(const int8_t* from, const float* scales, int64_t rows, int64_t columns,
                          uint16_t* to) = nullptr;
  void (*scale_rows_fp32)(const int8_t* from, const float* scales, int64_t rows, int64_t columns,
                          float* to) = nullptr;

  void widen(const int8_t* panel, int64_t rows, uint16_t* wide) const { widen_bf16(panel, rows, wide); }
  void widen(const int8_t* panel, int64_t rows, float* wide) const { widen_fp32(panel, rows, wide); }
  void scale_rows(const int8_t* from, const float* scales, int64_t rows, int64_t columns,
                  uint16_t* to) const {
    scale_rows_bf16(from, scales, rows, columns, to);
  }
  void scale_rows(const int8_t* from, const float* scales, int64_t rows, int64_t columns, float* to) const {
    scale_rows_fp32(from, scales, rows, columns, to);
  }
};

const Int8Loops& int8_loops();  // of the set that block_kernels() names

}  // namespace longhaul::kernels
