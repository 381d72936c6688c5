// Mixture of SwiGLU experts (docs/sources/minimax-01.md §2.5). Its module is model/experts/experts.h.
#pragma once

#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct ChannelMixerEntry;
extern const ChannelMixerEntry kExpertsMixer;

// The form of the balance loss (model/experts/router_balance.h): E · Σ f P for each router; as printed, 1/E
// with f not divided by k; or joint over all routers.
enum class BalanceForm { kSwitch, kGshard, kHuggingFace };
enum class RouterScore { kSoftmax, kSigmoid, kSqrtSoftplus };
enum class Dropped { kLeast, kLast };  // Which choices are dropped when an expert's capacity is exceeded.
// Which choices share an expert's capacity: those of a sequence; those of the batch, each sequence by its
// share; or each sequence has a capacity of its own and lends the rest to others.
enum class CapacityOf { kSequence, kBatch, kLent };
// What determines the choice in training; the three in the middle are for benchmarks and ignore the scores.
// The choice by quantile is used after training too.
enum class RouterChoice { kScore, kSinkhorn, kRandom, kRoundRobin, kBiased, kQuantile };
// Over which choices the balance loss is computed: each sequence's; those of all sequences of the step at
// once; or those of the micro-batches so far.
enum class BalanceOf { kSequence, kBatch, kBatchSoFar };
std::vector<std::string_view> names_of(RouterScore);
std::vector<std::string_view> names_of(Dropped);
std::vector<std::string_view> names_of(CapacityOf);
std::vector<std::string_view> names_of(RouterChoice);
std::vector<std::string_view> names_of(BalanceOf);
std::vector<std::string_view> names_of(BalanceForm);

// RouterOptions: how a router chooses (kernels/experts/op.h), and which of its choices count
// (model/experts/expert_capacity.h).
struct RouterOptions {
  RouterScore score = RouterScore::kSoftmax;
  bool normalised = true;        // the weights of a token's experts sum to one
  double bias_rate = 0;          // step size of the bias of the choice; 0: there is no bias
  double scale = 1;              // factor of the weights of a token's experts, after their normalisation
  int64_t groups = 1;            // experts are divided into so many groups of neighbours,
  int64_t groups_per_token = 1;  // and a token chooses from so many of them
  // In training its inputs are multiplied by numbers from [1 − jitter, 1 + jitter)
  // (model/experts/router_jitter.h).
  double jitter = 0;
  RouterChoice choice = RouterChoice::kScore;
  // Standard deviation of the biases of a biased choice (model/experts/router_forced.h).
  double choice_std = 1;
  // The part of the thresholds of a choice by quantile that survives a step
  // (model/experts/router_quantile.h).
  double quantile_memory = 0.9;
  BalanceOf balance_of = BalanceOf::kSequence;
  BalanceForm balance_form = BalanceForm::kSwitch;
  // Coefficient of a second balance loss over each sequence, in addition to one over the batch.
  double sequence_loss = 0;
  double capacity_factor = 0;  // 0: nothing is dropped
  Dropped dropped = Dropped::kLeast;
  CapacityOf capacity_of = CapacityOf::kSequence;
  int64_t capacity_parts = 1;  // parts of a sequence, each with a share of its capacity
  // Whether the choice also uses numbers that training changes without a gradient.
  bool biased() const { return bias_rate > 0 || choice == RouterChoice::kQuantile; }
  bool operator==(const RouterOptions&) const = default;
};

}  // namespace longhaul::recipe
