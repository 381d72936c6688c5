#include "kernels/rotary_heads/op.h"

#include <fmt/format.h>

#include <cmath>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/rotary_heads/cuda_call.h"
#include "kernels/rotary_heads/loops.h"
#include "kernels/saved/recomputed.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kGrain = 16;  // tokens

RotateHeads rotation(const Tensor& x, int64_t rotated, int64_t head_dim, const Tensor& cos,
                     const Tensor& sin) {
  return {.storage = storage_of(x),
          .rotated = rotated,
          .head_dim = head_dim,
          .pairs = cos.defined() ? cos.size(1) : 0,
          .row = x.size(1),
          .cos_tr = pointer_to(cos),
          .sin_tr = pointer_to(sin),
          .x_thd = writable(x)};
}

struct HeadCounts {
  int64_t heads, kv_heads, head_dim;
};

// x itself, rotated in place, as its three parts. In a layer that is made again by tokens rows of x may be
// kept as the product made them (rows_once in recomputed.h): there a copy is rotated.
std::vector<Tensor> split(const Tensor& x, const HeadCounts& counts, const RotaryTable& table, bool on_gpu) {
  const auto [heads, kv_heads, head_dim] = counts;
  // Not an alias that autograd knows of: the outputs stand on their own, and x itself is marked as written
  // to.
  const bool copied = table.cos_tr.defined() && keeps_recurrences() && !runs_again();
  const Tensor taken = copied ? x.detach().clone() : x.variable_data();
  if (table.cos_tr.defined()) {
    if (on_gpu) {
      cuda_calls<HeadsCuda>().rotate(taken, heads + kv_heads, head_dim, table.cos_tr, table.sin_tr);
    } else {
      const RotateHeads problem = rotation(taken, heads + kv_heads, head_dim, table.cos_tr, table.sin_tr);
      parallel_for(0, x.size(0), kGrain,
                   [&](int64_t begin, int64_t end) { rotate_rows(problem, begin, end); });
    }
    if (!copied) x.unsafeGetTensorImpl()->bump_version();
  }
  const Tensor x_thd = taken.view({x.size(0), heads + 2 * kv_heads, head_dim});
  return {x_thd.narrow(1, 0, heads), x_thd.narrow(1, heads, kv_heads),
          x_thd.narrow(1, heads + kv_heads, kv_heads)};
}

Tensor split_gradient(const std::vector<Tensor>& gradients, const HeadCounts& counts,
                      const RotaryTable& table, bool on_gpu) {
  const auto [heads, kv_heads, head_dim] = counts;
  const int64_t tokens = gradients[0].size(0);
  const Tensor dx = at::empty({tokens, (heads + 2 * kv_heads) * head_dim}, gradients[0].options());
  std::array<Tensor, 3> alive;
  for (size_t i = 0; i < 3; ++i)
    alive[i] = tokens == 0 || gradients[i][0].is_contiguous() ? gradients[i] : gradients[i].contiguous();
  if (on_gpu) {
    cuda_calls<HeadsCuda>().gather(alive, dx, table.cos_tr, table.sin_tr);
    return dx;
  }
  GatherHeads problem{.rotate = rotation(dx, heads + kv_heads, head_dim, table.cos_tr, table.sin_tr)};
  for (size_t i = 0; i < 3; ++i) {
    problem.parts[i] = pointer_to(alive[i]);
    problem.elements[i] = (i == 0 ? heads : kv_heads) * head_dim;
    problem.strides[i] = alive[i].stride(0);
  }
  parallel_for(0, tokens, kGrain, [&](int64_t begin, int64_t end) { gather_rows(problem, begin, end); });
  return dx;
}

}  // namespace

RotaryTable rotary_table(std::span<const int64_t> positions, int64_t dim, double base, ScalarType type) {
  std::vector<double> frequencies(static_cast<size_t>(dim / 2));
  for (size_t j = 0; j < frequencies.size(); ++j)
    frequencies[j] = std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(dim));
  return rotary_table(positions, frequencies, type);
}

RotaryTable rotary_table(std::span<const int64_t> positions, std::span<const double> frequency,
                         ScalarType type) {
  const auto tokens = static_cast<int64_t>(positions.size()), pairs = static_cast<int64_t>(frequency.size());
  Tensor angles = at::empty({tokens, pairs}, at::kDouble);
  double* out = angles.mutable_data_ptr<double>();
  parallel_for(0, tokens, 256, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t j = 0; j < pairs; ++j) {
        out[t * pairs + j] =
            static_cast<double>(positions[static_cast<size_t>(t)]) * frequency[static_cast<size_t>(j)];
      }
    }
  });
  return {angles.cos().to(type), angles.sin().to(type)};
}

Heads split_heads(const Tensor& x, int64_t heads, int64_t kv_heads, int64_t head_dim,
                  const RotaryTable& table) {
  if (x.dim() != 2 || x.size(1) != (heads + 2 * kv_heads) * head_dim || !x.is_contiguous() ||
      !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf) {
    refuse_argument("split_heads", "x",
                    fmt::format("[tokens, ({} + 2 · {}) heads · {}], contiguous, in bf16, fp32 or fp64",
                                heads, kv_heads, head_dim),
                    shape_text(x));
  }
  const bool rotated = table.cos_tr.defined();
  if (rotated &&
      (table.cos_tr.dim() != 2 || table.cos_tr.size(0) != x.size(0) || 2 * table.cos_tr.size(1) > head_dim ||
       table.cos_tr.scalar_type() != wide_type(x) || table.cos_tr.device() != x.device())) {
    refuse_argument("split_heads", "table",
                    fmt::format("[{} tokens, at most {}] {}", x.size(0), head_dim / 2, name_of(wide_type(x))),
                    shape_text(table.cos_tr));
  }
  if (rotated && x.requires_grad() && x.is_leaf() && at::GradMode::is_enabled()) {
    refuse_argument("split_heads", "x", "the result of an operator: it is rotated in place",
                    "a leaf that requires gradients");
  }
  const ByDevice choice = choose_by_device("split_heads", x, refuse_cuda(x));
  if (choice == ByDevice::kMeta || choice == ByDevice::kAten) {
    const Tensor from =
        choice == ByDevice::kMeta ? meta_results({x}, {{x.sizes().vec(), x.scalar_type()}})[0] : x;
    const Tensor x_thd = from.view({x.size(0), heads + 2 * kv_heads, head_dim});
    const Tensor q = x_thd.narrow(1, 0, heads), k = x_thd.narrow(1, heads, kv_heads),
                 v = x_thd.narrow(1, heads + kv_heads, kv_heads);
    return rotated && choice == ByDevice::kAten
               ? Heads{rotate_reference(q, table), rotate_reference(k, table), v}
               : Heads{q, k, v};
  }
  const std::vector<Tensor> parts =
      differentiable("split_heads", {x}, [&, on_gpu = choice == ByDevice::kCuda]() -> Recorded {
        const HeadCounts counts{heads, kv_heads, head_dim};
        return {.results = split(x, counts, table, on_gpu),
                .saved = {table.cos_tr, table.sin_tr},
                .backward = [=](const BackwardCall& call) {
                  return std::vector<Tensor>{
                      split_gradient(call.gradients, counts, {call.saved[0], call.saved[1]}, on_gpu)};
                }};
      });
  return {parts[0], parts[1], parts[2]};
}

Tensor rotate_reference(const Tensor& x, const RotaryTable& table) {
  const int64_t pairs = table.cos_tr.size(1);
  const Tensor cos = table.cos_tr.unsqueeze(1), sin = table.sin_tr.unsqueeze(1),
               wide = x.to(cos.scalar_type());
  const Tensor first = wide.narrow(2, 0, pairs), second = wide.narrow(2, pairs, pairs);
  const Tensor rest = wide.narrow(2, 2 * pairs, wide.size(2) - 2 * pairs);
  return at::cat({first * cos - second * sin, second * cos + first * sin, rest}, 2).to(x.scalar_type());
}

}  // namespace longhaul::kernels
