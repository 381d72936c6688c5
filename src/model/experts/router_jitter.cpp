#include "model/experts/router_jitter.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/threads/parallel.h"
#include "kernels/differentiable.h"
#include "kernels/vector/tensors.h"
#include "tensor/device.h"

namespace longhaul::model {
namespace {

constexpr int64_t kNumbersOfBlock = 4;  // 32 bits of each
constexpr int kSequenceBits = 40;

// [tokens, hidden], of the type and on the device of `like`.
Tensor factors_of(const Tensor& like, double jitter, const RandomStream& stream,
                  const std::vector<uint64_t>& first_block) {
  const int64_t tokens = like.size(0), hidden = like.size(1);
  const Tensor factors = at::empty({tokens, hidden}, at::kDouble);
  double* const out = factors.mutable_data_ptr<double>();
  parallel_for(0, tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t c = 0; c < hidden; c += kNumbersOfBlock) {
        const auto words =
            stream.block(first_block[static_cast<size_t>(t)] + static_cast<uint64_t>(c / kNumbersOfBlock));
        for (int64_t i = 0; i < std::min(kNumbersOfBlock, hidden - c); ++i)
          out[t * hidden + c + i] =
              1 + jitter * (0x1p-31 * static_cast<double>(words[static_cast<size_t>(i)]) - 1);
      }
    }
  });
  return to_device(factors.to(like.scalar_type()), like.device());
}

}  // namespace

std::vector<uint64_t> first_blocks_of_tokens(const layout::SequenceView& view, int64_t blocks,
                                             int64_t first_sequence) {
  const std::vector<int64_t>& offsets = view.layout.row_offsets;
  std::vector<uint64_t> first;
  for (int64_t i = view.own.begin; i < view.own.end(); ++i) {
    const int64_t token = view.token_index[static_cast<size_t>(i)];
    const auto next =
        offsets.size() < 2 ? offsets.begin() : std::upper_bound(offsets.begin(), offsets.end(), token);
    const int64_t sequence = offsets.size() < 2 ? 0 : next - offsets.begin() - 1;
    const int64_t in_sequence = token - (offsets.size() < 2 ? 0 : *(next - 1));
    first.push_back((static_cast<uint64_t>(first_sequence + sequence) << kSequenceBits) +
                    static_cast<uint64_t>(in_sequence * blocks));
  }
  return first;
}

Tensor jittered(const Tensor& hidden, double jitter, const RandomStream& stream,
                const layout::SequenceView& view, int64_t first_sequence) {
  const ScalarType wide = kernels::wide_type(hidden);
  const int64_t blocks = (hidden.size(1) + kNumbersOfBlock - 1) / kNumbersOfBlock;
  const auto first =
      std::make_shared<const std::vector<uint64_t>>(first_blocks_of_tokens(view, blocks, first_sequence));
  return kernels::differentiable("router_jitter", {hidden}, [&]() -> kernels::Recorded {
    const auto make = [wide, jitter, stream, first](const std::vector<Tensor>& from) {
      const Tensor x = from[0].to(wide);
      return x.is_meta() ? at::empty_like(x) : x.mul(factors_of(x, jitter, stream, *first));
    };
    const Tensor made = make({hidden});
    return {
        .results = {made},
        .backward =
            [type = hidden.scalar_type(), jitter, stream, first](const kernels::BackwardCall& call) {
              const Tensor& gradient = call.gradients[0];
              if (gradient.is_meta())
                return std::vector<Tensor>{at::empty_like(gradient, gradient.options().dtype(type))};
              return std::vector<Tensor>{gradient.mul(factors_of(gradient, jitter, stream, *first)).to(type)};
            },
        .cheap = {{made, {hidden}, make}}};
  })[0];
}

}  // namespace longhaul::model
