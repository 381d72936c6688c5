// MiniBatch: the answers of one optimizer step as packed rows, and what their tokens cost. Every answer
// stands behind its prompt as a document of its own, whose recurrence and attention begin anew. Which answers
// share a row does not depend on the number of replicas; a replica takes every so-manieth row, and all have
// equally many micro-batches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/linear_cross_entropy/log_probabilities.h"
#include "language/text_stage.h"
#include "posttrain/reinforce/rollouts.h"

namespace longhaul::posttrain {

// Sums over the tokens of a pass, for metrics.
struct TokenSums {
  double tokens = 0, entropy = 0, clipped_high = 0, clipped_low = 0, kl = 0;
  // Of l_old, or with rollouts ahead of l now: |l − l_gen|, and the k3 estimate of KL(generated ‖ l)
  double gap = 0, gap_kl = 0;
};

struct MicroBatch {
  layout::SequenceLayout layout;
  std::vector<int64_t> inputs, labels;
  // in the order of their documents; none: it only keeps other replicas company
  std::vector<Answer*> answers;
  std::vector<int64_t> numbers;        // of each among the answers of the mini-batch
  std::vector<int64_t> prompts;        // of their documents, in tokens
  std::vector<int64_t> places;         // of their sampled tokens in the row, answer by answer
  std::vector<std::vector<double>> l;  // of the last pass, by answer
  TokenSums sums;                      // likewise
  language::PackedText text() const { return {layout, inputs, labels}; }
  // To which experts the engine sent the tokens of the rows, for these routers; there are answers.
  std::shared_ptr<const model::Routes> routes(const std::vector<std::string>& routers,
                                              at::Device device) const;
};

struct PackOptions {
  int64_t sequence = 0, rows = 0;  // of a micro-batch
  int64_t replicas = 1, replica = 0;
};

// The part of a replica. The groups must outlive it and stay where they are.
std::vector<MicroBatch> micro_batches_of(const std::vector<Group*>& groups, const PackOptions& options);

// The weight of all answers of a mini-batch together, those that are masked left out.
double weight_of(const std::vector<MicroBatch>& micro_batches, const ReinforceOptions& options);

// The loss of a micro-batch, a scalar, from what the model says of its labels. Fills `l` and `sums`. Without
// old log-probabilities the tokens' own are taken, as those of the same weights.
Tensor loss_of(MicroBatch& micro_batch, const kernels::TokenLogProbabilities& tokens,
               const ReinforceOptions& options);
// Only their log-probabilities, into `l`.
void record(MicroBatch& micro_batch, const kernels::TokenLogProbabilities& tokens);

}  // namespace longhaul::posttrain
