// Compares decoding many sequences in one batch with decoding them one after the other
// (generate/generate.h), on a preset with random weights. The runs of both ways take turns, so that other
// load on the machine affects both alike. With eight-bit experts (model::Use::kInt8Experts), or with all
// weights in eight bits (model::Use::kIntegers), further models with the same weights take turns with the
// first.
#pragma once

#include <cstdint>
#include <string>

#include "bench/benchmark.h"
#include "tensor/device.h"

namespace longhaul::bench {

struct DecodeRequest {
  std::string preset = "first-run";
  // Sequences; tokens of each prompt; new tokens of each sequence.
  int64_t count = 16, prompt = 32, tokens = 64;
  std::string dtype = "bf16", experts, weights;  // experts, weights: "int8", or empty: the dtype alone
  int64_t runs = 3;                              // timed runs of each way, after one that is not timed
  uint64_t seed = 0;
  at::Device device = at::kCPU;
};

// Two passes, "together" and "one_by_one"; figures: tokens_per_second_together,
// tokens_per_second_one_by_one (of the median runs), ratio. With int8 experts the same four with the suffix
// _int8, and int8_together and int8_one_by_one: the ratio of tokens per second to those of the dtype alone;
// with int8 weights the same as _weights_int8 and weights_int8_…. The check: each sequence has the same
// tokens both ways. kUsage: int8 experts with a preset without experts, int8 weights on a GPU or in fp64.
Result bench_decode(const DecodeRequest& request);

}  // namespace longhaul::bench
