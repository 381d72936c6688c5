#include "kernels/attention/raw.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "kernels/attention/cuda_call.h"
#include "kernels/attention/flash.h"
#include "kernels/attention/problem.h"
#include "kernels/by_device.h"
#include "kernels/documents.h"
#include "kernels/operator_clock.h"

namespace longhaul::kernels {
namespace {

constexpr std::string_view kImplementations[] = {"flash", "cuda", "cpu", "meta", "aten", "reference"};

Refusal refuse_kernels(const AttentionProblem& problem) {
  const Refusal refusal = refuse_cuda(problem.q_thd);
  return refusal.empty() ? cuda_calls<AttentionCuda>().refuse(problem) : refusal;
}

Refusal refuse(AttentionBy by, const AttentionProblem& problem) {
  switch (by) {
    case AttentionBy::kFlash:
      return refuse_attention_flash(problem);
    case AttentionBy::kCuda:
      return refuse_kernels(problem);
    case AttentionBy::kCpu:
      return refuse_attention_cpu(problem);
    case AttentionBy::kMeta:
      return problem.q_thd.is_meta() ? Refusal() : kNotMeta;
    case AttentionBy::kAten:
      return {};
    default:
      return problem.q_thd.is_cpu() ? Refusal() : kNotOnCpu;
  }
}

// A long problem that a GPU does in LibTorch's plain operators takes many times as long.
void warn_of_plain_form(const AttentionProblem& problem) {
  constexpr int64_t kLong = 4096;
  if (!on_gpu(problem.q_thd) || problem.k_shd.size(0) <= kLong) return;
  static std::once_flag once;
  std::call_once(once, [&] {
    log_warning(
        "attention over {} keys runs in plain operators on this GPU, many times slower than its kernels, "
        "which take bf16 without a prefix (--explain-dispatch says what else they refused)",
        problem.k_shd.size(0));
  });
}

// The implementations on a GPU leave o and gradients in bf16, rounded once more where sums are wanted.
void add_gradients(const AttentionGradients& part, const AttentionGradients& into) {
  into.q_thd.add_(part.q_thd);
  into.k_shd.add_(part.k_shd);
  into.v_shd.add_(part.v_shd);
}

AttentionGradients gradients_like(const AttentionProblem& problem) {
  const auto like = [](const Tensor& x) { return at::empty(x.sizes(), x.options().requires_grad(false)); };
  return {like(problem.q_thd), like(problem.k_shd), like(problem.v_shd)};
}

void check_visible(const Visibility& visible, int64_t queries, int64_t keys) {
  if (visible.window < 0)
    refuse_argument(kAttentionOp, "window", "0 (none) or more", std::to_string(visible.window));
  int64_t q = 0, k = 0;
  for (const AttentionDocument& document : visible.documents) {
    const bool inside = document.q >= q && document.queries >= 0 &&
                        document.q + document.queries <= queries && document.k >= k && document.keys >= 0 &&
                        document.k + document.keys <= keys;
    if (!inside || document.prefix < 0 || document.prefix > document.keys) {
      refuse_argument(
          kAttentionOp, "visible",
          fmt::format(
              "documents after each other, of {} queries and {} keys in all, with a prefix of their keys",
              queries, keys),
          fmt::format("queries [{}, {}), keys [{}, {}), prefix {}", document.q, document.q + document.queries,
                      document.k, document.k + document.keys, document.prefix));
    }
    q = document.q + document.queries;
    k = document.k + document.keys;
  }
}

void expect_rows(const char* argument, const Tensor& x, at::IntArrayRef sizes, ScalarType type,
                 const Tensor& like) {
  if (x.defined() && x.sizes() == sizes && x.scalar_type() == type && x.device() == like.device()) return;
  refuse_argument(kAttentionOp, argument,
                  fmt::format("{} {}", shape_text(at::empty(sizes, at::kMeta)), name_of(type)),
                  shape_text(x));
}

void expect_sum(const char* argument, const Tensor& x, const Tensor& of, ScalarType type) {
  expect_rows(argument, x, of.sizes(), type, of);
  if (x.size(2) > 1 && x.stride(2) != 1)
    refuse_argument(kAttentionOp, argument, "contiguous channels", fmt::format("stride {}", x.stride(2)));
}

}  // namespace

AttentionProblem checked_attention(AttentionProblem problem) {
  const Tensor &q = problem.q_thd, &k = problem.k_shd, &v = problem.v_shd;
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type()))
    refuse_argument(kAttentionOp, "q", "[tokens, heads, channels], floating point", shape_text(q));
  if (k.dim() != 3 || k.size(2) != q.size(2) || k.size(1) == 0 || q.size(1) % k.size(1) != 0 ||
      k.scalar_type() != q.scalar_type() || k.device() != q.device()) {
    refuse_argument(
        kAttentionOp, "k",
        fmt::format("[keys, a divisor of {}, {}] {}", q.size(1), q.size(2), name_of(q.scalar_type())),
        shape_text(k));
  }
  if (v.dim() != 3 || v.size(0) != k.size(0) || v.size(1) != k.size(1) ||
      v.scalar_type() != q.scalar_type() || v.device() != q.device()) {
    refuse_argument(kAttentionOp, "v",
                    fmt::format("[{}, {}, channels] {}", k.size(0), k.size(1), name_of(q.scalar_type())),
                    shape_text(v));
  }
  check_visible(problem.visible, q.size(0), k.size(0));
  problem.visible = problem.visible.covering(q.size(0), k.size(0));
  return problem;
}

AttentionBy choose_attention(const AttentionProblem& problem) {
  const auto by = static_cast<AttentionBy>(Dispatcher(kAttentionOp, kImplementations).choose([&](size_t i) {
    return refuse(static_cast<AttentionBy>(i), problem);
  }));
  if (by == AttentionBy::kAten) warn_of_plain_form(problem);
  return by;
}

AttentionBy choose_attention_backward(AttentionBy forward, const AttentionProblem& problem,
                                      const AttentionOutside& outside) {
  if (forward != AttentionBy::kFlash) return forward;
  const auto by = static_cast<AttentionBy>(
      Dispatcher("attention_backward", kImplementations).choose([&](size_t i) -> Refusal {
        const auto each = static_cast<AttentionBy>(i);
        return each == forward ? refuse_attention_backward_flash(problem, outside) : refuse(each, problem);
      }));
  if (by == AttentionBy::kAten) warn_of_plain_form(problem);
  return by;
}

// The operations of the forward pass; the backward pass has two products for each of them.
static double attention_flops(const AttentionProblem& problem) {
  if (!operators_are_timed()) return 0;
  double pairs = 0;
  for (const AttentionDocument& document : problem.visible.documents) {
    for (int64_t i = 0; i < document.queries; ++i) {
      const TokenRange near = problem.visible.near(document, i);
      const int64_t first = std::max(near.first, document.prefix);
      pairs += static_cast<double>(std::min(document.prefix, document.keys) +
                                   std::max<int64_t>(0, near.last - first));
    }
  }
  const int64_t channels = problem.q_thd.size(2) + problem.v_shd.size(2);
  return 2 * pairs * static_cast<double>(problem.q_thd.size(1) * channels);
}

AttentionResult attention_forward_by(AttentionBy by, const AttentionProblem& problem, bool wide) {
  count_flops(attention_flops(problem));
  const Tensor &q = problem.q_thd, &v = problem.v_shd;
  switch (by) {
    case AttentionBy::kFlash:
    case AttentionBy::kCuda: {
      const AttentionResult result = by == AttentionBy::kFlash ? attention_forward_flash(problem)
                                                               : cuda_calls<AttentionCuda>().forward(problem);
      return wide ? AttentionResult{result.o_thd.to(problem.sum_type()), result.logsumexp_th} : result;
    }
    case AttentionBy::kCpu:
      return attention_forward_cpu(problem, wide);
    case AttentionBy::kMeta:
      return {at::empty({q.size(0), q.size(1), v.size(2)},
                        v.options().dtype(wide ? problem.sum_type() : v.scalar_type())),
              at::empty({q.size(0), q.size(1)}, q.options().dtype(problem.sum_type()))};
    case AttentionBy::kAten:
      return attention_forward_aten(problem, wide);
    default:
      return attention_forward_reference(problem, wide);
  }
}

AttentionGradients attention_backward_by(AttentionBy by, const AttentionProblem& problem,
                                         const AttentionOutside& outside, const AttentionGradients* add_to) {
  count_flops(2 * attention_flops(problem));
  const bool in_bf16 = by == AttentionBy::kFlash || by == AttentionBy::kCuda;
  if (in_bf16 && add_to != nullptr) {
    add_gradients(attention_backward_by(by, problem, outside, nullptr), *add_to);
    return *add_to;
  }
  if (by == AttentionBy::kFlash) return attention_backward_flash(problem, outside);
  const bool add = add_to != nullptr;
  const AttentionGradients into = add ? *add_to : gradients_like(problem);
  switch (by) {
    case AttentionBy::kCuda:
      cuda_calls<AttentionCuda>().backward(problem, outside, into);
      break;
    case AttentionBy::kCpu:
      attention_backward_cpu(problem, outside, into, add);
      break;
    case AttentionBy::kAten:
      attention_backward_aten(problem, outside, into, add);
      break;
    case AttentionBy::kReference:
      attention_backward_reference(problem, outside, into, add);
      break;
    default:;
  }
  return into;
}

Tensor attention_delta_by(AttentionBy by, const Tensor& o, const Tensor& d_o, const Tensor& d_logsumexp) {
  if (by == AttentionBy::kCuda) return cuda_calls<AttentionCuda>().delta(o, d_o, d_logsumexp);
  if (by == AttentionBy::kCpu) return attention_delta_cpu(o, d_o, d_logsumexp);
  const ScalarType type = o.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor dots = o.to(type).mul(d_o.to(type)).sum(2);
  return d_logsumexp.defined() ? dots.sub(d_logsumexp) : dots;
}

AttentionResult attention_forward(const AttentionProblem& problem, bool wide) {
  const at::NoGradGuard no_gradient;
  const AttentionProblem checked = checked_attention(problem);
  return attention_forward_by(choose_attention(checked), checked, wide);
}

Tensor attention_delta(const Tensor& o, const Tensor& d_o, const Tensor& d_logsumexp) {
  const at::NoGradGuard no_gradient;
  const bool cpu = o.is_cpu() && d_o.scalar_type() == o.scalar_type() &&
                   (o.scalar_type() == at::kBFloat16 || o.scalar_type() == at::kFloat);
  return attention_delta_by(cpu ? AttentionBy::kCpu : AttentionBy::kAten, o, d_o, d_logsumexp);
}

void attention_backward(const AttentionProblem& problem, const AttentionOutside& outside,
                        const AttentionGradients& into) {
  const at::NoGradGuard no_gradient;
  const AttentionProblem checked = checked_attention(problem);
  const Tensor &q = problem.q_thd, &k = problem.k_shd, &v = problem.v_shd;
  const ScalarType wide = problem.sum_type();
  expect_rows("d_o", outside.d_o_thd, {q.size(0), q.size(1), v.size(2)}, v.scalar_type(), q);
  expect_rows("logsumexp", outside.logsumexp_th, {q.size(0), q.size(1)}, wide, q);
  expect_rows("delta", outside.delta_th, {q.size(0), q.size(1)}, wide, q);
  expect_sum("dq", into.q_thd, q, wide);
  expect_sum("dk", into.k_shd, k, wide);
  expect_sum("dv", into.v_shd, v, wide);
  if (outside.o_thd.defined())
    expect_rows("o", outside.o_thd, {q.size(0), q.size(1), v.size(2)}, v.scalar_type(), q);
  const AttentionBy by = choose_attention_backward(choose_attention(checked), checked, outside);
  attention_backward_by(by, checked, outside, &into);
}

// ℓ = log(e^ℓa + e^ℓb),  o = (1 − w) o_a + w o_b,  w = e^(ℓb − ℓ). By the larger of the two, so that nothing
// overflows, and nothing is −∞ − −∞.
void merge_attention(const AttentionResult& into, const AttentionResult& part) {
  const at::NoGradGuard no_gradient;
  const Tensor &a = into.logsumexp_th, &b = part.logsumexp_th;
  expect_rows("o", into.o_thd, {a.size(0), a.size(1), into.o_thd.size(-1)}, a.scalar_type(), a);
  expect_rows("logsumexp", b, a.sizes(), a.scalar_type(), a);
  expect_rows("o", part.o_thd, into.o_thd.sizes(), a.scalar_type(), a);
  const Tensor largest = at::maximum(a, b),
               base = largest.masked_fill(largest.eq(-std::numeric_limits<double>::infinity()), 0);
  const Tensor of_a = a.sub(base).exp(), of_b = b.sub(base).exp(), sum = of_a.add(of_b);
  const Tensor weight = of_b.div(sum.masked_fill(sum.eq(0), 1));
  into.o_thd.lerp_(part.o_thd, weight.unsqueeze(2));
  into.logsumexp_th.copy_(sum.log().add(base));
}

}  // namespace longhaul::kernels
