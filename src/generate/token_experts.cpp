#include "generate/token_experts.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "tensor/to_tensor.h"

namespace longhaul::generate {
namespace {

int64_t layer_of(const std::string& block) {
  constexpr std::string_view kBefore = "layers.";
  int64_t layer = -1;
  LONGHAUL_ASSERT(block.starts_with(kBefore), "the block {} is in no layer", block);
  std::from_chars(block.data() + kBefore.size(), block.data() + block.size(), layer);
  return layer;
}

}  // namespace

void PassExperts::read(const model::Routes& choices, const model::Routes& weights,
                       const std::vector<int64_t>& last) {
  layers_.clear();
  for (const auto& [block, choice_tk] : choices) {
    const Tensor rows = to_tensor(last, choice_tk.device());
    layers_.push_back({layer_of(block), choice_tk.index_select(0, rows).cpu().contiguous(),
                       weights.at(block).index_select(0, rows).to(at::kDouble).cpu().contiguous()});
  }
  std::ranges::sort(layers_, {}, &Layer::layer);
}

std::vector<LayerExperts> PassExperts::of(int64_t continuation) const {
  std::vector<LayerExperts> all;
  for (const auto& [layer, choice_nk, weight_nk] : layers_) {
    const int64_t k = choice_nk.size(1);
    LayerExperts experts{.layer = layer};
    for (int64_t i = 0; i < k; ++i)
      experts.chosen.emplace_back(choice_nk.const_data_ptr<int64_t>()[continuation * k + i],
                                  weight_nk.const_data_ptr<double>()[continuation * k + i]);
    all.push_back(std::move(experts));
  }
  return all;
}

}  // namespace longhaul::generate
