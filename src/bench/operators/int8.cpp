// The feed-forward layer of experts with weights in eight bits beside the same in the dtype: 32 experts of
// 512 × 1,024, 50 million weights, which no cache holds. Few rows for each expert are decoding, which waits
// for weights; many are a prompt. Both ways take turns.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"
#include "bench/register.h"
#include "kernels/activation/op.h"
#include "kernels/dispatch.h"
#include "kernels/linear/feed_forward.h"
#include "kernels/linear/int8_feed_forward.h"
#include "tensor/random_fill.h"

namespace longhaul::bench {
namespace int8_weights {
namespace {

constexpr int64_t kExperts = 32, kHidden = 512, kWidth = 1024, kRuns = 25;

Tensor filled_experts(const std::vector<int64_t>& sizes, const char* name, double std, ScalarType type) {
  return normal(sizes, {0, fmt::format("bench/int8/{}", name)}, std).to(type);
}

// One matrix of every expert, both ways.
struct BothWays {
  BothWays(int64_t out, int64_t in, const char* name, ScalarType type)
      : wide(filled_experts({kExperts, out, in}, name, 0.04, type)), narrow(kExperts, out, in, at::kCPU) {
    for (int64_t e = 0; e < kExperts; ++e) narrow.write(e, 0, wide[e], name);
  }
  kernels::LinearWeights layer() { return {.weight = wide, .kept = {&packed, 1}}; }
  Tensor values(int64_t e) const {
    return narrow.values(e).to(at::kDouble).mul(narrow.scale_eo()[e].to(at::kDouble).unsqueeze(1));
  }

  Tensor wide;
  kernels::PackedWeight packed;
  kernels::Int8Weight narrow;
};

double error_of(const Tensor& x, const Tensor& y, int64_t rows, const BothWays& up, const BothWays& down) {
  const int64_t last = kExperts - 1;
  const Tensor z = at::mm(x.narrow(0, last * rows, rows).to(at::kDouble), up.values(last).t());
  const Tensor expected = at::mm(kernels::swiglu_reference(z), down.values(last).t());
  return ((y.narrow(0, last * rows, rows).to(at::kDouble) - expected).abs().max() / expected.abs().max())
      .item<double>();
}

Timing sorted(std::vector<double> milliseconds) {
  std::ranges::sort(milliseconds);
  return {milliseconds[milliseconds.size() / 2], milliseconds.front(), milliseconds.back(),
          static_cast<int64_t>(milliseconds.size())};
}

Result measured(int64_t rows, BothWays& up, BothWays& down) {
  const ScalarType type = up.wide.scalar_type();
  const Tensor x = filled_experts({kExperts * rows, kHidden}, "x", 1, type);
  const std::vector<int64_t> rows_per_expert(static_cast<size_t>(kExperts), rows);
  const at::NoGradGuard no_gradient;
  std::vector<double> wide, narrow;
  Tensor y;
  for (int64_t run = 0; run <= kRuns; ++run) {
    const Stopwatch watch;
    kernels::grouped_feed_forward(x, rows_per_expert, kernels::Activation::kSwiglu, up.layer(), down.layer());
    const double first = watch.milliseconds();
    y = kernels::int8_grouped_feed_forward(x, rows_per_expert, up.narrow, down.narrow);
    if (run > 0) wide.push_back(first), narrow.push_back(watch.milliseconds() - first);
  }
  const double weights = static_cast<double>(up.wide.numel() + down.wide.numel()),
               flops = 2 * weights * static_cast<double>(rows);
  Result result{
      .name = "int8",
      .shape = fmt::format("{} experts x {} rows, {}x{}", kExperts, rows, kHidden, kWidth),
      .dtype = std::string(name_of(type)),
      .implementation = fmt::format("{}, {}", kernels::Dispatcher::last("int8_grouped_feed_forward").chosen,
                                    kernels::block_kernels().name)};
  result.passes = {{"int8", sorted(narrow), flops, weights},
                   {"wide", sorted(wide), flops, weights * static_cast<double>(up.wide.element_size())}};
  result.figures = {{"speed_of_medians", result.passes[1].time.median / result.passes[0].time.median},
                    {"speed_of_fastest", result.passes[1].time.fastest / result.passes[0].time.fastest}};
  result.error = error_of(x, y, rows, up, down);
  // bf16: what lies between the products is rounded too
  result.tolerance = type == at::kBFloat16 ? 1.5e-2 : 1e-5;
  return result;
}

}  // namespace
}  // namespace int8_weights

void bench_int8(const Request&, Results& into) {
  using namespace int8_weights;
  for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
    BothWays up(2 * kWidth, kHidden, "up", type), down(kHidden, kWidth, "down", type);
    for (const int64_t rows : {1, 4, 16, 64, 192}) into.push_back(measured(rows, up, down));
  }
}

}  // namespace longhaul::bench
