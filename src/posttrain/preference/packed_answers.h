// Packed answers: samples as the documents of one packed row each, and the sums of log-probabilities of their
// answers. A document is the prompt and one answer without its last token; its labels are the answer's
// tokens. The rows have the length of their samples: nothing is padded. Both answers of a pair are in one
// row, so that no micro-batch parts them.
#pragma once

#include <functional>

#include "language/text_stage.h"
#include "parallel/ranks.h"
#include "posttrain/preference/answer_samples.h"

namespace longhaul::posttrain {

struct PackedAnswers {
  layout::SequenceLayout layout;
  std::vector<int64_t> inputs, labels;
  std::vector<int64_t> tokens;   // of the answer of each document
  std::vector<int64_t> last;     // place in the row of each document's last input
  std::vector<int64_t> samples;  // indexes of the samples
  language::PackedText text() const { return {layout, inputs, labels}; }
};

// Appends a document for a prompt and an answer.
class AnswerPacker {
 public:
  void begin_sample(int64_t index);
  void add(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer);
  PackedAnswers finish();

 private:
  PackedAnswers packed_;
  std::vector<int64_t> lengths_, rows_ = {0};
};

// The sum over each document's tokens of this row's values, [documents] in fp64, with gradient. values_t:
// [tokens] of this context rank. Context ranks add up their shares; all get the sums, and the gradient of
// their own tokens.
Tensor sums_of_documents(const Tensor& values_t, const layout::SequenceView& view,
                         const parallel::Ranks& ranks);
// The part that a context rank returns of a loss that all of them have computed: the first one its value, the
// others nothing, and each the whole gradient.
Tensor counted_once(const Tensor& loss, const layout::SequenceView& view);

}  // namespace longhaul::posttrain
