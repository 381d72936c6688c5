#include "kernels/linear_cross_entropy/cuda_call.h"

#include <algorithm>

#include "kernels/cuda/tensors.h"
#include "kernels/linear/wide_product.h"
#include "kernels/linear_cross_entropy/cuda.h"

namespace longhaul::kernels {
namespace {

// The logits of some tokens at a time, in memory that all chunks share.
class LogitChunks {
 public:
  LogitChunks(const CrossEntropyProblem& problem, bool gradients) : problem_(problem) {
    constexpr int64_t kUnit = 8;  // rows begin at 16-byte addresses, also those of the gradients
    const int64_t rows = std::min(problem.options.chunk, problem.tokens()),
                  stride = (problem.vocabulary() + kUnit - 1) / kUnit * kUnit;
    logits_ = cuda::fp32_like(problem.hidden_td, {rows, stride});
    if (gradients) d_logits_ = at::empty({rows, stride}, problem.hidden_td.options().requires_grad(false));
  }

  // with(first token, rows of logits, room for their gradients), then the products that use the latter.
  template <class With>
  void for_each(const CrossEntropyGradients& into, const With& with) {
    for (int64_t begin = 0; begin < problem_.tokens(); begin += problem_.options.chunk) {
      const int64_t rows = std::min(problem_.options.chunk, problem_.tokens() - begin);
      const Tensor hidden = problem_.hidden_td.narrow(0, begin, rows);
      wide_product(some(logits_, rows), hidden, problem_.weight_vd.t());
      with(begin,
           cuda::LogitRows{.rows = rows,
                           .vocabulary = problem_.vocabulary(),
                           .stride = logits_.size(1),
                           .logits = cuda::fp32(logits_),
                           .labels = problem_.labels_t.const_data_ptr<int64_t>() + begin},
           cuda::bf16_out(d_logits_));
      if (into.hidden_td.defined()) {
        Tensor d_hidden = into.hidden_td.narrow(0, begin, rows);
        at::mm_out(d_hidden, some(d_logits_, rows), problem_.weight_vd);
      }
      if (into.sink_vd.defined()) add_wide_product(into.sink_vd, some(d_logits_, rows).t(), hidden);
    }
  }

 private:
  Tensor some(const Tensor& all, int64_t rows) const {
    return all.narrow(0, 0, rows).narrow(1, 0, problem_.vocabulary());
  }

  const CrossEntropyProblem& problem_;
  Tensor logits_, d_logits_;
};

Tensor run(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  const cuda::OnDevice device(problem.hidden_td);
  const Tensor loss = cuda::fp32_like(problem.hidden_td, {problem.tokens()});
  LogitChunks(problem, gradients.wanted())
      .for_each(gradients, [&](int64_t begin, const cuda::LogitRows& rows, cuda::Bf16* d_logits) {
        cuda::loss_of_rows(rows, static_cast<float>(problem.options.z_loss),
                           static_cast<float>(problem.options.upstream), cuda::fp32_out(loss) + begin,
                           d_logits, device.stream());
      });
  return loss;
}

template <class Float>
Float* from(Float* values, int64_t token) {
  return values == nullptr ? nullptr : values + token;
}

void token_logits(const CrossEntropyProblem& problem, const TokenLogits& out) {
  const cuda::OnDevice device(problem.hidden_td);
  LogitChunks(problem, /*gradients=*/false)
      .for_each({}, [&](int64_t begin, const cuda::LogitRows& rows, cuda::Bf16*) {
        cuda::terms_of_rows(rows, static_cast<float>(problem.logit_scale),
                            {cuda::fp32_out(out.logsumexp_t) + begin, cuda::fp32_out(out.label_t) + begin,
                             from(cuda::fp32_out(out.entropy_t), begin)},
                            device.stream());
      });
}

void token_logits_backward(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                           const CrossEntropyGradients& into) {
  const cuda::OnDevice device(problem.hidden_td);
  LogitChunks(problem, /*gradients=*/true)
      .for_each(into, [&](int64_t begin, const cuda::LogitRows& rows, cuda::Bf16* d_logits) {
        const auto given = [&](const Tensor& x) { return from(cuda::fp32(x), begin); };
        cuda::term_gradients_of_rows(rows, static_cast<float>(problem.logit_scale),
                                     {.logsumexp = given(of.logsumexp_t),
                                      .entropy = given(of.entropy_t),
                                      .d_logsumexp = given(of.upstream.logsumexp_t),
                                      .d_label = given(of.upstream.label_t),
                                      .d_entropy = given(of.upstream.entropy_t)},
                                     d_logits, device.stream());
      });
}

const CudaCalls<CrossEntropyCuda> registered({.run = run,
                                              .token_logits = token_logits,
                                              .token_logits_backward = token_logits_backward});

}  // namespace
}  // namespace longhaul::kernels
