// Mixture of SwiGLU experts (docs/sources/minimax-01.md §2.5). Its module is model/experts/experts.h.
#pragma once

#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct ChannelMixerEntry;
extern const ChannelMixerEntry kExpertsMixer;

// How the balance loss is counted (model/experts/router_balance.h): E · Σ f P of each router; as printed, 1/E with f not divided by k; or joint over all routers.
enum class BalanceForm { kSwitch, kGshard, kHuggingFace };
enum class RouterScore { kSoftmax, kSigmoid, kSqrtSoftplus };
enum class Dropped { kLeast, kLast };  // of the choices that an expert has no room for
// Whose choices share an expert's room: a sequence's; the batch's, each sequence by its share; or each sequence has its own and lends what it leaves.
enum class CapacityOf { kSequence, kBatch, kLent };
// What the choice in training goes by; the three in the middle are for benchmarks, whatever the scores. By quantile also behind training.
enum class RouterChoice { kScore, kSinkhorn, kRandom, kRoundRobin, kBiased, kQuantile };
// Whose choices the balance loss judges: each sequence's; those of all sequences of the step, at once, or as far as its micro-batches have come.
enum class BalanceOf { kSequence, kBatch, kBatchSoFar };
std::vector<std::string_view> names_of(RouterScore);
std::vector<std::string_view> names_of(Dropped);
std::vector<std::string_view> names_of(CapacityOf);
std::vector<std::string_view> names_of(RouterChoice);
std::vector<std::string_view> names_of(BalanceOf);
std::vector<std::string_view> names_of(BalanceForm);

// How a router chooses (kernels/experts/op.h), and which of its choices count (model/experts/expert_capacity.h).
struct RouterOptions {
  RouterScore score = RouterScore::kSoftmax;
  bool normalised = true;        // the weights of a token's experts sum to one
  double bias_rate = 0;          // by which the bias of the choice moves in a step; 0: there is none
  double scale = 1;              // of the weights of a token's experts, behind their normalisation
  int64_t groups = 1;            // experts stand in so many groups of neighbours …
  int64_t groups_per_token = 1;  // … and a token chooses from so many of them
  double jitter = 0;  // in training its inputs are multiplied by numbers from [1 − jitter, 1 + jitter) (model/experts/router_jitter.h)
  RouterChoice choice = RouterChoice::kScore;
  double choice_std = 1;         // of the biases of a choice that is biased (model/experts/router_forced.h)
  double quantile_memory = 0.9;  // what a step leaves of the thresholds of a choice by quantile (model/experts/router_quantile.h)
  BalanceOf balance_of = BalanceOf::kSequence;
  BalanceForm balance_form = BalanceForm::kSwitch;
  double sequence_loss = 0;    // coefficient of a second balance loss, of each sequence by itself, beside one of the batch
  double capacity_factor = 0;  // 0: nothing is dropped
  Dropped dropped = Dropped::kLeast;
  CapacityOf capacity_of = CapacityOf::kSequence;
  int64_t capacity_parts = 1;  // of a sequence, each with a share of its room
  bool biased() const {
    return bias_rate > 0 || choice == RouterChoice::kQuantile;
  }  // its choice, by numbers that training moves without a gradient
  bool operator==(const RouterOptions&) const = default;
};

}  // namespace longhaul::recipe
