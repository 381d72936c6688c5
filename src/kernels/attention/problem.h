// The implementations of attention and their arguments: checked, with every row of queries and of keys in a
// document. A backward pass writes gradients in the dtype of the inputs, or with `add` adds to sums in fp32
// (fp64).
#pragma once

#include <span>
#include <vector>

#include "kernels/attention/op.h"
#include "kernels/attention/paged/paged.h"
#include "kernels/attention/raw.h"

namespace longhaul::kernels {

inline constexpr const char* kAttentionOp = "attention";

// Chooses the implementation of one call; and of the backward pass that belongs to it, which is the same but
// where it refuses, since log-sum-exp and δ of one serve any other.
enum class AttentionBy : size_t { kFlash, kCuda, kCpu, kMeta, kAten, kReference };
AttentionBy choose_attention(const AttentionProblem& problem);
AttentionBy choose_attention_backward(AttentionBy forward, const AttentionProblem& problem,
                                      const AttentionOutside& outside);
AttentionProblem checked_attention(AttentionProblem problem);  // refuses bad arguments, and covers all rows
AttentionResult attention_forward_by(AttentionBy by, const AttentionProblem& problem, bool wide);
// In the dtypes of q, k and v; or added to `add_to`, which is fp32 (fp64).
AttentionGradients attention_backward_by(AttentionBy by, const AttentionProblem& problem,
                                         const AttentionOutside& outside, const AttentionGradients* add_to);
Tensor attention_delta_by(AttentionBy by, const Tensor& o_thd, const Tensor& d_o_thd,
                          const Tensor& d_logsumexp_th);

struct PagedProblem {
  Tensor q_thd;
  std::vector<int64_t> offsets;
  const KeyValueCache& cache;
  std::span<const int64_t> rows;  // of the cache, one a document
  AttentionOptions options;

  size_t documents() const { return rows.size(); }
  // that are there
  int64_t keys(size_t document) const {
    return cache.tokens(rows[document]) - cache.forgotten(rows[document]);
  }
  const std::vector<int64_t>& pages(size_t document) const { return cache.pages(rows[document]); }
};

AttentionResult attention_forward_reference(const AttentionProblem& problem, bool wide);
void attention_backward_reference(const AttentionProblem& problem, const AttentionOutside& outside,
                                  const AttentionGradients& into, bool add);

AttentionResult attention_forward_aten(const AttentionProblem& problem, bool wide);
void attention_backward_aten(const AttentionProblem& problem, const AttentionOutside& outside,
                             const AttentionGradients& into, bool add);

Refusal refuse_attention_cpu(const AttentionProblem& problem);  // why not, or empty
AttentionResult attention_forward_cpu(const AttentionProblem& problem, bool wide);
void attention_backward_cpu(const AttentionProblem& problem, const AttentionOutside& outside,
                            const AttentionGradients& into, bool add);
// bf16 and fp32
Tensor attention_delta_cpu(const Tensor& o_thd, const Tensor& d_o_thd, const Tensor& d_logsumexp_th);

Refusal refuse_attention_paged_cpu(const PagedProblem& problem);
AttentionResult attention_paged_cpu(const PagedProblem& problem);

}  // namespace longhaul::kernels
