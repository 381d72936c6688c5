#include "language/text_stage.h"

#include <numeric>

#include "parallel/collectives.h"
#include "tensor/to_tensor.h"

namespace longhaul::language {
namespace {

// Those of this context rank.
template <class Element>
std::vector<Element> own_of(const std::vector<Element>& row, const layout::SequenceView& view) {
  if (view.share.context_ranks == 1) return row;
  std::vector<Element> own;
  own.reserve(view.token_index.size());
  for (const int64_t token : view.token_index) own.push_back(row[static_cast<size_t>(token)]);
  return own;
}

// The weights of the labels that stand so many places later in their documents; 0 where there is none.
std::vector<float> weights_ahead(const PackedText& text, int64_t places) {
  std::vector<int64_t> index(text.labels.size());
  std::iota(index.begin(), index.end(), int64_t{0});
  std::vector<float> weights;
  for (const int64_t i : layout::ahead_in_documents(text.layout, index, places)) {
    weights.push_back(i == layout::kIgnoreLabel ? 0.0f : (*text.weights)[static_cast<size_t>(i)]);
  }
  return weights;
}

// Whether all labels that count weigh 1: what such a loss needs are the labels.
bool weigh_one(const PackedText& text) {
  for (size_t i = 0; i < text.labels.size(); ++i) {
    if (text.labels[i] != layout::kIgnoreLabel && (*text.weights)[i] != 1) return false;
  }
  return true;
}

}  // namespace

Tensor TextStage::through(model::Context& context, const PackedText& text, const Tensor& entering,
                          const layout::SequenceView& view,
                          const std::function<Tensor(Tensor)>& at_end) const {
  const bool first = decoder_.first(context), last = decoder_.last(context);
  // The host compares ids with the table's size, so they go to the device from there.
  const auto ids = [&] { return to_tensor(own_of(text.inputs, view)); };
  if (first && last) return at_end(decoder_.hidden(context, ids(), view));
  // The head adds to its gradient in the forward pass. Of a pair that has both ends of the model the
  // embedding, which may be the same tensor, comes behind it, as where the forward pass runs first.
  const Tensor hidden =
      first ? parallel::last_in_turn(decoder_.embed(context, ids(), view), ranks_.turns()) : entering;
  const Tensor leaving = decoder_.layers(context, hidden, view);
  return last ? at_end(decoder_.normed(leaving)) : leaving;
}

Tensor TextStage::forward(model::Context& context, const PackedText& text, const Tensor& entering) const {
  const layout::SequenceView view = view_of(text);
  const auto own = [&](const std::vector<int64_t>& row) { return to_tensor(own_of(row, view)); };
  const auto on_device = [&](const std::vector<int64_t>& row) {
    return to_device(own(row), decoder_.device());
  };
  const bool weighed = text.weights != nullptr && !weigh_one(text);
  const auto weights = [&](int64_t places) {
    return weighed ? at::tensor(own_of(weights_ahead(text, places), view)).to(decoder_.device()) : Tensor();
  };
  return through(context, text, entering, view, [&](Tensor hidden) {
    if (context.training && decoder_.config().predict_ahead > 0) {
      std::vector<model::TokensAhead> ahead;
      for (int64_t k = 1; k <= decoder_.config().predict_ahead; ++k) {
        ahead.push_back({own(layout::ahead_in_documents(text.layout, text.inputs, k)),
                         on_device(layout::ahead_in_documents(text.layout, text.labels, k)), weights(k)});
      }
      hidden = decoder_.with_predictions(context, hidden, ahead, view);
    }
    return decoder_.loss(context, hidden, on_device(text.labels), view, weights(0));
  });
}

Tensor TextStage::forward(model::Context& context, const PackedText& text, const Tensor& entering,
                          const kernels::LogProbabilityOptions& options, const TokenLoss& loss) const {
  const layout::SequenceView view = view_of(text);
  return through(context, text, entering, view, [&](const Tensor& hidden) {
    const Tensor labels = to_tensor(own_of(text.labels, view), decoder_.device());
    return loss(decoder_.log_probabilities(context, hidden, labels, options, view), view);
  });
}

train::StageInput TextStage::input(const PackedText& text) const {
  return {{view_of(text).own.length, decoder_.config().hidden}, decoder_.precision().compute};
}

}  // namespace longhaul::language
