// Checks of the wrappers of Hopper's products (wgmma_products.h): whole numbers, so that every sum is exact.
#include "gpu_check/session.h"
#include "gpu_check/wgmma_products.h"

namespace longhaul::gpu_check {

void check_wgmma(Session& session) {
  if (!wgmma_refusal().empty()) return;
  const auto whole_numbers = [](int count, int factor, int modulus) {
    std::vector<Bf16> values(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] = kernels::cuda::to_bf16(static_cast<float>(i * factor % modulus - modulus / 2));
    return values;
  };
  for (const bool by_rows : {true, false}) {
    for (const int columns : {64, 128}) {
      const Buffer<Bf16> a(whole_numbers(kProductRows * kProductDepth, 7, 13)), b(whole_numbers(kProductDepth * columns, 5, 11));
      auto out = Buffer<float>::output(int64_t{kProductRows} * columns);
      wgmma_product(by_rows, columns, a.device(), b.device(), out.device(), nullptr);
      kernels::cuda::runtime::synchronize();
      std::vector<double> want(static_cast<size_t>(kProductRows * columns), 0);
      const std::vector<double> left = widened(a.host), right = widened(b.host);
      for (int m = 0; m < kProductRows; ++m) {
        for (int n = 0; n < columns; ++n) {
          for (int k = 0; k < kProductDepth; ++k) {
            want[static_cast<size_t>(m * columns + n)] += left[static_cast<size_t>(m * kProductDepth + k)] *
                                                          right[static_cast<size_t>(by_rows ? n * kProductDepth + k : k * columns + n)];
          }
        }
      }
      session.compare("wgmma", "64 × " + std::to_string(columns) + (by_rows ? ", b by rows" : ", b by columns, a in registers"), "product",
                      out, want, kExact);
    }
  }
}

void time_wgmma(Session&) {}  // its rate is a limit: Session::measure_limits

}  // namespace longhaul::gpu_check
