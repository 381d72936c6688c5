// TextStage: one rank's pipeline stage of a language model on packed text. All tasks of text share this way
// from tokens to hidden states or the loss. The rank's place in the mesh decides which tokens of a row and
// which layers it has.
#pragma once

#include <vector>

#include "model/decoder.h"
#include "parallel/ranks.h"
#include "train/task.h"

namespace longhaul::language {

// Whole packed rows: inputs and labels [tokens], and what the labels weigh in the loss; no weights: 1.
struct PackedText {
  const layout::SequenceLayout& layout;
  const std::vector<int64_t>&inputs, &labels;
  const std::vector<float>* weights = nullptr;
};

class TextStage {
 public:
  TextStage(model::Decoder& decoder, const parallel::Ranks& ranks) : decoder_(decoder), ranks_(ranks) {}  // both arguments must outlive it

  Tensor forward(model::Context& context, const PackedText& text, const Tensor& entering) const;  // as Task::forward
  train::StageInput input(const PackedText& text) const;                                          // as Task::stage_input

 private:
  layout::SequenceView view_of(const PackedText& text) const { return {text.layout, ranks_.share()}; }

  model::Decoder& decoder_;
  const parallel::Ranks& ranks_;
};

}  // namespace longhaul::language
