#include "model/experts/router_forced.h"

#include <algorithm>
#include <vector>

#include "base/threads/parallel.h"
#include "model/experts/router_jitter.h"
#include "tensor/device.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

Tensor judged_at_random(const Tensor& logits, const RandomStream& stream, const layout::SequenceView& view,
                        int64_t first_sequence) {
  const at::NoGradGuard no_gradient;
  return jittered(at::ones(logits.sizes(), logits.options().dtype(at::kDouble).requires_grad(false)), 1,
                  stream, view, first_sequence);
}

Tensor judged_in_turn(const Tensor& logits, int64_t per_token, const layout::SequenceView& view) {
  const int64_t experts = logits.size(1);
  const auto options = logits.options().dtype(at::kDouble).requires_grad(false);
  if (logits.is_meta()) return at::empty(logits.sizes(), options);
  const std::vector<int64_t>& offsets = view.layout.row_offsets;
  std::vector<int64_t> first;
  for (int64_t i = view.own.begin; i < view.own.end(); ++i) {
    const int64_t token = view.token_index[static_cast<size_t>(i)];
    const int64_t begin =
        offsets.size() < 2 ? 0 : *(std::upper_bound(offsets.begin(), offsets.end(), token) - 1);
    first.push_back((token - begin) * per_token % experts);
  }
  const Tensor expert = at::arange(experts, options);
  return expert.unsqueeze(0)
      .sub(to_tensor(first, logits.device()).to(at::kDouble).unsqueeze(1))
      .remainder(experts)
      .neg();
}

Tensor judged_with_biases(const Tensor& logits, const RandomStream& stream, const RandomStream& biases,
                          double std, const layout::SequenceView& view, int64_t first_sequence) {
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  const auto options = logits.options().dtype(at::kDouble).requires_grad(false);
  if (logits.is_meta()) return at::empty(logits.sizes(), options);
  std::vector<double> bias;
  for (int64_t e = 0; e < experts; ++e) bias.push_back(std * biases.normal(static_cast<uint64_t>(e)));
  const std::vector<uint64_t> first = first_blocks_of_tokens(view, experts, first_sequence);
  const Tensor judged = at::empty({tokens, experts}, at::kDouble);
  auto* const out = judged.mutable_data_ptr<double>();
  parallel_for(0, tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t e = 0; e < experts; ++e)
        out[t * experts + e] = stream.normal(first[static_cast<size_t>(t)] + static_cast<uint64_t>(e)) +
                               bias[static_cast<size_t>(e)];
    }
  });
  return to_device(judged, logits.device());
}

}  // namespace longhaul::model
