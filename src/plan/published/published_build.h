// Builds published rows (plan/published.h): a row with the values that its family shares, then its own. Only
// for the files of this folder, each of which holds the rows of a few papers.
#pragma once

#include <string>

#include "plan/published.h"

namespace longhaul::plan {

struct PublishedBuild {
  std::vector<PublishedRow> rows;

  // Adds a row with as many devices as the layout has ranks; operators are neither fused nor causal, as in
  // 2021; FLOPs are with whole attention.
  PublishedRow& add(const char* family, std::string name, const char* source,
                    const recipe::ModelConfig& model, int64_t sequence, const char* device,
                    const PlanLayout& layout, int64_t batch);
};

// Visible part of an exchange that is hidden by computation: our value, from no row.
inline constexpr double kOverlapped = 0.15;

// Share of the peak: 25 to 40 % (arXiv 2307.08691, abstract).
inline constexpr double kFirstFlashAttention = 0.33;

// Tensor exchanges of Megatron-LM's backward pass with sequence parallelism, relative to its forward pass
// (core/tensor_parallel/layers.py; arXiv 2205.05198 §4.2.2): the gathering of output gradients is visible;
// inputs are gathered again during the products for the gradients of inputs, and these are summed during
// those for weights.
inline constexpr double kMegatronBackward = 0.5 + 1.0 * kOverlapped;
inline constexpr double kMegatronVolume = 1.5;  // all of these, where every one is hidden

// Bytes per parameter in Megatron-LM's update: unscaling, norm and clipping read and write the gradient (4 +
// 4, 4, 4 + 4), Adam reads four numbers and writes three (16 + 12), copy (4 + 2), clearing (4). Per logit: to
// fp32, maximum, difference, exponential, sum, quotient, gradient, to bf16.
inline constexpr double kMegatronUpdate = 58, kUnfusedLoss = 44;

recipe::ModelConfig published_gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary,
                                  bool tied = true);

// All exchanges overlap with computation, as its README says; operators are fused, attention is causal and
// stores no scores.
Practice megatron_of_2024(double gradient_bytes);

// All other sizes are 1; the schedule is interleaved where a rank has several stages.
PlanLayout published_layout(int64_t gpus, int64_t tp, int64_t pp, int64_t chunks, int64_t micro_batch,
                            recipe::Recompute recompute);

// Numbers of stages per rank that Megatron-LM allows: divisors of its layers (core/transformer/moe/README.md,
// "VPP_size tuning").
std::vector<int64_t> possible_stages(int64_t layers, int64_t pp);

// FLOPs of steps with full recomputation as arXiv 2104.04473 counts them (equation 3): a third more than the
// model's own.
double flops_with_recomputation(int64_t layers, int64_t hidden, int64_t vocabulary, int64_t sequence,
                                int64_t batch);

void add_rows_of_a100(PublishedBuild& build);     // arXiv 2205.05198, 2104.04473, MegaScale, MT-NLG
void add_rows_of_h100(PublishedBuild& build);     // Megatron-LM's README, Llama 3
void add_rows_of_experts(PublishedBuild& build);  // parallel folding
void add_rows_of_shards(PublishedBuild& build);   // ZeRO-3: arXiv 2104.04473, LLM Foundry

}  // namespace longhaul::plan
