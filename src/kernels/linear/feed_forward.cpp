#include "kernels/linear/feed_forward.h"

#include <fmt/format.h>

#include "kernels/activation/loops.h"
#include "kernels/activation/op.h"
#include "kernels/cuda/calls.h"
#include "kernels/differentiable.h"
#include "kernels/dispatch.h"
#include "kernels/documents.h"
#include "kernels/linear/raw.h"
#include "kernels/linear/swiglu_epilogue.h"
#include "kernels/matmul/matmul.h"
#include "kernels/operator_clock.h"
#include "kernels/saved/recomputed.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

const void* from_column(const Tensor& vector, int64_t column) {
  return vector.defined()
             ? static_cast<const std::byte*>(vector.const_data_ptr()) + column * vector.element_size()
             : nullptr;
}

// Of the product that gives z: writes a = act(z).
Epilogue activation_of(Activation activation, const Tensor& gelu_bias, const Tensor& a, bool keeps_z) {
  const Storage storage = storage_of(a);
  if (activation == Activation::kGelu) {
    return {.run =
                [storage, gelu_bias, to = Places(a)](const OutputBlock& block) {
                  bias_gelu_forward_rows({.storage = storage,
                                          .columns = block.columns,
                                          .x = block.y,
                                          .bias_c = from_column(gelu_bias, block.column),
                                          .ld_x = block.ldy,
                                          .y = to.at(block.row, block.column),
                                          .ld_y = to.ld()},
                                         0, block.rows);
                },
            .keeps = keeps_z};
  }
  return swiglu_into(a, keeps_z);
}

// Of the product that gives da, the gradient of a: writes dz = da · act'(z).
Epilogue slope_of(Activation activation, const Tensor& gelu_bias, const Tensor& z, const Tensor& dz) {
  const Storage storage = storage_of(z);
  if (activation == Activation::kGelu) {
    return {.run =
                [storage, gelu_bias, from = Places(z), to = Places(dz)](const OutputBlock& block) {
                  bias_gelu_backward_rows({.storage = storage,
                                           .columns = block.columns,
                                           .x = from.at(block.row, block.column),
                                           .bias_c = from_column(gelu_bias, block.column),
                                           .ld_x = from.ld(),
                                           .dy = block.y,
                                           .ld_y = block.ldy,
                                           .dx = to.at(block.row, block.column)},
                                          0, block.rows, nullptr);
                },
            .keeps = false};
  }
  return {.run =
              [storage, half = z.size(1) / 2, from = Places(z), to = Places(dz)](const OutputBlock& block) {
                swiglu_backward_rows({.storage = storage,
                                      .width = block.columns,
                                      .gate = from.at(block.row, block.column),
                                      .up = from.at(block.row, half + block.column),
                                      .ld_x = from.ld(),
                                      .dy = block.y,
                                      .ld_y = block.ldy,
                                      .d_gate = to.at(block.row, block.column),
                                      .d_up = to.at(block.row, half + block.column)},
                                     0, block.rows);
              },
          .keeps = false};
}

struct Call {
  Activation activation;
  std::vector<int64_t> rows_per_group;
  LinearWeights up, down;

  // gelu adds the first bias itself, so that z and its bias are rounded as without the epilogue.
  Tensor gelu_bias() const { return activation == Activation::kGelu ? up.bias : Tensor(); }
  Tensor product_bias() const { return activation == Activation::kGelu ? Tensor() : up.bias; }
};

GradientSink bias_sink(const LinearWeights& weights) {
  return weights.bias.defined() ? weights.sinks.bias : GradientSink();
}

// sink += dyᵀ x, now or later, where the weight's gradient is wanted.
void add_gradients(const LinearWeights& weights, const std::vector<int64_t>& rows, const Tensor& dy,
                   const Tensor& x) {
  const GradientSink &sink = weights.sinks.weight, bias = bias_sink(weights);
  if (!sink.wanted()) return;
  GradientSink::add_together(sink, bias, [to = sink.buffer(), bias_to = bias.buffer(), rows, dy, x] {
    count_product(x, to);
    packed_weight_gradient(to, bias_to, dy, x, rows);
  });
}

struct Made {
  Tensor y, z, a;  // z: nobody writes it where no gradient is wanted
};

Tensor activated(const Tensor& z, const Call& call) {
  return call.activation == Activation::kSwiglu ? swiglu(z) : bias_gelu(z, call.gelu_bias(), {});
}

Made fused(const Tensor& x, const Call& call, bool want_gradient) {
  const std::vector<int64_t>& rows = call.rows_per_group;
  const Tensor &up = call.up.weight, &down = call.down.weight;
  count_product(x, up);
  count_product(x, down);
  const Tensor a = at::empty({x.size(0), down.size(-1)}, x.options().requires_grad(false));
  const Tensor z = packed_output(x, rows, up, call.product_bias(), *call.up.kept.copies, call.up.kept.version,
                                 activation_of(call.activation, call.gelu_bias(), a, want_gradient));
  return {packed_output(a, rows, down, call.down.bias, *call.down.kept.copies, call.down.kept.version), z, a};
}

// In a layer that runs again, y and z of the first rows may be there; a, which is cheap, is made of z.
Made fused_rows(const Tensor& x, const Call& call) {
  Tensor a;
  const std::vector<Tensor> made = rows_once(x.size(0), /*exact=*/true, [&](int64_t begin) {
    Call of_rows = call;
    of_rows.rows_per_group = rows_behind(call.rows_per_group, begin);
    const Made rest = fused(x.narrow(0, begin, x.size(0) - begin), of_rows, /*want_gradient=*/true);
    a = rest.a;
    return std::vector<Tensor>{rest.y, rest.z};
  });
  const int64_t found = x.size(0) - (a.defined() ? a.size(0) : 0);
  if (found == 0) return {made[0], made[1], a};
  const Tensor first = activated(made[1].narrow(0, 0, found), call);
  return {made[0], made[1], a.defined() ? at::cat({first, a}) : first};
}

// Of x, if wanted; the weights' own are added to their sinks.
Tensor fused_gradient(const BackwardCall& back, const Call& call) {
  const Tensor &x = back.saved[0], &z = back.saved[1], &a = back.saved[2], &up = back.saved[3],
               &down = back.saved[4];
  const std::vector<int64_t>& rows = call.rows_per_group;
  const Tensor dy = back.gradients[0].stride(-1) == 1 ? back.gradients[0] : back.gradients[0].contiguous(),
               dz = at::empty_like(z);
  count_product(dy, down);
  if (back.wanted[0]) count_product(dy, up);
  add_gradients(call.down, rows, dy, a);
  packed_input_gradient(dy, rows, down, *call.down.kept.copies, call.down.kept.version,
                        slope_of(call.activation, call.gelu_bias(), z, dz));
  add_gradients(call.up, rows, dz, x);
  return back.wanted[0] ? packed_input_gradient(dz, rows, up, *call.up.kept.copies, call.up.kept.version)
                        : Tensor();
}

Refusal refuse_gradients(const LinearWeights& weights, const Tensor& x) {
  const GradientSink& sink = weights.sinks.weight;
  if (sink.wanted()) return refuse_packed_weight_gradient(sink.buffer(), bias_sink(weights).buffer(), x, x);
  return bias_sink(weights).wanted() ? "a bias trains without its weight" : "";
}

Refusal refuse_fused(const Tensor& x, const Call& call, bool want_gradient) {
  if (refuse_cuda(x).empty()) return "the CUDA kernels take the parts";
  for (const LinearWeights* weights : {&call.up, &call.down}) {
    Refusal refusal = refuse_packed(x, weights->weight, weights->kept.copies);
    if (refusal.empty() && want_gradient) refusal = refuse_gradients(*weights, x);
    if (!refusal.empty()) return refusal;
  }
  if (call.activation == Activation::kSwiglu && call.down.weight.size(-1) % kPanelColumns != 0)
    return "gate and up share a panel of columns";
  return "";
}

Tensor composed(const Tensor& x, const Call& call) {
  const LinearWeights &up = call.up, &down = call.down;
  if (up.weight.dim() == 3) {
    const Tensor z = grouped_linear(x, call.rows_per_group, up.weight, up.sinks.weight, up.kept);
    const Tensor a = call.activation == Activation::kSwiglu ? swiglu(z) : bias_gelu(z, Tensor(), {});
    return grouped_linear(a, call.rows_per_group, down.weight, down.sinks.weight, down.kept);
  }
  const LinearSinks of_product{up.sinks.weight,
                               call.product_bias().defined() ? up.sinks.bias : GradientSink()};
  const Tensor z = linear(x, up.weight, call.product_bias(), of_product, up.kept);
  const Tensor a = call.activation == Activation::kSwiglu ? swiglu(z) : bias_gelu(z, up.bias, up.sinks.bias);
  return linear(a, down.weight, down.bias, down.sinks, down.kept);
}

constexpr std::string_view kForms[] = {"fused", "composed"};
constexpr Dispatcher kFeedForward("feed_forward", kForms),
    kGroupedFeedForward("grouped_feed_forward", kForms);

Tensor dispatched(const Dispatcher& dispatcher, const Tensor& x, const Call& call) {
  const auto trains = [](const LinearWeights& weights) {
    return weights.weight.requires_grad() || (weights.bias.defined() && weights.bias.requires_grad());
  };
  const bool want_gradient =
      at::GradMode::is_enabled() && (x.requires_grad() || trains(call.up) || trains(call.down));
  const size_t choice =
      dispatcher.choose([&](size_t i) { return i == 0 ? refuse_fused(x, call, want_gradient) : Refusal(); });
  if (choice == 1) return composed(x, call);
  return differentiable("feed_forward", {x, call.up.weight, call.down.weight}, [&]() -> Recorded {
    if (!want_gradient) return {.results = {fused(x, call, false).y}};
    const Made made = fused_rows(x, call);
    return {.results = {made.y},
            .saved = {x, made.z, made.a, call.up.weight, call.down.weight},
            .backward =
                [call](const BackwardCall& back) {
                  return std::vector<Tensor>{fused_gradient(back, call), Tensor(), Tensor()};
                },
            .sinks = {call.up.sinks.weight, bias_sink(call.up), call.down.sinks.weight, bias_sink(call.down)},
            .cheap = {{made.a,
                       {made.z, call.gelu_bias()},
                       [swiglu = call.activation == Activation::kSwiglu](const std::vector<Tensor>& from) {
                         return swiglu ? kernels::swiglu(from[0]) : bias_gelu(from[0], from[1], {});
                       }}}};
  })[0];
}

void check(const char* op, int64_t dimensions, const Tensor& x, Activation activation,
           const LinearWeights& up, const LinearWeights& down) {
  const int64_t parts = activation == Activation::kSwiglu ? 2 : 1;
  const auto refuse_weight = [&](const char* name, const std::string& expected, const Tensor& weight) {
    refuse_argument(op, name, expected, shape_text(weight));
  };
  if (up.weight.dim() != dimensions || x.dim() != 2 || up.weight.size(-1) != x.size(1) ||
      up.weight.scalar_type() != x.scalar_type()) {
    refuse_weight("up",
                  fmt::format("{}, in] for x {}", dimensions == 3 ? "[experts, out" : "[out", shape_text(x)),
                  up.weight);
  }
  if (down.weight.dim() != dimensions || down.weight.size(-1) * parts != up.weight.size(-2) ||
      down.weight.scalar_type() != x.scalar_type() ||
      (dimensions == 3 && down.weight.size(0) != up.weight.size(0))) {
    refuse_weight("down",
                  fmt::format("[…, out, {} of up's columns] for up {}", parts == 2 ? "half" : "all",
                              shape_text(up.weight)),
                  down.weight);
  }
  for (const LinearWeights* weights : {&up, &down}) {
    if (!weights->bias.defined()) continue;
    if (dimensions == 3 || weights->bias.sizes() != at::IntArrayRef({weights->weight.size(0)}) ||
        weights->bias.scalar_type() != x.scalar_type()) {
      refuse_weight("bias", dimensions == 3 ? "none" : "[out] for a weight " + shape_text(weights->weight),
                    weights->bias);
    }
  }
}

Call call_of(Activation activation, std::vector<int64_t> rows, const LinearWeights& up,
             const LinearWeights& down) {
  Call call{activation, std::move(rows), up, down};
  for (LinearWeights* weights : {&call.up, &call.down}) {
    if (weights->bias.defined()) weights->bias = weights->bias.contiguous();
  }
  return call;
}

}  // namespace

Tensor feed_forward(const Tensor& x, Activation activation, const LinearWeights& up,
                    const LinearWeights& down) {
  check("feed_forward", 2, x, activation, up, down);
  return dispatched(kFeedForward, x, call_of(activation, {x.size(0)}, up, down));
}

Tensor grouped_feed_forward(const Tensor& x, const std::vector<int64_t>& rows_per_expert,
                            Activation activation, const LinearWeights& up, const LinearWeights& down) {
  check("grouped_feed_forward", 3, x, activation, up, down);
  int64_t rows = 0;
  for (const int64_t count : rows_per_expert) rows += count;
  if (up.weight.size(0) != static_cast<int64_t>(rows_per_expert.size()) || x.size(0) != rows) {
    refuse_argument("grouped_feed_forward", "rows_per_expert",
                    fmt::format("{} numbers whose sum is {}", up.weight.size(0), x.size(0)),
                    fmt::format("{} numbers, sum {}", rows_per_expert.size(), rows));
  }
  return dispatched(kGroupedFeedForward, x, call_of(activation, rows_per_expert, up, down));
}

}  // namespace longhaul::kernels
