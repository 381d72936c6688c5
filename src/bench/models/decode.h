// Decoding many sequences in one batch beside one after the other (generate/generate.h), on a preset with random weights. The runs of both
// ways take turns, so that whatever else the machine does meets both. With experts in eight bits (model::Use::kInt8Experts) a second model of the same
// weights takes its turns beside the first.
#pragma once

#include <cstdint>
#include <string>

#include "bench/benchmark.h"
#include "tensor/device.h"

namespace longhaul::bench {

struct DecodeRequest {
  std::string preset = "first-run";
  int64_t count = 16, prompt = 32, tokens = 64;  // sequences; tokens of their prompt, and new ones of each
  std::string dtype = "bf16", experts;           // experts: "int8", or empty: the dtype alone
  int64_t runs = 3;                              // timed of each way, after one that is not
  uint64_t seed = 0;
  at::Device device = at::kCPU;
};

// Two passes, "together" and "one_by_one"; figures: tokens_per_second_together, tokens_per_second_one_by_one (of the median runs), ratio. With int8
// experts the same four with _int8 behind their names, and int8_together, int8_one_by_one: how many times the tokens a second of the dtype alone. The
// check: each sequence has the same tokens both ways. kUsage: int8 of a preset without experts.
Result bench_decode(const DecodeRequest& request);

}  // namespace longhaul::bench
