// The limits themselves: LibTorch's matrix products and memory copies.
#include <fmt/format.h>

#include <array>

#include "bench/operators/block_rate.h"
#include "bench/register.h"

namespace longhaul::bench {

void bench_gemm(const Request&, Results& into) {
  constexpr std::array<std::array<int64_t, 3>, 4> kShapes = {
      {{512, 512, 512}, {1024, 1024, 1024}, {4096, 512, 512}, {4096, 1024, 512}}};
  const double block = block_rate_bf16();
  for (const char* dtype : {"fp32", "bf16"}) {
    for (const auto& [m, n, k] : kShapes) {
      const GemmRate rate = measured_gemm(m, n, k, dtype, 0.3);
      Result result{.name = "gemm",
                    .shape = fmt::format("{}x{}x{}", m, n, k),
                    .dtype = dtype,
                    .implementation = "libtorch"};
      result.passes.push_back({.time = {rate.milliseconds, rate.milliseconds, rate.milliseconds, rate.runs},
                               .flops = 2.0 * static_cast<double>(m * n * k)});
      if (result.dtype == "bf16") result.figures.emplace_back("of_block_rate", rate.flops_per_second / block);
      into.push_back(result);
    }
  }
}

void bench_copy(const Request&, Results& into) {
  for (const int64_t megabytes : {1, 16, 128}) {
    const double bytes = 2.0 * static_cast<double>(megabytes << 20);  // read and written
    const double milliseconds = 1e3 * bytes / measured_copy(megabytes << 20);
    into.push_back({.name = "copy",
                    .shape = fmt::format("{} MiB", megabytes),
                    .dtype = "fp32",
                    .passes = {{.time = {milliseconds, milliseconds, milliseconds, 1}, .bytes = bytes}}});
  }
}

}  // namespace longhaul::bench
