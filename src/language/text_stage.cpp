#include "language/text_stage.h"

#include "parallel/collectives.h"
#include "tensor/to_tensor.h"

namespace longhaul::language {
namespace {

// Those of this context rank.
std::vector<int64_t> own_of(const std::vector<int64_t>& row, const layout::SequenceView& view) {
  if (view.share.context_ranks == 1) return row;
  std::vector<int64_t> own;
  own.reserve(view.token_index.size());
  for (const int64_t token : view.token_index) own.push_back(row[static_cast<size_t>(token)]);
  return own;
}

}  // namespace

Tensor TextStage::forward(model::Context& context, const PackedText& text, const Tensor& entering) const {
  const layout::SequenceView view = view_of(text);
  const bool first = decoder_.first(context), last = decoder_.last(context);
  const auto own = [&](const std::vector<int64_t>& row) { return to_tensor(own_of(row, view), decoder_.device()); };
  const auto loss = [&](Tensor hidden) {
    if (context.training && decoder_.config().predict_ahead > 0) {
      std::vector<model::TokensAhead> ahead;
      for (int64_t k = 1; k <= decoder_.config().predict_ahead; ++k) {
        ahead.push_back(
            {own(layout::ahead_in_documents(text.layout, text.inputs, k)), own(layout::ahead_in_documents(text.layout, text.labels, k))});
      }
      hidden = decoder_.with_predictions(context, hidden, ahead, view);
    }
    return decoder_.loss(context, hidden, own(text.labels), view);
  };
  if (first && last) return loss(decoder_.hidden(context, own(text.inputs), view));
  // The head adds to its gradient in the forward pass. Of a pair that has both ends of the model the embedding, which may be the same tensor, comes behind it,
  // as where the forward pass runs first.
  const Tensor hidden = first ? parallel::last_in_turn(decoder_.embed(context, own(text.inputs), view), ranks_.turns()) : entering;
  const Tensor leaving = decoder_.layers(context, hidden, view);
  return last ? loss(decoder_.normed(leaving)) : leaving;
}

train::StageInput TextStage::input(const PackedText& text) const {
  return {{view_of(text).own.length, decoder_.config().hidden}, decoder_.precision().compute};
}

}  // namespace longhaul::language
