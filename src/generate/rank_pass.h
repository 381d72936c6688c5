// RankPass: a pass over a model that several ranks have together, by tensors (tp) and by layers (pp), for an
// Engine on each of them (EngineOptions::pass). Every rank gives the same tokens and gets the same logits,
// bit by bit, so that all draw the same; each keeps the state of its own heads and layers.
//
//   parallel::Ranks ranks(world, arrangement);           // the decoder was made for ranks.place()
//   const RankPass pass(decoder, ranks);
//   Engine engine(decoder, {.pass = pass.function()});   // the same requests on every rank
//
// Stages of a pipeline compute what one process computes, to the bit in bf16 and fp32, unless the residual
// has factors (DeepNorm): between stages a branch is added to it by itself, and not by the norm that follows.
// Tensor ranks add their parts of a product in another order than one process does. Calls are collective.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "generate/engine.h"
#include "parallel/ranks.h"

namespace longhaul::generate {

class RankPass {
 public:
  RankPass(model::Decoder& decoder, const parallel::Ranks& ranks);  // both must outlive it

  // Does what generate::advance does.
  Tensor advance(std::span<const Continuation> continuations, model::DecoderState& state) const;
  std::function<Tensor(std::span<const Continuation>, model::DecoderState&)> function() const {
    return [this](std::span<const Continuation> continuations, model::DecoderState& state) {
      return advance(continuations, state);
    };
  }
  // The logits [wanted, vocabulary] of these tokens of some documents; `rows`: the sequences of a state that
  // they continue, or null.
  Tensor logits(const std::vector<int64_t>& ids, const layout::SequenceLayout& layout,
                const std::vector<int64_t>& wanted, const model::DecoderRows* rows = nullptr) const;

 private:
  Tensor hidden_of_stage(model::Context& context, const std::vector<int64_t>& ids,
                         const layout::SequenceView& view, const model::DecoderRows* rows) const;
  Tensor all_logits(const Tensor& hidden_td, const layout::SequenceView& view,
                    const std::vector<int64_t>& wanted) const;

  model::Decoder& decoder_;
  const parallel::Ranks& ranks_;
  std::vector<int64_t> vocabulary_rows_;  // of the head, of each tensor rank; last stage
};

}  // namespace longhaul::generate
