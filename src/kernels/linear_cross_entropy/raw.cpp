#include "kernels/linear_cross_entropy/raw.h"

#include <memory>
#include <utility>

#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/linear_cross_entropy/problem.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kTokenLogits = "token_logits";
enum TokenLogitsBy : size_t { kFused, kMeta, kAten, kReference };

CrossEntropyProblem problem_of(const TokenLogitsInputs& in) {
  check_cross_entropy(in.hidden_td, in.weight_vd, in.labels_t, {.chunk = in.chunk});
  CrossEntropyProblem problem{in.hidden_td.contiguous(), in.weight_vd.contiguous(), in.labels_t.contiguous(), {.chunk = in.chunk}};
  if (in.weight_vd.is_contiguous()) problem.kept = in.kept;  // a copy of it, made for this call, is not what was packed
  problem.all_labelled = false;
  return problem;
}

size_t choose(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  static constexpr std::string_view kNames[] = {"fused", "meta", "aten", "reference"};
  return Dispatcher(kTokenLogits, kNames).choose([&](size_t i) -> Refusal {
    if (i == kFused) return refuse_cross_entropy_fused(problem, gradients);
    if (i == kMeta) return problem.hidden_td.is_meta() ? Refusal() : kNotMeta;
    return i == kReference && !problem.hidden_td.is_cpu() ? kNotOnCpu : Refusal();
  });
}

void check_each(const char* argument, const Tensor& x, const CrossEntropyProblem& problem) {
  if (x.sizes() == problem.labels_t.sizes() && x.scalar_type() == problem.sum_type() && x.device() == problem.hidden_td.device()) return;
  refuse_argument(kTokenLogits, argument, "[" + std::to_string(problem.tokens()) + "] " + std::string(name_of(problem.sum_type())),
                  shape_text(x));
}

}  // namespace

TokenLogits token_logits(const TokenLogitsInputs& in) {
  const at::NoGradGuard no_gradient;
  const CrossEntropyProblem problem = problem_of(in);
  const auto each = in.hidden_td.options().dtype(problem.sum_type()).requires_grad(false);
  const TokenLogits result{at::empty({problem.tokens()}, each), at::empty({problem.tokens()}, each)};
  switch (choose(problem, {})) {
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

void token_logits_backward(const TokenLogitsInputs& in, const Tensor& logsumexp, const TokenLogits& gradients, const Tensor& d_hidden,
                           const Tensor& sink) {
  const at::NoGradGuard no_gradient;
  const CrossEntropyProblem problem = problem_of(in);
  check_each("logsumexp", logsumexp, problem);
  check_each("the gradient of logsumexp", gradients.logsumexp_t, problem);
  check_each("the gradient of the label's logit", gradients.label_t, problem);
  if (d_hidden.defined() &&
      (d_hidden.sizes() != in.hidden_td.sizes() || d_hidden.scalar_type() != in.hidden_td.scalar_type() || !d_hidden.is_contiguous()))
    refuse_argument(kTokenLogits, "d_hidden", "contiguous, as hidden: " + shape_text(in.hidden_td), shape_text(d_hidden));
  if (sink.defined()) check_cross_entropy_sink(sink, in.weight_vd);
  const CrossEntropyGradients into{d_hidden, sink};
  if (!into.wanted()) return;
  const TokenLogitsGradient of{logsumexp.contiguous(), {gradients.logsumexp_t.contiguous(), gradients.label_t.contiguous()}};
  switch (choose(problem, into)) {
    case kFused:
      return token_logits_backward_fused(problem, of, into);
    case kAten:
      return token_logits_backward_aten(problem, of, into);
    case kReference:
      return token_logits_backward_reference(problem, of, into);
    default:;
  }
}

void token_logits_backward_to_sink(const TokenLogitsInputs& in, const Tensor& logsumexp, const TokenLogits& gradients,
                                   const Tensor& d_hidden, const GradientSink& sink) {
  // A product that runs at once makes both; one that waits, or that nobody wants, leaves d_hidden to what stands behind.
  const auto beside = std::make_shared<Tensor>(d_hidden);
  sink.add([in, logsumexp, gradients, beside](const Tensor& buffer) {
    token_logits_backward(in, logsumexp, gradients, std::exchange(*beside, Tensor()), buffer);
  });
  if (beside->defined()) token_logits_backward(in, logsumexp, gradients, std::exchange(*beside, Tensor()), Tensor());
}

Tensor label_log_probabilities(const TokenLogitsInputs& in, const GradientSink& sink) {
  return differentiable("label_log_probabilities", {in.hidden_td, in.weight_vd}, [&]() -> Recorded {
    const TokenLogits of = token_logits(in);
    const Tensor unlabelled = in.labels_t.lt(0);
    return {.results = {of.label_t.sub(of.logsumexp_t).masked_fill_(unlabelled, 0)},
            .saved = {in.hidden_td, in.weight_vd, in.labels_t, of.logsumexp_t},
            .backward =
                [chunk = in.chunk, kept = in.kept, unlabelled, sink](const BackwardCall& call) {
                  const TokenLogitsInputs again{call.saved[0], call.saved[1], call.saved[2], chunk, kept};
                  const Tensor d_label = call.gradients[0].masked_fill(unlabelled, 0);
                  const TokenLogits d{d_label.neg(), d_label};
                  const Tensor d_hidden = call.wanted[0] ? at::empty(again.hidden_td.sizes(), again.hidden_td.options()) : Tensor();
                  token_logits_backward_to_sink(again, call.saved[3], d, d_hidden, sink);
                  return std::vector<Tensor>{d_hidden, Tensor()};
                },
            .sinks = {sink}};
  })[0];
}

}  // namespace longhaul::kernels
