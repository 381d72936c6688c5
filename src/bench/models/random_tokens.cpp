#include "bench/models/random_tokens.h"

#include "base/random.h"

namespace longhaul::bench {

RandomTokens::RandomTokens(const RandomTokensRequest& request, const recipe::ModelConfig& config,
                           const parallel::Ranks& ranks)
    : layout_(layout::make_batch(request.micro_batch, request.sequence)),
      own_(request.batch / request.micro_batch / ranks.replicas()),
      vocabulary_(config.vocabulary),
      decoder_(config, Precision::named(request.dtype), at::kCPU, model::Use::kTraining, ranks.place()),
      stage_(decoder_, ranks) {
  for (int64_t m = own_ * ranks.replica(); m < own_ * (ranks.replica() + 1); ++m) {
    ids_.push_back(micro_batch(m));
    labels_.push_back(layout::shifted_labels(layout_, ids_.back()));
  }
  decoder_.parameters().initialise(0);
}

std::vector<int64_t> RandomTokens::micro_batch(int64_t number) const {
  const RandomStream random(0, "bench/elastic/tokens");
  std::vector<int64_t> ids(static_cast<size_t>(layout_.tokens()));
  for (int64_t t = 0; t < layout_.tokens(); ++t) {
    ids[static_cast<size_t>(t)] = static_cast<int64_t>(random.below(
        static_cast<uint64_t>(number * layout_.tokens() + t), static_cast<uint64_t>(vocabulary_)));
  }
  return ids;
}

train::StepWork RandomTokens::prepare(int64_t /*step*/) {
  other_ids_.clear();
  return {own_, static_cast<double>(own_ * (layout_.tokens() - layout_.documents())),
          own_ * layout_.tokens()};
}

bool RandomTokens::prepare_of(int64_t /*step*/, int64_t replica) {
  other_ids_ = micro_batch(own_ * replica);
  other_labels_ = layout::shifted_labels(layout_, other_ids_);
  return true;
}

Tensor RandomTokens::forward(model::Context& context, int64_t micro_batch, const Tensor& entering) {
  const auto m = static_cast<size_t>(micro_batch);
  if (!other_ids_.empty()) return stage_.forward(context, {layout_, other_ids_, other_labels_}, entering);
  return stage_.forward(context, {layout_, ids_[m], labels_[m]}, entering);
}

}  // namespace longhaul::bench
