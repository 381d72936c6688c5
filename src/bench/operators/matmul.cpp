// The three products of a linear layer with our packed kernels, and their LibTorch peers: the shapes of GPT-2
// 124M, of the experts of hybrid-bench and of the first run. Packing is timed apart: it happens once a step,
// however many micro-batches there are.
#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "bench/register.h"
#include "kernels/gemm/block.h"
#include "kernels/matmul/matmul.h"
#include "tensor/random_fill.h"

namespace longhaul::bench {
namespace {

constexpr double kBudget_s = 0.2;  // of one pass

struct Shape {
  const char* layer;
  int64_t rows, in, out;
  int64_t experts = 0;  // 0: one weight for all rows
};
constexpr Shape kShapes[] = {
    {"gpt2-124m qkv", 1024, 768, 2304},
    {"gpt2-124m output", 1024, 768, 768},
    {"gpt2-124m up", 1024, 768, 3072},
    {"gpt2-124m down", 1024, 3072, 768},
    {"gpt2-124m up", 512, 768, 3072},
    {"gpt2-124m up", 2048, 768, 3072},
    {"gpt2-124m up", 4096, 768, 3072},
    {"gpt2-124m down", 4096, 3072, 768},
    {"hybrid-bench gate+up", 16384, 512, 2048, 8},
    {"hybrid-bench down", 16384, 1024, 512, 8},
    {"first-run qkv", 2048, 256, 768},
    {"first-run gate+up", 4096, 256, 512, 4},
    {"first-run head", 2048, 256, 8192},
};

struct Operands {
  std::vector<int64_t> rows;  // of each weight; uneven, as routers leave them
  Tensor x, weight, dy, sink;
};

Tensor filled_operand(const std::vector<int64_t>& sizes, const char* name, ScalarType type) {
  return normal(sizes, {0, fmt::format("bench/matmul/{}", name)}).to(type);
}

Operands operands_of(const Shape& shape, int64_t rows, ScalarType type) {
  Operands operands{{},
                    filled_operand({rows, shape.in}, "x", type),
                    Tensor(),
                    filled_operand({rows, shape.out}, "dy", type),
                    Tensor()};
  const int64_t experts = std::max<int64_t>(shape.experts, 1);
  operands.weight = shape.experts > 0 ? filled_operand({experts, shape.out, shape.in}, "w", type)
                                      : filled_operand({shape.out, shape.in}, "w", type);
  operands.sink = at::zeros(operands.weight.sizes(), at::kFloat);
  for (int64_t e = 0, left = rows; e < experts; ++e) {
    operands.rows.push_back(e + 1 == experts ? left
                                             : std::min(left, rows / experts * (e % 2 == 0 ? 5 : 3) / 4));
    left -= operands.rows.back();
  }
  return operands;
}

// body(weight, sink, x, dy, rows of y and dx) for each expert.
template <class Body>
void for_each_expert(const Operands& operands, const Body& body) {
  int64_t begin = 0;
  for (size_t e = 0; e < operands.rows.size(); ++e) {
    const auto i = static_cast<int64_t>(e);
    const bool one = operands.weight.dim() == 2;
    const auto part = [&, from = begin](const Tensor& tensor) {
      return tensor.narrow(0, from, operands.rows[e]);
    };
    body(one ? operands.weight : operands.weight[i], one ? operands.sink : operands.sink[i], part);
    begin += operands.rows[e];
  }
}

double relative_distance(const Tensor& found, const Tensor& expected) {
  return ((found.to(at::kDouble) - expected).abs().max() / expected.abs().max()).item<double>();
}

// Against fp64, on a few hundred of the rows.
double error_of(const Shape& shape, ScalarType type) {
  const Operands operands = operands_of(shape, std::min<int64_t>(shape.rows, 600), type);
  kernels::PackedWeight kept;
  const Tensor y = kernels::packed_output(operands.x, operands.rows, operands.weight, Tensor(), kept, 0);
  const Tensor dx = kernels::packed_input_gradient(operands.dy, operands.rows, operands.weight, kept, 0);
  kernels::packed_weight_gradient(operands.sink, Tensor(), operands.dy, operands.x, operands.rows);
  double worst = 0;
  for_each_expert(operands, [&](const Tensor& weight, const Tensor& sink, const auto& part) {
    const Tensor x64 = part(operands.x).to(at::kDouble), dy64 = part(operands.dy).to(at::kDouble),
                 weight64 = weight.to(at::kDouble);
    worst = std::max({worst, relative_distance(part(y), at::mm(x64, weight64.t())),
                      relative_distance(part(dx), at::mm(dy64, weight64)),
                      relative_distance(sink, at::mm(dy64.t(), x64))});
  });
  return worst;
}

Peer torch_products(const Operands& operands, double flops) {
  Tensor y = at::empty_like(operands.dy), dx = at::empty_like(operands.x);
  const auto output = [&] {
    for_each_expert(operands, [&](const Tensor& weight, const Tensor&, const auto& part) {
      Tensor out = part(y);
      at::mm_out(out, part(operands.x), weight.t());
    });
  };
  const auto input_gradient = [&] {
    for_each_expert(operands, [&](const Tensor& weight, const Tensor&, const auto& part) {
      Tensor out = part(dx);
      at::mm_out(out, part(operands.dy), weight);
    });
  };
  const auto weight_gradient = [&] {
    for_each_expert(operands, [&](const Tensor&, Tensor sink, const auto& part) {
      if (operands.x.scalar_type() == at::kFloat)
        sink.addmm_(part(operands.dy).t(), part(operands.x));
      else
        sink.add_(at::mm(part(operands.dy).t(), part(operands.x)));
    });
  };
  return {.name = "LibTorch mm",
          .passes = {{"forward", time_of(output, kBudget_s), flops, 0},
                     {"input_gradient", time_of(input_gradient, kBudget_s), flops, 0},
                     {"weight_gradient", time_of(weight_gradient, kBudget_s), flops, 0}}};
}

Result measured(const Shape& shape, ScalarType type, bool peer) {
  const Operands operands = operands_of(shape, shape.rows, type);
  const double flops =
      2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) * static_cast<double>(shape.out);
  Result result{.name = "matmul",
                .shape = fmt::format("{} {}x{}x{}{}", shape.layer, shape.rows, shape.in, shape.out,
                                     shape.experts > 0 ? fmt::format(" of {}", shape.experts) : ""),
                .dtype = std::string(name_of(type)),
                .implementation = fmt::format("packed, {}", kernels::block_kernels().name)};
  kernels::PackedWeight kept;
  result.passes.push_back(
      {"forward",
       time_of([&] { kernels::packed_output(operands.x, operands.rows, operands.weight, Tensor(), kept, 0); },
               kBudget_s),
       flops, 0});
  result.passes.push_back(
      {"input_gradient",
       time_of([&] { kernels::packed_input_gradient(operands.dy, operands.rows, operands.weight, kept, 0); },
               kBudget_s),
       flops, 0});
  result.passes.push_back({"weight_gradient",
                           time_of(
                               [&] {
                                 kernels::packed_weight_gradient(operands.sink, Tensor(), operands.dy,
                                                                 operands.x, operands.rows);
                               },
                               kBudget_s),
                           flops, 0});
  uint64_t version = 0;
  const Timing packing = time_of(
      [&] {
        ++version;
        kept.for_output(operands.weight, version);
        kept.for_input_gradient(operands.weight, version);
      },
      kBudget_s / 2);
  result.figures.emplace_back("milliseconds_packing", packing.median);
  result.error = error_of(shape, type);
  // bf16: results are rounded once, 2^-9 of each; fp32: sums of up to 3,072 terms
  result.tolerance = type == at::kBFloat16 ? 4e-3 : 1e-5;
  if (peer) result.peer = torch_products(operands, flops);
  return result;
}

}  // namespace

void bench_matmul(const Request& request, Results& into) {
  for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
    for (const Shape& shape : kShapes) into.push_back(measured(shape, type, request.peer));
  }
}

}  // namespace longhaul::bench
