// LibTorch's fused CPU kernel, called once per group of neighbouring documents of equal length (a batch of whole sequences is
// one call). It wants [batch, heads, length, channels] and equal head counts.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include "kernels/attention/problem.h"

namespace longhaul::kernels {
namespace {

struct Run {
  int64_t begin, count, length;  // `count` documents of `length` tokens from token `begin`
};

std::vector<Run> equal_runs(const std::vector<int64_t>& offsets) {
  std::vector<Run> runs;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const int64_t length = offsets[n + 1] - offsets[n];
    if (length == 0) continue;
    if (!runs.empty() && runs.back().length == length) {
      ++runs.back().count;
    } else {
      runs.push_back({offsets[n], 1, length});
    }
  }
  return runs;
}

// [tokens, heads, channels] → a [count, heads · repeat, length, channels] view or copy of the run.
Tensor batch_of(const Tensor& x_thd, const Run& run, int64_t repeat) {
  Tensor x = x_thd.narrow(0, run.begin, run.count * run.length).view({run.count, run.length, x_thd.size(1), x_thd.size(2)}).transpose(1, 2);
  return repeat > 1 ? x.repeat_interleave(repeat, 1) : x;
}

void store(const Tensor& into_thd, const Run& run, const Tensor& x_bhld) {
  into_thd.narrow(0, run.begin, run.count * run.length)
      .view({run.count, run.length, into_thd.size(1), into_thd.size(2)})
      .copy_(x_bhld.transpose(1, 2));
}

Tensor sum_groups(const Tensor& x_bhld, int64_t group) {
  if (group == 1) return x_bhld;
  return x_bhld.reshape({x_bhld.size(0), x_bhld.size(1) / group, group, x_bhld.size(2), x_bhld.size(3)}).sum(2);
}

}  // namespace

AttentionResult attention_forward_sdpa(const AttentionProblem& problem) {
  const Tensor q = problem.q_thd.contiguous(), k = problem.k_shd.contiguous(), v = problem.v_shd.contiguous();
  Tensor o = at::empty({q.size(0), q.size(1), v.size(2)}, v.options());
  Tensor lse = at::empty({q.size(0), q.size(1)}, q.options().dtype(problem.sum_type()));
  for (const Run& run : equal_runs(problem.offsets)) {
    const auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
        batch_of(q, run, 1), batch_of(k, run, problem.group()), batch_of(v, run, problem.group()), 0.0, true, {}, problem.options.scale);
    store(o, run, out);
    store(lse.unsqueeze(2), run, log_sum.unsqueeze(3));
  }
  return {o, lse};
}

AttentionGradients attention_backward_sdpa(const AttentionProblem& problem, const AttentionResult& result, const Tensor& d_o_thd) {
  const Tensor q = problem.q_thd.contiguous(), k = problem.k_shd.contiguous(), v = problem.v_shd.contiguous(), d_o = d_o_thd.contiguous();
  AttentionGradients gradients{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
  for (const Run& run : equal_runs(problem.offsets)) {
    const Tensor log_sum = batch_of(result.logsumexp_th.unsqueeze(2), run, 1).squeeze(3).contiguous();
    const auto [d_q, d_k, d_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        batch_of(d_o, run, 1), batch_of(q, run, 1), batch_of(k, run, problem.group()), batch_of(v, run, problem.group()),
        batch_of(result.o_thd, run, 1), log_sum, 0.0, true, {}, problem.options.scale);
    store(gradients.q_thd, run, d_q);
    store(gradients.k_shd, run, sum_groups(d_k, problem.group()));
    store(gradients.v_shd, run, sum_groups(d_v, problem.group()));
  }
  return gradients;
}

}  // namespace longhaul::kernels
