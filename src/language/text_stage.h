// TextStage: one rank's pipeline stage of a language model on packed text. All tasks of text share this way
// from tokens to hidden states or the loss. The rank's place in the mesh decides which tokens of a row and
// which layers it has.
#pragma once

#include <functional>
#include <vector>

#include "kernels/linear_cross_entropy/log_probabilities.h"
#include "model/decoder.h"
#include "parallel/ranks.h"
#include "train/task.h"

namespace longhaul::language {

// Whole packed rows: inputs and labels [tokens], and what the labels weigh in the loss; no weights: 1.
// `embedded`: tokens that have rows from outside in the place of the embedding's, whose inputs are not read.
// All stages are given the tokens, and the model's first stage the rows too; kUsage where modules that
// predict further ahead would need them in another stage.
struct PackedText {
  const layout::SequenceLayout& layout;
  const std::vector<int64_t>&inputs, &labels;
  const std::vector<float>* weights = nullptr;
  const model::EmbeddedRows* embedded = nullptr;
};

class TextStage {
 public:
  // both arguments must outlive it
  TextStage(model::Decoder& decoder, const parallel::Ranks& ranks) : decoder_(decoder), ranks_(ranks) {}

  // as Task::forward
  Tensor forward(model::Context& context, const PackedText& text, const Tensor& entering) const;
  // The same with another loss, made of the log-probabilities of the labels. `loss` is called in the last
  // stage with what the options ask for, [tokens] each, of those tokens of the row that this context rank has
  // (view.token_index), and returns a scalar; all tensor ranks must return the same. text.weights are not
  // read, and modules that predict further ahead are not trained.
  using TokenLoss =
      std::function<Tensor(const kernels::TokenLogProbabilities& tokens, const layout::SequenceView& view)>;
  Tensor forward(model::Context& context, const PackedText& text, const Tensor& entering,
                 const kernels::LogProbabilityOptions& options, const TokenLoss& loss) const;
  train::StageInput input(const PackedText& text) const;  // as Task::stage_input

 private:
  layout::SequenceView view_of(const PackedText& text) const { return {text.layout, ranks_.share()}; }
  // Returns the stage's result; in the last stage at_end makes it from the last hidden states, normed.
  Tensor through(model::Context& context, const PackedText& text, const Tensor& entering,
                 const layout::SequenceView& view, const std::function<Tensor(Tensor hidden)>& at_end) const;

  model::Decoder& decoder_;
  const parallel::Ranks& ranks_;
};

}  // namespace longhaul::language
