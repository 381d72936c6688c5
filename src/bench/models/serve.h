// Compares a server that many clients ask at once with the same server when one client asks (serve/server.h),
// over HTTP on this machine, with a preset that has random weights. The two ways take turns.
#pragma once

#include <cstdint>
#include <string>

#include "bench/benchmark.h"
#include "tensor/device.h"

namespace longhaul::bench {

struct ServeRequest {
  std::string preset = "first-run";
  // Clients at once; bytes of each prompt, which differ; new tokens of each text; texts that one client asks
  // for.
  int64_t clients = 16, prompt = 256, tokens = 32, alone = 2;
  std::string dtype = "bf16";
  int64_t runs = 3;  // timed runs of each way, after one that is not timed
  uint64_t seed = 0;
  at::Device device = at::kCPU;
};

// Two passes, "together" and "one_client"; figures: tokens_per_second_together, tokens_per_second_one_client
// (of the median runs), ratio, first_token_ms (a prompt and one token, one client), cached_first_token_ms
// (the same prompt again). The check: each text is the same both ways.
Result bench_serve(const ServeRequest& request);

}  // namespace longhaul::bench
