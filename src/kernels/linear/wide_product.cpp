#include "kernels/linear/wide_product.h"

#include "kernels/cuda/calls.h"
#include "tensor/device.h"

namespace longhaul::kernels {
namespace {

void write_in_place(Tensor out, const Tensor& a, const Tensor& b) { at::mm_out(out, a, b, at::kFloat); }

// LibTorch copies nothing where the sum and the result are one tensor.
void add_in_place(Tensor sum, const Tensor& a, const Tensor& b) {
  at::addmm_out(sum, sum, a, b, at::kFloat, /*beta=*/1, /*alpha=*/1);
}

// A row-major operand and a transposed one, and their product in fp64: whole numbers below 2^8, exact in
// fp32.
struct SmallProduct {
  explicit SmallProduct(at::Device device) {
    const auto numbers = [](int64_t rows, int64_t step) {
      return at::arange(rows * 7).mul(step).remainder(13).sub(6).view({rows, 7}).to(at::kBFloat16);
    };
    const Tensor left = numbers(5, 3), right = numbers(9, 5);
    expected = at::mm(left.to(at::kDouble), right.to(at::kDouble).t());
    a = to_device(left, device);
    b = to_device(right, device).t();
  }
  bool equals(const Tensor& found, double more = 0) const {
    return found.to(at::kCPU, at::kDouble).equal(expected.add(more));
  }
  Tensor a, b, expected;
};

bool product_works(at::Device device) {
  const SmallProduct small(device);
  return small.equals(at::mm(small.a, small.b, at::kFloat));
}

// The result is part of wider rows.
bool in_place_works(at::Device device) {
  const SmallProduct small(device);
  const Tensor sum = to_device(at::full({5, 16}, 2, at::kFloat), device).narrow(1, 0, 9);
  add_in_place(sum, small.a, small.b);
  const bool added = small.equals(sum, 2);
  write_in_place(sum, small.a, small.b);
  return added && small.equals(sum);
}

bool in_place(const Tensor& a) { return wide_product_in_place_check().refusal(a.device()).empty(); }

}  // namespace

const LibraryCheck& wide_product_check() {
  static const LibraryCheck check("product of bf16 with fp32 results", product_works);
  return check;
}

const LibraryCheck& wide_product_in_place_check() {
  static const LibraryCheck check("product of bf16 that writes and adds fp32 in place", in_place_works);
  return check;
}

bool has_wide_product(const Tensor& x) {
  return x.scalar_type() == at::kBFloat16 && on_gpu(x) && wide_product_check().refusal(x.device()).empty();
}

void wide_product(const Tensor& out, const Tensor& a, const Tensor& b) {
  if (in_place(a))
    write_in_place(out, a, b);
  else
    out.copy_(at::mm(a, b, at::kFloat));
}

void add_wide_product(const Tensor& sum, const Tensor& a, const Tensor& b) {
  if (in_place(a))
    add_in_place(sum, a, b);
  else
    sum.add_(at::mm(a, b, at::kFloat));
}

}  // namespace longhaul::kernels
