// How published rows are written down (plan/published.h): a row with what its family has in common, then what is its own. Only for the files of this
// folder, each of which holds the rows of a few papers.
#pragma once

#include <string>

#include "plan/published.h"

namespace longhaul::plan {

struct PublishedBuild {
  std::vector<PublishedRow> rows;

  // On as many devices as the layout has ranks; operators neither joined nor causal, as in 2021; FLOPs with whole attention.
  PublishedRow& add(const char* family, std::string name, const char* source, const recipe::ModelConfig& model, int64_t sequence,
                    const char* device, const PlanLayout& layout, int64_t batch);
};

inline constexpr double kOverlapped = 0.15;  // of an exchange that is hidden behind computing, what still shows: ours, of no row

inline constexpr double kFirstFlashAttention = 0.33;  // of the peak: 25 to 40 % (arXiv 2307.08691, abstract)

// Megatron-LM's backward pass with sequence parallelism, over its forward pass (core/tensor_parallel/layers.py; arXiv 2205.05198 §4.2.2): gradients
// of outputs are gathered in sight; inputs are gathered again beside the products of inputs' gradients, and these are summed beside those of weights'.
inline constexpr double kMegatronBackward = 0.5 + 1.0 * kOverlapped;
inline constexpr double kMegatronVolume = 1.5;  // all of these, where every one is hidden

// Bytes of a parameter in Megatron-LM's update: unscaling, norm and clipping read and write the gradient (4 + 4, 4, 4 + 4), Adam reads four numbers and
// writes three (16 + 12), copy (4 + 2), clearing (4). Of a logit: to fp32, greatest, difference, exponential, sum, quotient, gradient, to bf16.
inline constexpr double kMegatronUpdate = 58, kUnfusedLoss = 44;

recipe::ModelConfig published_gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary, bool tied = true);

// All exchanges beside computing, as its README says; operators joined, attention causal and without scores.
Practice megatron_of_2024(double gradient_bytes);

// Everything else 1; stages take turns where a rank has several.
PlanLayout published_layout(int64_t gpus, int64_t tp, int64_t pp, int64_t chunks, int64_t micro_batch, recipe::Recompute recompute);

// Stages a rank that Megatron-LM takes: divisors of its layers (core/transformer/moe/README.md, "VPP_size tuning").
std::vector<int64_t> possible_stages(int64_t layers, int64_t pp);

// Of steps with full recomputation as arXiv 2104.04473 counts them (equation 3): a third more than the model's own.
double flops_with_recomputation(int64_t layers, int64_t hidden, int64_t vocabulary, int64_t sequence, int64_t batch);

void add_rows_of_a100(PublishedBuild& build);     // arXiv 2205.05198, 2104.04473, MegaScale, MT-NLG
void add_rows_of_h100(PublishedBuild& build);     // Megatron-LM's README, Llama 3
void add_rows_of_experts(PublishedBuild& build);  // parallel folding
void add_rows_of_shards(PublishedBuild& build);   // ZeRO-3: arXiv 2104.04473, LLM Foundry

}  // namespace longhaul::plan
