#include "kernels/linear_cross_entropy/raw.h"

#include <cmath>
#include <memory>
#include <utility>

#include "kernels/by_device.h"
#include "kernels/documents.h"
#include "kernels/linear_cross_entropy/cuda_call.h"
#include "kernels/linear_cross_entropy/problem.h"
#include "kernels/operator_clock.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kTokenLogits = "token_logits";
enum TokenLogitsBy : size_t { kCuda, kFused, kMeta, kAten, kReference };

CrossEntropyProblem problem_of(const TokenLogitsInputs& in) {
  check_cross_entropy(in.hidden_td, in.weight_vd, in.labels_t, {.chunk = in.chunk});
  CrossEntropyProblem problem{
      in.hidden_td.contiguous(), in.weight_vd.contiguous(), in.labels_t.contiguous(), {.chunk = in.chunk}};
  // a copy of it, made for this call, is not what was packed
  if (in.weight_vd.is_contiguous()) problem.kept = in.kept;
  if (in.chunk == 0) problem.options.chunk = head_chunk(in.hidden_td, in.weight_vd.size(0));
  problem.all_labelled = false;
  if (!(in.temperature > 0) || !std::isfinite(in.temperature))
    refuse_argument(kTokenLogits, "temperature", "a number above 0", std::to_string(in.temperature));
  problem.logit_scale = 1 / in.temperature;
  return problem;
}

size_t choose(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  static constexpr std::string_view kNames[] = {"cuda", "fused", "meta", "aten", "reference"};
  return Dispatcher(kTokenLogits, kNames).choose([&](size_t i) -> Refusal {
    if (i == kCuda) return refuse_cross_entropy_cuda(problem, gradients);
    if (i == kFused) return refuse_cross_entropy_fused(problem, gradients);
    if (i == kMeta) return problem.hidden_td.is_meta() ? Refusal() : kNotMeta;
    return i == kReference && !problem.hidden_td.is_cpu() ? kNotOnCpu : Refusal();
  });
}

void check_each(const char* argument, const Tensor& x, const CrossEntropyProblem& problem) {
  if (x.sizes() == problem.labels_t.sizes() && x.scalar_type() == problem.sum_type() &&
      x.device() == problem.hidden_td.device())
    return;
  refuse_argument(kTokenLogits, argument,
                  "[" + std::to_string(problem.tokens()) + "] " + std::string(name_of(problem.sum_type())),
                  shape_text(x));
}

}  // namespace

TokenLogits token_logits(const TokenLogitsInputs& in, bool with_entropy) {
  const at::NoGradGuard no_gradient;
  const CrossEntropyProblem problem = problem_of(in);
  const auto each = in.hidden_td.options().dtype(problem.sum_type()).requires_grad(false);
  const auto made = [&] { return at::empty({problem.tokens()}, each); };
  count_product(problem.hidden_td, problem.weight_vd);
  const TokenLogits result{made(), made(), with_entropy ? made() : Tensor()};
  switch (choose(problem, {})) {
    case kCuda:
      cuda_calls<CrossEntropyCuda>().token_logits(problem, result);
      break;
    case kFused:
      token_logits_fused(problem, result);
      break;
    case kAten:
      token_logits_aten(problem, result);
      break;
    case kReference:
      token_logits_reference(problem, result);
      break;
    default:;
  }
  return result;
}

void token_logits_backward(const TokenLogitsInputs& in, const TokenLogits& of, const TokenLogits& gradients,
                           const Tensor& d_hidden, const Tensor& sink) {
  const at::NoGradGuard no_gradient;
  const CrossEntropyProblem problem = problem_of(in);
  check_each("logsumexp", of.logsumexp_t, problem);
  check_each("the gradient of logsumexp", gradients.logsumexp_t, problem);
  check_each("the gradient of the label's logit", gradients.label_t, problem);
  if (gradients.entropy_t.defined()) {
    check_each("the gradient of the entropy", gradients.entropy_t, problem);
    check_each("entropy", of.entropy_t, problem);
  }
  if (d_hidden.defined() &&
      (d_hidden.sizes() != in.hidden_td.sizes() || d_hidden.scalar_type() != in.hidden_td.scalar_type() ||
       !d_hidden.is_contiguous()))
    refuse_argument(kTokenLogits, "d_hidden", "contiguous, as hidden: " + shape_text(in.hidden_td),
                    shape_text(d_hidden));
  if (sink.defined()) check_cross_entropy_sink(sink, in.weight_vd);
  const CrossEntropyGradients into{d_hidden, sink};
  if (!into.wanted()) return;
  if (d_hidden.defined()) count_product(problem.hidden_td, problem.weight_vd);
  if (sink.defined()) count_product(problem.hidden_td, problem.weight_vd);
  const bool entropy = gradients.entropy_t.defined();
  const TokenLogitsGradient upstream{of.logsumexp_t.contiguous(),
                                     entropy ? of.entropy_t.contiguous() : Tensor(),
                                     {gradients.logsumexp_t.contiguous(), gradients.label_t.contiguous(),
                                      entropy ? gradients.entropy_t.contiguous() : Tensor()}};
  switch (choose(problem, into)) {
    case kCuda:
      return cuda_calls<CrossEntropyCuda>().token_logits_backward(problem, upstream, into);
    case kFused:
      return token_logits_backward_fused(problem, upstream, into);
    case kAten:
      return token_logits_backward_aten(problem, upstream, into);
    case kReference:
      return token_logits_backward_reference(problem, upstream, into);
    default:;
  }
}

void token_logits_backward_to_sink(const TokenLogitsInputs& in, const TokenLogits& of,
                                   const TokenLogits& gradients, const Tensor& d_hidden,
                                   const GradientSink& sink) {
  // A product that runs at once makes both; one that waits, or that nobody wants, leaves d_hidden to what
  // stands behind.
  const auto beside = std::make_shared<Tensor>(d_hidden);
  sink.add([in, of, gradients, beside](const Tensor& buffer) {
    token_logits_backward(in, of, gradients, std::exchange(*beside, Tensor()), buffer);
  });
  if (beside->defined()) token_logits_backward(in, of, gradients, std::exchange(*beside, Tensor()), Tensor());
}

}  // namespace longhaul::kernels
