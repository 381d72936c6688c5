#include "language/text_stage.h"

#include <numeric>

#include "base/error.h"
#include "parallel/collectives.h"
#include "tensor/device.h"
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

// The inputs, with id 0 where a row from outside stands: tokens below 0 are none.
std::vector<int64_t> without_rows(const PackedText& text) {
  std::vector<int64_t> inputs = text.inputs;
  for (const int64_t token : text.embedded->tokens) inputs[static_cast<size_t>(token)] = 0;
  return inputs;
}

// The modules that predict further ahead read the embedding in the last stage.
void require_rows_here(bool first_stage) {
  if (first_stage) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "modules that predict further ahead would need rows from outside in the last stage",
               .expected = "model.predict_ahead = 0, or one pipeline stage",
               .found = "rows from outside that the first stage has",
               .where = "model.predict_ahead and parallel.pp",
               .hint = "model.predict_ahead=0, or parallel.pp=1"});
}

}  // namespace

Tensor TextStage::through(model::Context& context, const PackedText& text, const Tensor& entering,
                          const layout::SequenceView& view,
                          const std::function<Tensor(Tensor)>& at_end) const {
  const bool first = decoder_.first(context), last = decoder_.last(context);
  // The host compares ids with the table's size, so they go to the device from there.
  const auto ids = [&] { return to_tensor(own_of(text.inputs, view)); };
  if (first && last) return at_end(decoder_.hidden(context, ids(), view, nullptr, text.embedded));
  // The head adds to its gradient in the forward pass. Of a pair that has both ends of the model the
  // embedding, which may be the same tensor, comes behind it, as where the forward pass runs first.
  const Tensor hidden =
      first ? parallel::last_in_turn(decoder_.embed(context, ids(), view, nullptr, text.embedded),
                                     ranks_.turns())
            : entering;
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
      const bool from_outside = text.embedded != nullptr && !text.embedded->tokens.empty();
      if (from_outside) require_rows_here(decoder_.first(context));
      const std::vector<int64_t> inputs = from_outside ? without_rows(text) : text.inputs;
      std::vector<model::TokensAhead> ahead;
      for (int64_t k = 1; k <= decoder_.config().predict_ahead; ++k) {
        ahead.push_back({own(layout::ahead_in_documents(text.layout, inputs, k)),
                         on_device(layout::ahead_in_documents(text.layout, text.labels, k)), weights(k),
                         from_outside ? text.embedded->ahead(text.layout, k) : model::EmbeddedRows()});
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
