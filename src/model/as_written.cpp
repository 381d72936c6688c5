#include "model/as_written.h"

#include <ATen/core/grad_mode.h>

#include <numeric>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "model/module.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {
namespace {

// What an engine read of the documents in one of its passes: pass 0 reads beginnings, each later one a token.
struct WrittenPart {
  std::vector<int64_t> tokens, lengths, firsts, rows;

  WrittenPart(const layout::SequenceLayout& all, const Written& written, int64_t pass) {
    for (int64_t d = 0; d < all.documents(); ++d) {
      const layout::Range document = all.document(d);
      const int64_t at_once = written.at_once[static_cast<size_t>(d)],
                    first = pass == 0 ? 0 : at_once + pass - 1, length = pass == 0 ? at_once : 1;
      LONGHAUL_ASSERT(at_once > 0 && at_once <= document.length, "{} of {} tokens", at_once, document.length);
      if (first >= document.length) continue;
      for (int64_t t = 0; t < length; ++t) tokens.push_back(document.begin + first + t);
      lengths.push_back(length);
      firsts.push_back(first);
      rows.push_back(d);
    }
  }
};

Tensor with_values_of(const Tensor& trained, const Tensor& values) {
  return kernels::differentiable("as_written", {trained}, [&]() -> kernels::Recorded {
    return {.results = {values}, .backward = [](const kernels::BackwardCall& call) {
              return std::vector<Tensor>{call.gradients[0]};
            }};
  })[0];
}

}  // namespace

Tensor as_written(const Context& context, SequenceMixer& mixer,
                  const std::vector<recipe::MixerStateTensor>& tensors, const Tensor& hidden,
                  const Tensor& trained, const layout::SequenceView& view) {
  const layout::SequenceLayout& all = view.layout;
  const Written& written = *context.written;
  LONGHAUL_ASSERT(std::ssize(written.at_once) == all.documents() && context.ops.tensor_ranks() == 1 &&
                      view.share.context_ranks == 1,
                  "documents that this rank has whole");
  Tensor values;
  {
    const at::NoGradGuard no_gradient;
    values = at::empty(trained.sizes(), trained.options().requires_grad(false));
    MixerState state(tensors, context.precision, hidden.device(), 1);
    state.grow(all.documents());
    for (int64_t d = 0; d < all.documents(); ++d) state.clear(d);
    for (int64_t pass = 0;; ++pass) {
      const WrittenPart part(all, written, pass);
      if (part.tokens.empty()) break;
      Context decoding(context.ops, context.precision);
      decoding.training = false;
      const MixerRows rows{state, part.rows};
      const Tensor index = to_tensor(part.tokens, hidden.device());
      const layout::SequenceView of_part(layout::make_packed(part.lengths, part.firsts), view.share);
      values.index_copy_(0, index, mixer.forward(decoding, hidden.index_select(0, index), of_part, &rows));
    }
  }
  return with_values_of(trained, values);
}

}  // namespace longhaul::model
