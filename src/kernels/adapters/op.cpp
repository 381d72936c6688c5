#include "kernels/adapters/op.h"

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/linear/raw.h"

namespace longhaul::kernels {
namespace {

void check(const Tensor& x, const LinearWeights& base, const LinearWeights& down,
           const std::vector<AdapterUp>& ups) {
  LONGHAUL_ASSERT(!base.sinks.wanted(), "the weight beside adapters is frozen");
  if (down.weight.dim() != 2 || down.weight.size(1) != x.size(1))
    refuse_argument("adapted_linear", "down", "[ranks, in] for x " + shape_text(x), shape_text(down.weight));
  for (const AdapterUp& up : ups) {
    const Tensor& weight = up.weights.weight;
    const bool fits = weight.dim() == 2 && up.first_rank + weight.size(1) <= down.weight.size(0) &&
                      up.first_column + weight.size(0) <= base.weight.size(0);
    if (!fits)
      refuse_argument("adapted_linear", "up", "rows of y and columns of down's ranks", shape_text(weight));
  }
}

// An adapter without its matrix, which autograd keeps.
struct Place {
  int64_t first_column, first_rank;
  GradientSink sink;
  KeptPacked kept;
};

// dB += dyᵀ z for each adapter, and the gradient of x Aᵀ.
Tensor up_gradients(const Tensor& dy, const Tensor& z, const std::vector<Tensor>& matrices,
                    const std::vector<Place>& places, double scale) {
  Tensor dz = at::zeros_like(z);
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& up = places[i];
    const int64_t rank = matrices[i].size(1);
    const Tensor own = dy.narrow(1, up.first_column, matrices[i].size(0));
    const Tensor read = z.narrow(1, up.first_rank, rank);
    up.sink.add([own, read](const Tensor& sink) { add_weight_gradient(sink, own, read); });
    dz.narrow(1, up.first_rank, rank).copy_(linear_input_gradient(own, matrices[i], up.kept).mul_(scale));
  }
  return dz;
}

}  // namespace

Tensor adapted_linear(const Tensor& x, const LinearWeights& base, const LinearWeights& down,
                      const std::vector<AdapterUp>& ups, double scale) {
  check(x, base, down, ups);
  std::vector<Tensor> inputs{x, base.weight, down.weight};
  std::vector<GradientSink> sinks{down.sinks.weight};
  std::vector<Place> places;
  for (const AdapterUp& up : ups) {
    inputs.push_back(up.weights.weight);
    sinks.push_back(up.weights.sinks.weight);
    places.push_back({up.first_column, up.first_rank, up.weights.sinks.weight, up.weights.kept});
  }
  const auto backward = [base_kept = base.kept, down_kept = down.kept, down_sink = down.sinks.weight, places,
                         scale](const BackwardCall& call) {
    const Tensor &read = call.saved[0], &z = call.saved[1], &weight = call.saved[2], &matrix = call.saved[3];
    const Tensor dy = call.gradients[0].stride(-1) == 1 ? call.gradients[0] : call.gradients[0].contiguous();
    const Tensor dz = up_gradients(dy, z, {call.saved.begin() + 4, call.saved.end()}, places, scale);
    down_sink.add([read, dz](const Tensor& sink) { add_weight_gradient(sink, dz, read); });
    std::vector<Tensor> gradients(3 + places.size());
    if (call.wanted[0]) {
      gradients[0] = linear_input_gradient(dy, weight, base_kept);
      gradients[0].add_(linear_input_gradient(dz, matrix, down_kept));
    }
    return gradients;
  };
  return differentiable("adapted_linear", inputs, [&]() -> Recorded {
    const Tensor y = linear_output(x, base.weight, base.bias, base.kept);
    const Tensor z = add_adapters(y, x, down, ups, scale);
    std::vector<Tensor> saved{x, z, base.weight, down.weight};
    for (const AdapterUp& up : ups) saved.push_back(up.weights.weight);
    return {.results = {y}, .saved = saved, .backward = backward, .sinks = sinks};
  })[0];
}

Tensor add_adapters(const Tensor& y, const Tensor& x, const LinearWeights& down,
                    const std::vector<AdapterUp>& ups, double scale) {
  const at::NoGradGuard no_gradient;
  const Tensor z = linear_output(x, down.weight, {}, down.kept).mul_(scale);
  for (const AdapterUp& up : ups) {
    const Tensor& weight = up.weights.weight;
    y.narrow(1, up.first_column, weight.size(0))
        .add_(linear_output(z.narrow(1, up.first_rank, weight.size(1)), weight, {}, up.weights.kept));
  }
  return z;
}

Tensor merged_weight(const Tensor& weight, const Tensor& down, const std::vector<AdapterUp>& ups,
                     double scale) {
  const at::NoGradGuard no_gradient;
  const ScalarType wide = weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Tensor merged = weight.to(wide, /*non_blocking=*/false, /*copy=*/true);
  for (const AdapterUp& up : ups) {
    const Tensor& matrix = up.weights.weight;
    merged.narrow(0, up.first_column, matrix.size(0))
        .addmm_(matrix.to(wide), down.narrow(0, up.first_rank, matrix.size(1)).to(wide), 1, scale);
  }
  return merged;
}

}  // namespace longhaul::kernels
