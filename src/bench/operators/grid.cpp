// Images and video: what an additive recurrence (LightNet, arXiv 2405.21022) needs one scan for, the sum over
// all tokens, beside what multiplicative decays need: a scan each way along the row of tokens, or each way
// along every axis. All from the same projections: queries, logits of keys or gates, values. The scans are
// those of HGRN2's gate (decay for each key channel, k = 1 − λ, made inside the recurrence), which is this
// program's fastest of the kind; an axis that is not innermost costs a copy into lines and one back. MD-TPE
// and MD-LRPE stand beside it, for themselves.
#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "bench/register.h"
#include "kernels/bidirectional/op.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/toeplitz/grid.h"
#include "tensor/random_fill.h"
#include "tensor/to_tensor.h"

namespace longhaul::bench {
namespace {

constexpr int64_t kGridHeads = 8, kGridWidth = 64, kGridHidden = kGridHeads * kGridWidth, kExponentials = 64;

struct GridSetting {
  const char* name;
  int64_t count;  // of grids in a batch
  kernels::GridSizes sizes;
  int64_t tokens() const {
    int64_t all = count;
    for (const int64_t size : sizes) all *= size;
    return all;
  }
};

Tensor numbers(const char* name, const layout::Shape& shape) {
  return normal(shape, {0, fmt::format("bench/grid/{}", name)}, 0.5);
}

struct GridInputs {
  Tensor q, x, v;  // [tokens, heads, width]
  std::vector<Tensor> leaves() const { return {q, x, v}; }
  void clear() const {
    for (const Tensor& each : leaves()) each.mutable_grad() = Tensor();
  }
};

GridInputs grid_inputs(int64_t tokens, ScalarType type) {
  GridInputs in{numbers("q", {tokens, kGridHeads, kGridWidth}).to(type),
                numbers("x", {tokens, kGridHeads, kGridWidth}).to(type),
                numbers("v", {tokens, kGridHeads, kGridWidth}).to(type)};
  for (const Tensor& each : in.leaves()) Tensor(each).requires_grad_(true);
  return in;
}

Tensor lines_of(int64_t lines, int64_t length) { return at::arange(lines + 1, at::kLong).mul(length); }

Tensor one_sum(const GridInputs& in, const Tensor& images) {
  const Tensor k = kernels::segment_softmax(in.x.flatten(1), images).view_as(in.x);
  return kernels::bidirectional_attention(in.q, k, in.v, images);
}

// There and back along lines of neighbours.
Tensor both_ways(const Tensor& q, const Tensor& x, const Tensor& v, const Tensor& lines) {
  kernels::LinearRecurrenceOptions options{.tied_keys = true};
  options.gate = {.kind = kernels::RecurrenceGate::Kind::kLowerBounded,
                  .lower_bound_hk = at::full({kGridHeads, kGridWidth}, 0.5)};
  const Tensor there = kernels::linear_recurrence(q, {}, v, x, {}, lines, options).o_thd;
  options.reverse = true;
  return there + kernels::linear_recurrence(q, {}, v, x, {}, lines, options).o_thd;
}

// Along every axis: 2, 4 or 6 scans.
Tensor along_all_axes(const GridInputs& in, const GridSetting& setting) {
  Tensor sum;
  int64_t outer = setting.count, inner = setting.tokens() / setting.count;
  for (const int64_t length : setting.sizes) {
    inner /= length;
    const auto in_lines = [&](const Tensor& t) {
      return t.view({outer, length, inner, kGridHidden})
          .transpose(1, 2)
          .reshape({-1, kGridHeads, kGridWidth});
    };
    const Tensor made =
        both_ways(in_lines(in.q), in_lines(in.x), in_lines(in.v), lines_of(outer * inner, length));
    const Tensor back = made.view({outer, inner, length, kGridHidden}).transpose(1, 2).reshape(in.q.sizes());
    sum = sum.defined() ? sum + back : back;
    outer *= length;
  }
  return sum;
}

// Of the one sum, forward and backward, against a matrix of all pairs in fp64 on the same numbers.
double error_of_sum() {
  constexpr int64_t kChecked = 2 * 5 * 7;
  const Tensor images = lines_of(2, kChecked / 2);
  std::vector<Tensor> results[2];
  for (const bool reference : {false, true}) {
    GridInputs in = grid_inputs(kChecked, at::kBFloat16);
    for (Tensor* each : {&in.q, &in.x, &in.v})
      *each = (reference ? each->detach().to(at::kDouble) : each->detach()).requires_grad_(true);
    Tensor o;
    if (reference) {
      const auto of = [&](const Tensor& t) { return t.view({2, kChecked / 2, kGridHeads, kGridWidth}); };
      const Tensor keys = of(in.x).exp() / of(in.x).exp().sum(1, /*keepdim=*/true);
      const Tensor pairs = at::einsum("nihc,nshc->nhis", {of(in.q), keys});
      o = at::einsum("nhis,nshc->nihc", {pairs, of(in.v)}).reshape(in.q.sizes());
    } else {
      o = one_sum(in, images);
    }
    o.backward(numbers("gradient", {kChecked, kGridHeads, kGridWidth}).to(o.scalar_type()));
    results[reference] = {o.detach()};
    for (const Tensor& each : in.leaves()) results[reference].push_back(each.grad());
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i) {
    const Tensor& wanted = results[1][i];
    worst = std::max(worst, ((results[0][i].to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>());
  }
  return worst;
}

}  // namespace

void bench_grid(const Request&, Results& into) {
  const GridSetting settings[] = {
      {"image", 32, {14, 14}}, {"image", 8, {32, 32}}, {"image", 2, {64, 64}}, {"video", 2, {8, 28, 28}}};
  for (const GridSetting& setting : settings) {
    const int64_t tokens = setting.tokens(), of_grid = tokens / setting.count;
    const GridInputs in = grid_inputs(tokens, at::kBFloat16);
    const Tensor images = lines_of(setting.count, of_grid),
                 gradient = numbers("gradient", {tokens, kGridHeads, kGridWidth}).to(at::kBFloat16);
    const auto clear = [&] { in.clear(); };
    const auto timed = [&](const std::function<Tensor()>& call) {
      Tensor o;
      const auto forward = [&] { o = call(); };
      const Timing there = time_of(forward, 0.3, clear);
      return std::pair{there, time_of([&] { o.backward(gradient); }, 0.3,
                                      [&] {
                                        clear();
                                        forward();
                                      })};
    };
    const auto [forward, backward] = timed([&] { return one_sum(in, images); });
    const double flops = 4.0 * static_cast<double>(tokens * kGridHeads * kGridWidth * kGridWidth);
    const double bytes = 2.0 * 4 * static_cast<double>(tokens * kGridHidden);
    Result result{
        .name = fmt::format("grid {}", setting.name),
        .shape = fmt::format("{} x {} H {} D {}", setting.count, fmt::join(setting.sizes, " x "), kGridHeads,
                             kGridWidth),
        .dtype = "bf16",
        .passes = {{"forward", forward, flops, bytes}, {"backward", backward, 2 * flops, 2 * bytes}},
        .error = error_of_sum(),
        .tolerance = 1e-2};  // keys, outputs and gradients rounded to 8 bits
    const auto add = [&](const std::string& name, const std::pair<Timing, Timing>& of) {
      result.figures.emplace_back("milliseconds_forward_" + name, of.first.median);
      result.figures.emplace_back("milliseconds_backward_" + name, of.second.median);
      result.figures.emplace_back("times_of_one_sum_" + name,
                                  (of.first.median + of.second.median) / (forward.median + backward.median));
    };
    add("2_scans", timed([&] { return both_ways(in.q, in.x, in.v, images); }));
    add(fmt::format("{}_scans", 2 * setting.sizes.size()),
        timed([&] { return along_all_axes(in, setting); }));
    const std::vector<kernels::GridSizes> grids(static_cast<size_t>(setting.count), setting.sizes);
    const kernels::ToeplitzAxis axis{numbers("coefficient", {kGridHidden, kExponentials}),
                                     -numbers("rate", {kExponentials}).exp()};
    const std::vector<kernels::ToeplitzAxis> axes(setting.sizes.size(), axis);
    const Tensor flat = in.v.detach().flatten(1);
    result.figures.emplace_back("milliseconds_forward_toeplitz",
                                time_of([&] { kernels::toeplitz_of_grids(flat, grids, axes); }, 0.3).median);
    const kernels::TurnTable turns =
        kernels::turns_of_grids(grids, kGridWidth, kGridWidth, 10000, at::kFloat, at::kCPU);
    const auto turn = [&] {
      kernels::features(flat, kGridHeads, kernels::FeatureMap::kSilu, kernels::Turn::kCosine, turns);
    };
    result.figures.emplace_back("milliseconds_forward_turn", time_of(turn, 0.3).median);
    into.push_back(result);
  }
}

}  // namespace longhaul::bench
