// Our own CPU form of delta_rule: bf16 or fp32 inputs, every kind of decay. It works in chunks of 64 tokens
// (chunked.h has the equations), with documents and heads in parallel. Everything between reading and
// writing rows is fp32, products included, because the error of a system's solution is the rounding of its
// operands times its condition number. The bits are the same for any number of threads and for any other
// documents in the packing. For the backward pass one state of every 512 tokens is kept; the rest is
// recomputed.
#pragma once

#include "kernels/delta_rule/problem.h"

namespace longhaul::kernels {

constexpr int64_t kDeltaTokens = 64;        // of a chunk
constexpr int64_t kDeltaSegmentChunks = 8;  // between two states that are kept
constexpr int64_t kDeltaWidestHead = 1024;  // channels of keys, or of values
constexpr int64_t kDeltaWidestDecay = 256;  // channels of keys with a decay each

Refusal refuse_delta_rule_cpu(const DeltaRuleProblem& problem);  // empty: takes it

// `kept` receives the states between segments, which backward wants; null: not kept.
LinearRecurrenceResult delta_rule_forward_cpu(const DeltaRuleProblem& problem, Tensor* kept);
DeltaRuleGradients delta_rule_backward_cpu(const DeltaRuleProblem& problem, const Tensor& kept,
                                           const Tensor& d_o_thd, const Tensor& d_final_nhkv);

}  // namespace longhaul::kernels
