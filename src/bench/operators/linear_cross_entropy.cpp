#include "kernels/linear_cross_entropy/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/random.h"
#include "bench/register.h"
#include "tensor/cpu_allocator.h"
#include "tensor/random_fill.h"

namespace longhaul::bench {
namespace {

struct Inputs {
  Tensor hidden_td, weight_vd, labels_t, sink_vd;
};

Inputs inputs_of(int64_t tokens, int64_t hidden, int64_t vocabulary) {
  const auto filled = [](const char* name, const layout::Shape& shape, double std) {
    return normal(shape, {0, fmt::format("bench/linear_cross_entropy/{}", name)}, std, at::kBFloat16)
        .requires_grad_(true);
  };
  return {filled("hidden", {tokens, hidden}, 1.0), filled("weight", {vocabulary, hidden}, 0.05),
          at::arange(tokens, at::kLong).mul(7919).remainder(vocabulary),
          at::zeros({vocabulary, hidden}, at::kFloat)};
}

double relative_difference(const Tensor& found, const Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

// Loss and gradients of the operator as dispatched against the reference's. Tokens and vocabulary end within
// a block.
double error_of_small() {
  std::vector<Tensor> results[2];
  for (const bool reference : {false, true}) {
    const Inputs in = inputs_of(70, 64, 777);
    if (reference) kernels::Dispatcher::force("linear_cross_entropy", "reference");
    const Tensor loss = kernels::linear_cross_entropy_sum(in.hidden_td, in.weight_vd, in.labels_t, in.sink_vd,
                                                          {.z_loss = 0.01});
    kernels::Dispatcher::force("linear_cross_entropy", std::nullopt);
    loss.backward();
    results[reference] = {loss.detach().to(at::kFloat), in.hidden_td.grad().to(at::kFloat), in.sink_vd};
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i)
    worst = std::max(worst, relative_difference(results[0][i], results[1][i]));
  return worst;
}

// Most memory that `work` holds at once beyond what is there before.
double peak_of(const std::function<void()>& work) {
  reset_memory_peaks();
  const int64_t before = memory_statistics().total.bytes;
  work();
  return static_cast<double>(memory_statistics().total.peak - before);
}

}  // namespace

void bench_linear_cross_entropy(const Request& request, Results& into) {
  const double error = error_of_small();
  for (const auto& [tokens, hidden, vocabulary] :
       {std::array<int64_t, 3>{4096, 768, 50257}, std::array<int64_t, 3>{2048, 256, 8192}}) {
    const Inputs in = inputs_of(tokens, hidden, vocabulary);
    const auto forget = [&] {
      for (const Tensor& each : {in.hidden_td, in.weight_vd}) each.mutable_grad() = Tensor();
    };
    // The weight's packed copies are kept, as its Parameter keeps them; making them is timed apart: it
    // happens once a step.
    std::optional<kernels::PackedWeight> copies(std::in_place);
    uint64_t version = 0;
    const auto ours = [&] {
      kernels::linear_cross_entropy_sum(in.hidden_td, in.weight_vd, in.labels_t, in.sink_vd, {},
                                        {&*copies, version})
          .backward();
    };
    const auto packing = [&] {
      ++version;
      copies->for_output(in.weight_vd, version);
      copies->for_input_gradient(in.weight_vd, version, kernels::kHeadChunk);
    };
    // The logits stay bf16, which is LibTorch's fastest and smallest way; trainers that widen them to fp32
    // hold twice as much.
    const auto libtorch = [&] {
      at::cross_entropy_loss(at::linear(in.hidden_td, in.weight_vd), in.labels_t).backward();
    };
    // Three products of tokens × hidden × vocabulary: logits and both gradients.
    const double flops =
        6.0 * static_cast<double>(tokens) * static_cast<double>(hidden) * static_cast<double>(vocabulary);
    Result result{.name = "linear_cross_entropy",
                  .shape = fmt::format("T {} D {} V {}", tokens, hidden, vocabulary),
                  .dtype = "bf16"};
    result.passes.push_back({"", time_of(ours, 0.5, forget), flops, 0});
    result.figures.emplace_back("milliseconds_packing", time_of(packing, 0.2).median);
    result.implementation = kernels::Dispatcher::last("linear_cross_entropy").chosen;
    forget();
    copies.emplace();
    result.peak_bytes = peak_of(ours);  // with the copies
    result.error = error;
    result.tolerance = 1e-2;  // terms and gradients rounded to bf16
    if (request.peer) {
      forget();
      Peer peer{.name = "LibTorch linear + cross_entropy",
                .passes = {{"", time_of(libtorch, 0.5, forget), flops, 0}}};
      forget();
      peer.peak_bytes = peak_of(libtorch);
      result.peer = std::move(peer);
    }
    into.push_back(std::move(result));
  }
}

}  // namespace longhaul::bench
