// A router's choice by quantiles (docs/sources/moe-parallel-folding.md §4.2, Megatron-LM's quantile
// balancing): the k experts with the largest logit_te + b_e, in training and behind it. −b_e is a threshold
// that follows what would have given every expert its share of the tokens: of a sequence with T tokens, E
// experts and logits x,
//
//   α_t = the (k+1)-th largest of x_te + b_e over the experts
//   θ_e = the (⌊T k / E⌋ + 1)-th largest of x_te − α_t over the tokens
//   behind a step          b ← m b − (1 − m)(θ − mean of θ over the experts), with θ the mean over the step's
//                          sequences
//
// (one round of coordinate descent on the dual of the assignment in which every expert has equally many
// tokens). Each sequence asks for itself, as the balance losses and Sinkhorn's iteration do, where
// Megatron-LM takes what a rank has of a micro-batch: neither micro-batches nor ranks change a threshold. θ
// is counted in steps of 2^−32, whose sums are exact in any order, and is at most 1024 in size. The numbers b
// sum to 0.
#pragma once

#include <map>
#include <string>

#include "layout/sequence_view.h"
#include "model/parallel_ops.h"
#include "model/parameter.h"

namespace longhaul::model {

// logits [own tokens, experts], b [experts] → int64 [experts + 1]: Σ of θ · 2^32 over the sequences that this
// rank knows whole, and how many they are. A collective call of the ranks that share the row, if they cut a
// sequence: each then knows all of them.
Tensor quantiles_of(const Tensor& logits_te, const Tensor& bias_e, int64_t per_token,
                    const layout::SequenceView& view, ParallelOps& ops);

// sums: by the name of b, quantiles_of() of all ranks and micro-batches of a step.
void move_router_thresholds(ParameterSet& parameters, const std::map<std::string, Tensor>& sums,
                            double memory);

}  // namespace longhaul::model
