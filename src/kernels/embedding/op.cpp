#include "kernels/embedding/op.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

template <class In, class Real>
void add_rows(const int64_t* ids, const In* dy, Real* sink, int64_t tokens, int64_t hidden) {
  parallel_for(0, hidden, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t < tokens; ++t) {
      Real* row = sink + ids[t] * hidden;
      const In* g = dy + t * hidden;
      for (int64_t c = begin; c < end; ++c) row[c] += static_cast<Real>(g[c]);
    }
  });
}

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& ids, const Tensor& table, const Tensor& sink) {
    context->save_for_backward({ids});
    context->saved_data["sink"] = sink;
    return table.index_select(0, ids);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Tensor ids = context->get_saved_variables()[0], dy = gradients[0].contiguous();
    Tensor sink = context->saved_data["sink"].toTensor();
    AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, dy.scalar_type(), "embedding_gradient", [&] {
      using Real = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
      add_rows(ids.const_data_ptr<int64_t>(), dy.const_data_ptr<scalar_t>(), sink.mutable_data_ptr<Real>(), dy.size(0), dy.size(1));
    });
    return {Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor embedding(const Tensor& ids, const Tensor& table, const Tensor& sink) {
  if (ids.dim() != 1 || ids.scalar_type() != at::kLong) refuse_argument("embedding", "ids", "[tokens] int64", shape_text(ids));
  if (ids.numel() > 0) {
    const int64_t smallest = ids.min().item<int64_t>(), largest = ids.max().item<int64_t>();
    if (smallest < 0 || largest >= table.size(0)) {
      throw Error({.code = ExitCode::kData,
                   .what = "a token id lies outside the model's vocabulary",
                   .expected = "0 to " + std::to_string(table.size(0) - 1),
                   .found = std::to_string(smallest < 0 ? smallest : largest),
                   .hint = "use the tokenizer that the model was trained with"});
    }
  }
  return EmbeddingFunction::apply(ids.contiguous(), table, sink);
}

}  // namespace longhaul::kernels
