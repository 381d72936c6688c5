#include "kernels/distillation/op.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/linear/raw.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

// What both passes read.
struct DistilledTokens {
  Tensor hidden_td, weight_vd, labels_t, counts_t;  // counts: of each token in the sum, 0 without a label
  KeptPacked kept;
  Distillation from;

  int64_t tokens() const { return hidden_td.size(0); }
  // body(first token, rows, logits, the frozen model's) of each chunk
  template <class Body>
  void for_each_chunk(const Body& body) const {
    for (int64_t first = 0; first < tokens(); first += from.chunk) {
      const int64_t rows = std::min(from.chunk, tokens() - first);
      const Tensor own = linear_wide(hidden_td.narrow(0, first, rows), weight_vd, kept);
      const Tensor frozen = from.logits(first, rows);
      LONGHAUL_ASSERT(frozen.sizes() == own.sizes(), "logits of another vocabulary");
      body(first, rows, own, frozen.to(own.scalar_type()));
    }
  }
};

// The loss of the chunk's tokens, and its parts.
struct ChunkSums {
  Tensor loss, cross_entropy, divergence;
};

ChunkSums sums_of_chunk(const DistilledTokens& in, int64_t first, int64_t rows, const Tensor& z,
                        const Tensor& u) {
  const Tensor label = in.labels_t.narrow(0, first, rows).clamp_min(0).unsqueeze(1);
  const double w = in.from.weight, t = in.from.temperature;
  const Tensor of_labels = z.logsumexp(1).sub(z.gather(1, label).squeeze(1));
  const Tensor log_p = u.div(t).log_softmax(1), log_q = z.div(t).log_softmax(1);
  const Tensor divergence = log_p.exp().mul(log_p.sub(log_q)).sum(1);
  const Tensor each = of_labels.mul(1 - w).add(divergence, w * t * t);
  const Tensor counts = in.counts_t.narrow(0, first, rows);
  const auto summed = [&](const Tensor& of_tokens) { return of_tokens.mul(counts).sum(at::kDouble); };
  return {summed(each), summed(of_labels), summed(divergence)};
}

Tensor logits_gradient(const DistilledTokens& in, int64_t first, int64_t rows, const Tensor& z,
                       const Tensor& u, const Tensor& of_sum) {
  const Tensor label = in.labels_t.narrow(0, first, rows).clamp_min(0).unsqueeze(1);
  const double w = in.from.weight, t = in.from.temperature;
  Tensor dz = z.softmax(1);
  dz.scatter_add_(1, label, at::full_like(label, -1, dz.options()));
  dz.mul_(1 - w).add_(z.div(t).softmax(1).sub_(u.div(t).softmax(1)), w * t);
  return dz.mul_(in.counts_t.narrow(0, first, rows).mul(of_sum).unsqueeze(1));
}

// Writes the gradient of hidden and adds that of the head; either may be undefined: not wanted.
void add_gradients_of(const DistilledTokens& in, const Tensor& of_sum, const Tensor& d_hidden,
                      const Tensor& sink) {
  in.for_each_chunk([&](int64_t first, int64_t rows, const Tensor& z, const Tensor& u) {
    const Tensor hidden = in.hidden_td.narrow(0, first, rows);
    const Tensor dz = logits_gradient(in, first, rows, z, u, of_sum).to(hidden.scalar_type());
    if (d_hidden.defined())
      d_hidden.narrow(0, first, rows).copy_(linear_input_gradient(dz, in.weight_vd, in.kept));
    if (sink.defined()) add_weight_gradient(sink, dz, hidden);
  });
}

// With the gradient of hidden, from the same logits, where the head's is added at once; where it waits, the
// logits are made again then.
void distill_to_sink(const DistilledTokens& in, const Tensor& of_sum, const Tensor& d_hidden,
                     const GradientSink& sink) {
  const auto written = std::make_shared<bool>(false);
  sink.add([=](const Tensor& buffer) {
    add_gradients_of(in, of_sum, *written ? Tensor() : d_hidden, buffer);
    *written = true;
  });
  if (!*written) add_gradients_of(in, of_sum, d_hidden, Tensor());
  *written = true;
}

}  // namespace

Tensor counts_of(const Tensor& labels, const Tensor& weight, ScalarType wide) {
  const Tensor counts = labels.ge(0).to(wide);
  return weight.defined() ? counts.mul(weight.to(wide)) : counts;
}

Distilled distillation_sum(const Tensor& hidden, const Head& head, const Tensor& labels, const Tensor& weight,
                           const Distillation& from) {
  if (hidden.dim() != 2 || head.weight_vd.dim() != 2 || hidden.size(1) != head.weight_vd.size(1))
    refuse_argument("distillation", "hidden", "[tokens, hidden] of the head", shape_text(hidden));
  const auto results = differentiable("distillation", {hidden, head.weight_vd}, [&]() -> Recorded {
    const ScalarType wide = wide_type(hidden);
    const Tensor counts = counts_of(labels, weight, wide);
    const DistilledTokens in{hidden, head.weight_vd, labels, counts, head.kept, from};
    const Tensor sums = at::zeros({3}, hidden.options().dtype(at::kDouble).requires_grad(false));
    in.for_each_chunk([&](int64_t first, int64_t rows, const Tensor& z, const Tensor& u) {
      const ChunkSums of = sums_of_chunk(in, first, rows, z, u);
      sums.add_(at::stack({of.loss, of.cross_entropy, of.divergence}));
    });
    return {.results = {sums[0].to(wide).clone(), sums[1].to(wide).clone(), sums[2].to(wide).clone()},
            .saved = {hidden, head.weight_vd, labels, counts},
            .backward =
                [from, sink = head.sink, kept = head.kept](const BackwardCall& call) {
                  const std::vector<Tensor>& saved = call.saved;
                  const DistilledTokens again{saved[0], saved[1], saved[2], saved[3], kept, from};
                  const Tensor d_hidden =
                      call.wanted[0] ? at::empty(saved[0].sizes(), saved[0].options()) : Tensor();
                  distill_to_sink(again, call.gradients[0], d_hidden, sink);
                  return std::vector<Tensor>{d_hidden, Tensor()};
                },
            .sinks = {head.sink},
            .not_recorded = {1, 2}};
  });
  return {results[0], results[1], results[2]};
}

namespace {

constexpr int64_t kRowsAtOnce = 256;  // in the wide type

// body(first row, rows, x − y of these)
template <class Body>
void for_each_difference(const Tensor& own, const Tensor& frozen, const Body& body) {
  for (int64_t first = 0; first < own.size(0); first += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, own.size(0) - first);
    const auto part = [&](const Tensor& of) { return of.narrow(0, first, rows).to(wide_type(own)); };
    body(first, rows, part(own).sub(part(frozen)));
  }
}

}  // namespace

Tensor layer_distance_sum(const Tensor& own, const Tensor& frozen, const Tensor& counts) {
  if (own.dim() != 2 || own.sizes() != frozen.sizes())
    refuse_argument("layer_distance", "frozen", shape_text(own), shape_text(frozen));
  return differentiable("layer_distance", {own}, [&]() -> Recorded {
    const auto channels = static_cast<double>(own.size(1));
    const Tensor sum = at::zeros({}, own.options().dtype(at::kDouble).requires_grad(false));
    for_each_difference(own, frozen, [&](int64_t first, int64_t rows, const Tensor& difference) {
      const Tensor each = difference.square().sum(1).mul(counts.narrow(0, first, rows));
      sum.add_(each.sum(at::kDouble), 1 / channels);
    });
    return {.results = {sum.to(wide_type(own))},
            .saved = {own},
            .backward = [frozen, counts, channels](const BackwardCall& call) {
              const Tensor& x = call.saved[0];
              const Tensor d_own = at::empty(x.sizes(), x.options().requires_grad(false));
              for_each_difference(x, frozen, [&](int64_t first, int64_t rows, Tensor difference) {
                const Tensor each = counts.narrow(0, first, rows).mul(call.gradients[0]).mul(2 / channels);
                d_own.narrow(0, first, rows).copy_(difference.mul_(each.unsqueeze(1)));
              });
              return std::vector<Tensor>{d_own};
            }};
  })[0];
}

}  // namespace longhaul::kernels
