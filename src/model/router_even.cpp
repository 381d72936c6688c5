#include "model/router_even.h"

#include <algorithm>
#include <vector>

#include "model/router_jitter.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

Tensor judged_at_random(const Tensor& logits, const RandomStream& stream, const layout::SequenceView& view, int64_t first_sequence) {
  const at::NoGradGuard no_gradient;
  return jittered(at::ones(logits.sizes(), logits.options().dtype(at::kDouble).requires_grad(false)), 1, stream, view, first_sequence);
}

Tensor judged_in_turn(const Tensor& logits, int64_t per_token, const layout::SequenceView& view) {
  const int64_t experts = logits.size(1);
  const auto options = logits.options().dtype(at::kDouble).requires_grad(false);
  if (logits.is_meta()) return at::empty(logits.sizes(), options);
  const std::vector<int64_t>& offsets = view.layout.row_offsets;
  std::vector<int64_t> first;
  for (int64_t i = view.own.begin; i < view.own.end(); ++i) {
    const int64_t token = view.token_index[static_cast<size_t>(i)];
    const int64_t begin = offsets.size() < 2 ? 0 : *(std::upper_bound(offsets.begin(), offsets.end(), token) - 1);
    first.push_back((token - begin) * per_token % experts);
  }
  const Tensor expert = at::arange(experts, options);
  return expert.unsqueeze(0).sub(to_tensor(first, logits.device()).to(at::kDouble).unsqueeze(1)).remainder(experts).neg();
}

}  // namespace longhaul::model
