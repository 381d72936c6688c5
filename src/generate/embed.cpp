#include "generate/embed.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "tensor/to_tensor.h"

namespace longhaul::generate {

Tensor mean_hidden(model::Decoder& decoder, std::span<const std::vector<int64_t>> texts) {
  const at::NoGradGuard no_gradient;
  std::vector<int64_t> ids, lengths;
  for (const std::vector<int64_t>& text : texts) {
    LONGHAUL_ASSERT(!text.empty());
    ids.insert(ids.end(), text.begin(), text.end());
    lengths.push_back(std::ssize(text));
  }
  const std::vector<int64_t> firsts(texts.size(), 0);
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  const Tensor hidden_td = decoder.hidden(context, to_tensor(ids), layout::make_packed(lengths, firsts));
  std::vector<Tensor> means;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    means.push_back(hidden_td.narrow(0, begin, length).to(at::kDouble).mean(0).to(at::kFloat));
    begin += length;
  }
  return at::stack(means).cpu().contiguous();
}

}  // namespace longhaul::generate
