// Benchmarks of the memory-bound operators: the answer is checked against the reference, then forward and
// backward are timed. Rates count the bytes that have to be moved (each operand read once, each result
// written once); the limit is this machine's copy rate.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/random.h"
#include "bench/register.h"
#include "kernels/activation/op.h"
#include "kernels/embedding/op.h"
#include "kernels/experts/op.h"
#include "kernels/norm/op.h"
#include "kernels/rotary_heads/op.h"
#include "tensor/random_fill.h"

namespace longhaul::bench {
namespace {

using Tensors = std::vector<Tensor>;
using Operator = std::function<Tensors(const Tensors&)>;

constexpr int64_t kTokens = 8192, kChannels = 1024;
constexpr ScalarType kTypes[] = {at::kBFloat16, at::kFloat};

Tensor filled(const layout::Shape& shape, const char* name, ScalarType type) {
  return normal(shape, {0, fmt::format("bench/{}", name)}).to(type);
}

Tensors fresh_leaves(const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  return leaves;
}

Tensors gradients_for(const Tensors& outputs) {
  Tensors gradients;
  for (const Tensor& output : outputs)
    gradients.push_back(filled(output.sizes().vec(), "gradient", output.scalar_type()));
  return gradients;
}

// Outputs, then the gradients of the inputs that have one.
Tensors results_of(const Operator& op, const Tensors& inputs) {
  const Tensors leaves = fresh_leaves(inputs), outputs = op(leaves);
  torch::autograd::backward(outputs, gradients_for(outputs));
  Tensors results;
  for (const Tensor& output : outputs) results.push_back(output.detach());
  for (const Tensor& leaf : leaves) {
    if (leaf.grad().defined()) results.push_back(leaf.grad());
  }
  return results;
}

double worst_difference(const Tensors& found, const Tensors& expected) {
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const Tensor wide = expected[i].to(at::kDouble);
    worst = std::max(worst, ((found[i].to(at::kDouble) - wide).norm() / wide.norm()).item<double>());
  }
  return worst;
}

struct Benchmarked {
  std::string name;
  Operator op, reference;
  Tensors inputs;
  double forward_bytes = 0, backward_bytes = 0;
};

std::vector<Pass> timed(const Operator& op, const Tensors& inputs, double forward_bytes,
                        double backward_bytes) {
  Tensors leaves, outputs;
  const auto prepare = [&] { leaves = fresh_leaves(inputs); };
  const Timing forward = time_of([&] { outputs = op(leaves); }, 0.5, prepare);
  const Tensors gradients = gradients_for(outputs);
  const auto run_forward = [&] {
    prepare();
    outputs = op(leaves);
  };
  const Timing backward = time_of([&] { torch::autograd::backward(outputs, gradients); }, 0.5, run_forward);
  return {{"forward", forward, 0, forward_bytes}, {"backward", backward, 0, backward_bytes}};
}

void measure(const Request& request, Results& into, const Benchmarked& each, ScalarType type) {
  Result result{.name = each.name,
                .shape = fmt::format("{}", fmt::join(each.inputs[0].sizes(), "x")),
                .dtype = std::string(name_of(type))};
  // In the mean over elements bf16 differs by less than one unit (2^-8), fp32 by sums in another order.
  result.tolerance = type == at::kBFloat16 ? 4e-3 : 1e-5;
  result.error = worst_difference(results_of(each.op, each.inputs), results_of(each.reference, each.inputs));
  result.passes = timed(each.op, each.inputs, each.forward_bytes, each.backward_bytes);
  if (request.peer)
    result.peer = Peer{"LibTorch operators",
                       timed(each.reference, each.inputs, each.forward_bytes, each.backward_bytes)};
  into.push_back(std::move(result));
}

double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.numel()) * static_cast<double>(tensor.element_size());
}

}  // namespace

void bench_norm(const Request& request, Results& into) {
  constexpr double kEps = 1e-5;
  for (const ScalarType type : kTypes) {
    const Tensor x = filled({kTokens, kChannels}, "x", type),
                 other = filled({kTokens, kChannels}, "other", type);
    const Tensor weight = filled({kChannels}, "weight", at::kFloat),
                 bias = filled({kChannels}, "bias", at::kFloat);
    const double n = bytes_of(x);
    measure(request, into,
            {"rms_norm",
             [](const Tensors& v) { return Tensors{kernels::rms_norm(v[0], v[1], kEps)}; },
             [](const Tensors& v) { return Tensors{kernels::rms_norm_reference(v[0], v[1], kEps)}; },
             {x, weight},
             2 * n,
             3 * n},
            type);
    measure(request, into,
            {"rms_norm with gate",
             [](const Tensors& v) { return Tensors{kernels::rms_norm(v[0], v[2], kEps, v[1])}; },
             [](const Tensors& v) { return Tensors{kernels::rms_norm_reference(v[0], v[2], kEps, v[1])}; },
             {x, other, weight},
             3 * n,
             5 * n},
            type);
    measure(request, into,
            {"layer_norm",
             [](const Tensors& v) { return Tensors{kernels::layer_norm(v[0], v[1], v[2], kEps)}; },
             [](const Tensors& v) { return Tensors{kernels::layer_norm_reference(v[0], v[1], v[2], kEps)}; },
             {x, weight, bias},
             2 * n,
             3 * n},
            type);
    const auto joined = [](auto op) {
      return [op](const Tensors& v) {
        const kernels::JoinedNorm result =
            op(kernels::NormKind::kRms, v[0], v[1], 1.0, 1.0, v[2], Tensor(), kEps);
        return Tensors{result.joined_tc, result.normed_tc};
      };
    };
    measure(request, into,
            {"join_norm",
             joined(kernels::join_norm),
             joined(kernels::join_norm_reference),
             {x, other, weight},
             4 * n,
             4 * n},
            type);
  }
}

void bench_activation(const Request& request, Results& into) {
  for (const ScalarType type : kTypes) {
    const Tensor x = filled({kTokens, 2 * kChannels}, "x", type),
                 bias = filled({2 * kChannels}, "bias", type);
    const Tensor sink = at::zeros({2 * kChannels});
    const double n = bytes_of(x);
    measure(request, into,
            {"silu_heads",
             [](const Tensors& v) {
               const kernels::Heads heads = kernels::silu_heads(v[0], 16, 8, 64);
               return Tensors{heads.q_thd, heads.k_thd, heads.v_thd};
             },
             [](const Tensors& v) {
               const Tensor y = at::silu(v[0]).view({-1, 32, 64});
               return Tensors{y.narrow(1, 0, 16), y.narrow(1, 16, 8), y.narrow(1, 24, 8)};
             },
             {x},
             2 * n,
             3 * n},
            type);
    measure(request, into,
            {"swiglu",
             [](const Tensors& v) { return Tensors{kernels::swiglu(v[0])}; },
             [](const Tensors& v) { return Tensors{kernels::swiglu_reference(v[0])}; },
             {x},
             1.5 * n,
             2.5 * n},
            type);
    measure(request, into,
            {"bias_gelu",
             [&](const Tensors& v) { return Tensors{kernels::bias_gelu(v[0], bias, sink)}; },
             [&](const Tensors& v) { return Tensors{kernels::bias_gelu_reference(v[0], bias)}; },
             {x},
             2 * n,
             3 * n},
            type);
  }
}

void bench_heads(const Request& request, Results& into) {
  constexpr int64_t kHeads = 16, kKvHeads = 4, kDim = 64;
  std::vector<int64_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0);
  const kernels::RotaryTable table = kernels::rotary_table(positions, kDim, 10000, at::kFloat);
  for (const ScalarType type : kTypes) {
    const Tensor x = filled({kTokens, (kHeads + 2 * kKvHeads) * kDim}, "x", type);
    const double n = bytes_of(x), rotated = n * (kHeads + kKvHeads) / (kHeads + 2 * kKvHeads);
    const auto fast = [&](const Tensors& v) {
      const kernels::Heads heads = kernels::split_heads(v[0].clone(), kHeads, kKvHeads, kDim, table);
      return Tensors{heads.q_thd, heads.k_thd, heads.v_thd};
    };
    const auto reference = [&](const Tensors& v) {
      const Tensor all = v[0].view({kTokens, -1, kDim});
      return Tensors{kernels::rotate_reference(all.narrow(1, 0, kHeads), table),
                     kernels::rotate_reference(all.narrow(1, kHeads, kKvHeads), table),
                     all.narrow(1, kHeads + kKvHeads, kKvHeads)};
    };
    measure(request, into, {"split_heads and a copy", fast, reference, {x}, 2 * n + 2 * rotated, 2 * n},
            type);
  }
}

void bench_embedding(const Request&, Results& into) {
  constexpr int64_t kVocabulary = 32000;
  const Tensor ids = filled({kTokens}, "ids", at::kDouble)
                         .abs()
                         .mul(kVocabulary / 5.0)
                         .to(at::kLong)
                         .clamp(0, kVocabulary - 1);
  const Tensor positions = at::arange(kTokens, at::kLong).remainder(kTokens / 4);
  const double unique = static_cast<double>(std::get<0>(at::_unique(ids)).numel());
  for (const ScalarType type : kTypes) {
    const Tensor table = filled({kVocabulary, kChannels}, "table", type),
                 position = filled({kTokens / 4, kChannels}, "position", type);
    const Tensor sink = at::zeros({kVocabulary, kChannels}),
                 position_sink = at::zeros({kTokens / 4, kChannels});
    const double n = static_cast<double>(kTokens * kChannels * table.element_size());
    const double rows =
        // of the sinks, read and written
        (unique + static_cast<double>(kTokens) / 4) * static_cast<double>(kChannels) * 2 * 4;
    const auto fast = [&](const Tensors& v) {
      return Tensors{kernels::embedding(ids, {v[0], sink}, positions, {v[1], position_sink})};
    };
    const auto reference = [&](const Tensors& v) {
      return Tensors{at::embedding(v[0], ids) + at::embedding(v[1], positions)};
    };
    Result result{.name = "embedding",
                  .shape = fmt::format("{}x{} of {}", kTokens, kChannels, kVocabulary),
                  .dtype = std::string(name_of(type))};
    result.error = worst_difference({fast({table, position})[0]}, {reference({table, position})[0]});
    // the reference adds in bf16; the gradients go to the sinks (tests/kernels/embedding_test.cpp)
    result.tolerance = 4e-3;
    result.passes = timed(fast, {table, position}, 3 * n, 2 * n + rows);
    into.push_back(std::move(result));
  }
}

void bench_experts(const Request& request, Results& into) {
  constexpr int64_t kExperts = 8, kChoices = 2;
  for (const ScalarType type : kTypes) {
    const Tensor x = filled({kTokens, kChannels}, "x", type),
                 rows = filled({kTokens * kChoices, kChannels}, "rows", type);
    const Tensor router = filled({kExperts, kChannels}, "router", at::kFloat).mul(0.03),
                 sink = at::zeros_like(router);
    const double n = bytes_of(x);
    const auto outputs = [](const kernels::Routing& routing) {
      return Tensors{routing.weight_tk, routing.probability_sum_se};
    };
    measure(request, into,
            {"route",
             [&](const Tensors& v) { return outputs(kernels::route(v[0], router, kChoices, sink)); },
             [&](const Tensors& v) { return outputs(kernels::route_reference(v[0], router, kChoices)); },
             {x},
             n,
             2 * n},
            type);
    const kernels::Routing routing = kernels::route(x, router, kChoices, sink);
    const kernels::ExpertAssignment assignment = kernels::assign_experts(routing.choice_tk, kExperts);
    measure(request, into,
            {"permute",
             [&](const Tensors& v) { return Tensors{kernels::permute_to_experts(v[0], assignment)}; },
             [&](const Tensors& v) { return Tensors{v[0].index_select(0, assignment.source_r)}; },
             {x},
             3 * n,
             3 * n},
            type);
    const auto combined = [&](const Tensors& v) {
      const Tensor back = v[0].to(at::kFloat)
                              .index_select(0, assignment.place_tk.view(-1))
                              .view({kTokens, kChoices, kChannels});
      return Tensors{back.mul(v[1].unsqueeze(2)).sum(1).to(type)};
    };
    measure(request, into,
            {"combine",
             [&](const Tensors& v) { return Tensors{kernels::combine_experts(v[0], v[1], assignment)}; },
             combined,
             {rows, routing.weight_tk.detach()},
             3 * n,
             5 * n},
            type);
  }
}

}  // namespace longhaul::bench
