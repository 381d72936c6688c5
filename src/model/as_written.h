// Text as it was written: the documents of a training pass that an engine has written before, with the bits
// that it had. The engine read the beginning of each document at once and the rest token by token, from a
// state; the trainer reads all of it in blocks, and so adds up in another order. What stands between the
// sequence mixers (norms, products, experts, the head) has one order for a row, whatever stands beside it. So
// it is enough that each sequence mixer has the values of decoding, which it makes once more, from the input
// that the pass has there; the gradient is that of the operators of training.
//
//   context.written = std::make_shared<const Written>(Written{.at_once = {20, 14}});   // two documents
//
// On the CPU in bf16 and fp32, where tensor and context ranks do not share the tokens
// (docs/design/decoding.md).
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/mixers.h"
#include "tensor/tensor.h"

namespace longhaul::layout {
struct SequenceView;
}

namespace longhaul::model {

struct Context;
class SequenceMixer;

struct Written {
  std::vector<int64_t> at_once;  // by document: so many first tokens; at least one
};

// Values of `trained_td`, the mixer's result for hidden_td [own tokens, hidden], replaced by those of
// decoding. `state`: what the mixer keeps of a sequence. A pass of one token of every document for each token
// that was written, without a gradient.
Tensor as_written(const Context& context, SequenceMixer& mixer,
                  const std::vector<recipe::MixerStateTensor>& state, const Tensor& hidden_td,
                  const Tensor& trained_td, const layout::SequenceView& view);

}  // namespace longhaul::model
