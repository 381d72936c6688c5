#include "kernels/linear/wide_product.h"

#include "kernels/cuda/calls.h"
#include "tensor/device.h"

namespace longhaul::kernels {
namespace {

// Of a row-major and of a transposed operand, the result part of wider rows.
bool works(at::Device device) {
  const auto numbers = [](int64_t rows, int64_t columns, int64_t step) {
    return at::arange(rows * columns).mul(step).remainder(13).sub(6).view({rows, columns}).to(at::kBFloat16);
  };
  const Tensor a = numbers(5, 7, 3), b = numbers(9, 7, 5), start = at::full({5, 16}, 2, at::kFloat);
  const Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble).t());
  const Tensor sum = to_device(start, device).narrow(1, 0, 9), a_there = to_device(a, device),
               b_there = to_device(b, device).t();
  add_wide_product(sum, a_there, b_there);
  const Tensor added = sum.to(at::kCPU, /*dtype=*/at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  wide_product(sum, a_there, b_there);
  // Whole numbers below 2^8: exact.
  return added.equal(expected.add(2)) && sum.to(at::kCPU, at::kDouble).equal(expected);
}

}  // namespace

const LibraryCheck& wide_product_check() {
  static const LibraryCheck check("products of bf16 with fp32 results", works);
  return check;
}

bool has_wide_product(const Tensor& x) {
  return x.scalar_type() == at::kBFloat16 && on_gpu(x) && wide_product_check().refusal(x.device()).empty();
}

void wide_product(Tensor out, const Tensor& a, const Tensor& b) { at::mm_out(out, a, b, at::kFloat); }

// LibTorch copies nothing where the sum and the result are one tensor.
void add_wide_product(Tensor sum, const Tensor& a, const Tensor& b) {
  at::addmm_out(sum, sum, a, b, at::kFloat, /*beta=*/1, /*alpha=*/1);
}

}  // namespace longhaul::kernels
