#include "kernels/linear/op.h"

#include <algorithm>
#include <numeric>

#include "kernels/activation/cuda_call.h"
#include "kernels/differentiable.h"
#include "kernels/dispatch.h"
#include "kernels/documents.h"
#include "kernels/linear/raw.h"
#include "kernels/linear/wide_product.h"
#include "kernels/matmul/cuda_call.h"
#include "kernels/matmul/matmul.h"
#include "kernels/operator_clock.h"
#include "kernels/saved/recomputed.h"
#include "kernels/spikes/counts.h"
#include "kernels/spikes/group_weight.h"

namespace longhaul::kernels {
namespace {

enum class Product : size_t { kCuda, kPacked, kLibtorch };

constexpr std::string_view kImplementations[] = {"cuda", "packed", "libtorch"};

// Each product of a layer is a choice of its own.
struct Products {
  Dispatcher output, input_gradient, weight_gradient;
};
constexpr Products kSingle{{"linear", kImplementations},
                           {"linear_input_gradient", kImplementations},
                           {"linear_weight_gradient", kImplementations}},
    kGrouped{{"grouped_linear", kImplementations},
             {"grouped_linear_input_gradient", kImplementations},
             {"grouped_linear_weight_gradient", kImplementations}};
constexpr Dispatcher kWide("linear_wide", kImplementations);
const Products& products_of(const Tensor& weight) { return weight.dim() == 2 ? kSingle : kGrouped; }

// LibTorch takes everything.
Product choose(const Dispatcher& dispatcher, Refusal cuda, Refusal packed) {
  const Refusal refusals[] = {cuda, packed, {}};
  return static_cast<Product>(dispatcher.choose([&](size_t i) { return refusals[i]; }));
}

Refusal refuse_gpu(const Tensor& x, const Tensor& weight) {
  const Refusal refusal = refuse_cuda(x);
  if (!refusal.empty()) return refusal;
  if (weight.dim() == 2) return "a single product is left to LibTorch";
  if (!weight.is_contiguous()) return "the weight is not contiguous";
  return "";
}

Refusal refuse_gpu_weight_gradient(const Tensor& sink, const Tensor& dy, const Tensor& x) {
  if (sink.scalar_type() != at::kFloat) return "the sink is not fp32";
  if (dy.scalar_type() != x.scalar_type()) return "dtypes differ";
  return refuse_gpu(x, sink);
}

// body(expert, first row, rows) for each expert that has rows.
template <class Body>
void for_each_group(const std::vector<int64_t>& rows_per_expert, const Body& body) {
  int64_t begin = 0;
  for (size_t e = 0; e < rows_per_expert.size(); ++e) {
    if (rows_per_expert[e] > 0) body(static_cast<int64_t>(e), begin, rows_per_expert[e]);
    begin += rows_per_expert[e];
  }
}

// sink += dyᵀ x without a rounding to the inputs' precision, which every micro-batch would add again.
void torch_weight_gradient(Tensor sink, const Tensor& dy, const Tensor& x) {
  const ScalarType type = sink.scalar_type();
  if (type == at::kFloat && dy.scalar_type() == x.scalar_type() && has_wide_product(x)) {
    add_wide_product(sink, dy.t(), x);
  } else {
    sink.addmm_(dy.t().to(type), x.to(type));  // of the same type: no copies
  }
}

// On a GPU by our kernel, in one pass that keeps no sum of its own; LibTorch's adds a tensor up and then adds
// the sum.
void add_bias_gradient(const Tensor& sink, const Tensor& dy) {
  if (sink.scalar_type() == at::kFloat && refuse_cuda(dy).empty())
    return cuda_calls<ActivationCuda>().add_bias_gradient(dy.contiguous(), sink);
  sink.add_(dy.sum(0, false, sink.scalar_type()));
}

void add_weight_gradients_of(const Tensor& sink, const Tensor& bias_sink, const Tensor& dy, const Tensor& x,
                             const std::vector<int64_t>& rows_per_expert) {
  if (!sink.defined()) {  // a bias may train without its weight
    add_bias_gradient(bias_sink, dy);
    return;
  }
  count_product(x, sink);
  const Product product = choose(products_of(sink).weight_gradient, refuse_gpu_weight_gradient(sink, dy, x),
                                 refuse_packed_weight_gradient(sink, bias_sink, dy, x));
  if (product == Product::kCuda)
    return cuda_calls<MatmulCuda>().add_grouped_weight_gradients(sink, dy.contiguous(), x.contiguous(),
                                                                 rows_per_expert);
  if (product == Product::kPacked) return packed_weight_gradient(sink, bias_sink, dy, x, rows_per_expert);
  if (sink.dim() == 2) {
    torch_weight_gradient(sink, dy, x);
    if (bias_sink.defined()) add_bias_gradient(bias_sink, dy);
    return;
  }
  for_each_group(rows_per_expert, [&](int64_t e, int64_t begin, int64_t rows) {
    torch_weight_gradient(sink[e], dy.narrow(0, begin, rows), x.narrow(0, begin, rows));
  });
}

Tensor output_of(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const std::vector<int64_t>& rows_per_expert, const KeptPacked& kept) {
  count_product(x, weight);
  const Product product =
      choose(products_of(weight).output, refuse_gpu(x, weight), refuse_packed(x, weight, kept.copies));
  if (product == Product::kCuda)
    return cuda_calls<MatmulCuda>().grouped(x.contiguous(), rows_per_expert, weight, false);
  if (product == Product::kPacked)
    return packed_output(x, rows_per_expert, weight, bias, *kept.copies, kept.version);
  if (weight.dim() == 2) return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
  Tensor y = at::empty({x.size(0), weight.size(1)}, x.options());
  for_each_group(rows_per_expert, [&](int64_t e, int64_t begin, int64_t rows) {
    Tensor out = y.narrow(0, begin, rows);
    at::mm_out(out, x.narrow(0, begin, rows), weight[e].t());
  });
  return y;
}

Tensor input_gradient_of(const Tensor& dy, const Tensor& weight, const std::vector<int64_t>& rows_per_expert,
                         const KeptPacked& kept) {
  if (kept.copies != nullptr) kept.copies->expect_newest(kept.version);
  count_product(dy, weight);
  const Product product = choose(products_of(weight).input_gradient, refuse_gpu(dy, weight),
                                 refuse_packed(dy, weight, kept.copies));
  if (product == Product::kCuda)
    return cuda_calls<MatmulCuda>().grouped(dy.contiguous(), rows_per_expert, weight, true);
  if (product == Product::kPacked)
    return packed_input_gradient(dy, rows_per_expert, weight, *kept.copies, kept.version);
  if (weight.dim() == 2) return at::mm(dy, weight);
  Tensor dx = at::empty({dy.size(0), weight.size(2)}, dy.options());
  for_each_group(rows_per_expert, [&](int64_t e, int64_t begin, int64_t rows) {
    Tensor out = dx.narrow(0, begin, rows);
    at::mm_out(out, dy.narrow(0, begin, rows), weight[e]);
  });
  return dx;
}

Tensor seen_input(const Tensor& x, const SpikeInput& spikes) {
  return spikes.wanted() ? spiked(x, spikes.k) : x;
}
Tensor seen_weight(const Tensor& weight, const SpikeInput& spikes) {
  return spikes.rounded_weight ? rounded_in_groups(weight) : weight;
}

// One weight [out, in] or one for each expert [experts, out, in]; a bias only beside the former.
Tensor recorded(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const std::vector<int64_t>& rows_per_expert, const LinearSinks& sinks,
                const KeptPacked& kept_wide, const SpikeInput& spikes) {
  // Packed copies are those of the weight itself.
  const KeptPacked kept = spikes.rounded_weight ? KeptPacked{} : kept_wide;
  const auto backward = [=](const BackwardCall& call) {
    const Tensor &saved_x = call.saved[0], &saved_weight = call.saved[1];
    const Tensor dy = call.gradients[0].stride(-1) == 1 ? call.gradients[0] : call.gradients[0].contiguous();
    if (sinks.wanted()) {
      GradientSink::add_together(sinks.weight, sinks.bias,
                                 [=, weight_sink = sinks.weight.buffer(), bias_sink = sinks.bias.buffer()] {
                                   add_weight_gradients_of(weight_sink, bias_sink, dy,
                                                           seen_input(saved_x, spikes), rows_per_expert);
                                 });
    }
    const Tensor dx = call.wanted[0]
                          ? input_gradient_of(dy, seen_weight(saved_weight, spikes), rows_per_expert, kept)
                          : Tensor();
    return std::vector<Tensor>{dx, Tensor(), Tensor()};
  };
  // The packed products give a row the same bits among any others (tests/parallel/tensor_parts_test.cpp).
  const bool exact = !refuse_gpu(x, weight).empty() && refuse_packed(x, weight, kept.copies).empty();
  return differentiable("linear", {x, weight, bias}, [&]() -> Recorded {
    return {.results = rows_once(x.size(0), exact,
                                 [&](int64_t begin) {
                                   return std::vector<Tensor>{
                                       output_of(seen_input(x.narrow(0, begin, x.size(0) - begin), spikes),
                                                 seen_weight(weight, spikes), bias,
                                                 rows_behind(rows_per_expert, begin), kept)};
                                 }),
            .saved = {sinks.weight.wanted() ? x : Tensor(), weight},
            .backward = backward,
            .sinks = {sinks.weight, sinks.bias}};
  })[0];
}

}  // namespace

std::vector<int64_t> rows_behind(std::vector<int64_t> rows_per_group, int64_t begin) {
  for (int64_t& rows : rows_per_group) {
    const int64_t before = std::min(rows, begin);
    rows -= before;
    begin -= before;
  }
  return rows_per_group;
}

void add_weight_gradient(const Tensor& sink, const Tensor& dy, const Tensor& x) {
  add_weight_gradients_of(sink, Tensor(), dy, x, {x.size(0)});
}

static void check_product(const char* op, const Tensor& x, const Tensor& weight) {
  if (x.dim() != 2 || weight.dim() != 2 || x.size(1) != weight.size(1) ||
      x.scalar_type() != weight.scalar_type()) {
    refuse_argument(op, "x", "[tokens, in] for a weight " + shape_text(weight), shape_text(x));
  }
}

Tensor linear_wide(const Tensor& x, const Tensor& weight, KeptPacked kept) {
  check_product("linear_wide", x, weight);
  const at::NoGradGuard no_gradient;
  const Product product = choose(kWide, "it is left to LibTorch", refuse_packed(x, weight, kept.copies));
  if (product == Product::kPacked) return packed_wide_output(x, weight, *kept.copies, kept.version);
  if (x.scalar_type() != at::kBFloat16) return at::mm(x, weight.t());
  if (has_wide_product(x)) {
    const Tensor y = at::empty({x.size(0), weight.size(0)}, x.options().dtype(at::kFloat));
    wide_product(y, x, weight.t());
    return y;
  }
  // LibTorch rounds its results to bf16. Some rows of the weight at a time are widened: never a copy of all
  // of it.
  constexpr int64_t kRows = 1024;
  const Tensor wide = x.to(at::kFloat);
  const Tensor y = at::empty({x.size(0), weight.size(0)}, wide.options());
  for (int64_t begin = 0; begin < weight.size(0); begin += kRows) {
    const int64_t rows = std::min(kRows, weight.size(0) - begin);
    y.narrow(1, begin, rows).copy_(at::mm(wide, weight.narrow(0, begin, rows).to(at::kFloat).t()));
  }
  return y;
}

static void check_bias(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (bias.defined() &&
      (bias.sizes() != at::IntArrayRef({weight.size(0)}) || bias.scalar_type() != x.scalar_type())) {
    refuse_argument("linear", "bias", "[out] for a weight " + shape_text(weight), shape_text(bias));
  }
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearSinks& sinks,
              KeptPacked kept, const SpikeInput& spikes) {
  check_product("linear", x, weight);
  check_bias(x, weight, bias);
  return recorded(x, weight, bias, {x.size(0)}, sinks, kept, spikes);
}

Tensor linear_output(const Tensor& x, const Tensor& weight, const Tensor& bias, KeptPacked kept) {
  check_product("linear", x, weight);
  check_bias(x, weight, bias);
  const at::NoGradGuard no_gradient;
  return output_of(x, weight, bias, {x.size(0)}, kept);
}

Tensor linear_input_gradient(const Tensor& dy, const Tensor& weight, KeptPacked kept) {
  if (dy.dim() != 2 || weight.dim() != 2 || dy.size(1) != weight.size(0) ||
      dy.scalar_type() != weight.scalar_type())
    refuse_argument("linear_input_gradient", "dy", "[tokens, out] for a weight " + shape_text(weight),
                    shape_text(dy));
  const at::NoGradGuard no_gradient;
  return input_gradient_of(dy, weight, {dy.size(0)}, kept);
}

// → rows of all experts.
static int64_t checked_rows(const char* op, const std::vector<int64_t>& rows_per_expert,
                            const Tensor& weight) {
  if (weight.dim() != 3 || weight.size(0) != static_cast<int64_t>(rows_per_expert.size())) {
    refuse_argument(op, "weight", "[" + std::to_string(rows_per_expert.size()) + " experts, out, in]",
                    shape_text(weight));
  }
  return std::accumulate(rows_per_expert.begin(), rows_per_expert.end(), int64_t{0});
}

Tensor grouped_linear_input_gradient(const Tensor& dy, const std::vector<int64_t>& rows_per_expert,
                                     const Tensor& weight, KeptPacked kept) {
  const int64_t rows = checked_rows("grouped_linear_input_gradient", rows_per_expert, weight);
  if (dy.dim() != 2 || dy.size(0) != rows || dy.size(1) != weight.size(1) ||
      dy.scalar_type() != weight.scalar_type()) {
    refuse_argument("grouped_linear_input_gradient", "dy",
                    "[" + std::to_string(rows) + " rows, out] for weights " + shape_text(weight),
                    shape_text(dy));
  }
  const at::NoGradGuard no_gradient;
  return input_gradient_of(dy, weight, rows_per_expert, kept);
}

Tensor grouped_linear(const Tensor& x, const std::vector<int64_t>& rows_per_expert, const Tensor& weight,
                      const GradientSink& sink, KeptPacked kept, const SpikeInput& spikes) {
  const int64_t rows = checked_rows("grouped_linear", rows_per_expert, weight);
  if (x.dim() != 2 || x.size(0) != rows || x.size(1) != weight.size(2) ||
      x.scalar_type() != weight.scalar_type()) {
    refuse_argument("grouped_linear", "x",
                    "[" + std::to_string(rows) + " rows, in] for weights " + shape_text(weight),
                    shape_text(x));
  }
  return recorded(x, weight, Tensor(), rows_per_expert, {.weight = sink}, kept, spikes);
}

}  // namespace longhaul::kernels
