#include "bench/random_tokens.h"

#include "base/random.h"

namespace longhaul::bench {

RandomTokens::RandomTokens(const RandomTokensRequest& request, const recipe::ModelConfig& config, const parallel::Ranks& ranks)
    : layout_(layout::make_batch(request.micro_batch, request.sequence)),
      decoder_(config, Precision::named(request.dtype), at::kCPU, model::Use::kTraining, ranks.place()),
      stage_(decoder_, ranks) {
  const int64_t own = request.batch / request.micro_batch / ranks.replicas(), first = own * ranks.replica(), tokens = layout_.tokens();
  const RandomStream random(0, "bench/elastic/tokens");
  for (int64_t m = first; m < first + own; ++m) {
    std::vector<int64_t>& ids = ids_.emplace_back(static_cast<size_t>(tokens));
    for (int64_t t = 0; t < tokens; ++t) {
      ids[static_cast<size_t>(t)] =
          static_cast<int64_t>(random.below(static_cast<uint64_t>(m * tokens + t), static_cast<uint64_t>(config.vocabulary)));
    }
    labels_.push_back(layout::shifted_labels(layout_, ids));
  }
  decoder_.parameters().initialise(0);
}

train::StepWork RandomTokens::prepare(int64_t /*step*/) {
  const auto own = static_cast<int64_t>(ids_.size());
  return {own, static_cast<double>(own * (layout_.tokens() - layout_.documents())), own * layout_.tokens()};
}

Tensor RandomTokens::forward(model::Context& context, int64_t micro_batch, const Tensor& entering) {
  const auto m = static_cast<size_t>(micro_batch);
  return stage_.forward(context, {layout_, ids_[m], labels_[m]}, entering);
}

}  // namespace longhaul::bench
