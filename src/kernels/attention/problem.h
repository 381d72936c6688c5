// What every implementation of attention receives: checked arguments in one struct.
#pragma once

#include <span>
#include <vector>

#include "kernels/attention/op.h"
#include "kernels/attention/paged.h"

namespace longhaul::kernels {

struct AttentionProblem {
  Tensor q_thd, k_shd, v_shd;
  std::vector<int64_t> offsets, key_offsets;  // document boundaries of queries and of keys
  AttentionOptions options;

  int64_t heads() const { return q_thd.size(1); }
  int64_t group() const { return q_thd.size(1) / k_shd.size(1); }
  int64_t documents() const { return static_cast<int64_t>(offsets.size()) - 1; }
  ScalarType sum_type() const { return q_thd.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
};

struct PagedProblem {
  Tensor q_thd;
  std::vector<int64_t> offsets;
  const KeyValueCache& cache;
  std::span<const int64_t> rows;  // of the cache, one a document
  AttentionOptions options;

  size_t documents() const { return rows.size(); }
  int64_t keys(size_t document) const { return cache.tokens(rows[document]); }
  const std::vector<int64_t>& pages(size_t document) const { return cache.pages(rows[document]); }
};

struct AttentionGradients {
  Tensor q_thd, k_shd, v_shd;
};

AttentionResult attention_aten(const AttentionProblem& problem);  // under autograd

AttentionResult attention_forward_reference(const AttentionProblem& problem);
AttentionGradients attention_backward_reference(const AttentionProblem& problem, const AttentionResult& result, const Tensor& d_o_thd,
                                                const Tensor& d_logsumexp_th);
Refusal refuse_attention_cpu(const AttentionProblem& problem);  // why not, or empty
AttentionResult attention_forward_cpu(const AttentionProblem& problem);
AttentionGradients attention_backward_cpu(const AttentionProblem& problem, const AttentionResult& result, const Tensor& d_o_thd,
                                          const Tensor& d_logsumexp_th);
Refusal refuse_attention_paged_cpu(const PagedProblem& problem);
AttentionResult attention_paged_cpu(const PagedProblem& problem);

}  // namespace longhaul::kernels
