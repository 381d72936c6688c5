// Softmax attention: the cases of kernels/attention/cases.toml that are marked for it, bf16, forward and
// backward, beside LibTorch's fused attention on tensors laid out as it likes them best; and decoding, one
// query over a paged cache.
#include <ATen/ops/scaled_dot_product_attention.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "bench/register.h"
#include "kernels/attention/op.h"
#include "kernels/attention/paged/paged.h"
#include "tensor/to_tensor.h"

namespace longhaul::bench {

extern const char* const kAttentionCases;  // the text of cases.toml, see CMakeLists.txt

namespace {

// bf16 results, relative in the norm: 8 bits, and probabilities rounded before they are multiplied
constexpr double kTolerance = 1e-2;

struct Case {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t heads, key_heads, key, value, window;

  std::vector<int64_t> offsets() const {
    std::vector<int64_t> sums{0};
    for (const int64_t length : lengths) sums.push_back(sums.back() + length);
    return sums;
  }
  // Queries times keys they see, over all heads.
  double pairs() const {
    double sum = 0;
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < length; ++i)
        sum += static_cast<double>(window > 0 ? std::min(i + 1, window) : i + 1);
    }
    return sum * static_cast<double>(heads);
  }
  bool peer_can() const {
    return window == 0 && key == value && heads == key_heads &&
           std::ranges::count(lengths, lengths[0]) == std::ssize(lengths);
  }
};

std::vector<Case> bench_cases() {
  const auto table = toml::parse(std::string_view(kAttentionCases));
  std::vector<Case> cases;
  for (const auto& node : *table["case"].as_array()) {
    const auto& entry = *node.as_table();
    if (!entry["bench"].value_or(false)) continue;
    const auto number = [&](const char* key) { return *entry[key].value<int64_t>(); };
    Case c{*entry["name"].value<std::string>(),
           {},
           number("heads"),
           number("key_heads"),
           number("key"),
           number("value"),
           number("window")};
    for (const auto& length : *entry["lengths"].as_array()) c.lengths.push_back(*length.value<int64_t>());
    cases.push_back(c);
  }
  return cases;
}

Tensor leaf(const Tensor& values) { return values.detach().requires_grad_(); }

double checked_error(const Case& c) {
  const std::vector<int64_t> offsets = {0, 150, 151, 300};
  const auto filled = [&](int64_t heads, int64_t width) {
    return at::randn({300, heads, width}).to(at::kBFloat16);
  };
  const Tensor q = filled(2, c.key), k = filled(1, c.key), v = filled(1, c.value),
               gradient = filled(2, c.value);
  std::vector<Tensor> results[2];
  for (const bool reference : {false, true}) {
    const auto type = reference ? at::kDouble : at::kBFloat16;
    const std::vector<Tensor> x = {leaf(q.to(type)), leaf(k.to(type)), leaf(v.to(type))};
    const auto call = reference ? &kernels::attention_reference : &kernels::attention;
    const Tensor o =
        call(x[0], x[1], x[2], to_tensor(offsets), Tensor(), {.scale = 0.125, .window = c.window}).o_thd;
    o.backward(gradient.to(type));
    results[reference] = {o.detach(), x[0].grad(), x[1].grad(), x[2].grad()};
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i) {
    worst = std::max(worst, ((results[0][i] - results[1][i]).norm() / results[1][i].norm()).item<double>());
  }
  return worst;
}

// The two passes of `forward`, an attention over `leaves`; two products forward and five backward, as
// FlashAttention-2 counts.
template <class Forward>
std::vector<Pass> passes_of(const Case& c, const std::vector<Tensor>& leaves, const Tensor& gradient,
                            const Forward& forward) {
  Tensor o;
  const auto run_forward = [&] {
    for (const Tensor& x : leaves) x.mutable_grad() = Tensor();
    o = forward();
  };
  const double flops = 2 * c.pairs() * static_cast<double>(c.key + c.value);
  std::vector<Pass> passes{{"forward", time_of(run_forward), flops, 0}};
  passes.push_back({"backward", time_of([&] { o.backward(gradient); }, 0.5, run_forward), 2.5 * flops, 0});
  return passes;
}

Result result_of(const Case& c, bool with_peer) {
  const int64_t tokens = c.offsets().back(), batch = std::ssize(c.lengths);
  const double scale = 1 / std::sqrt(static_cast<double>(c.key));
  const auto filled = [&](int64_t heads, int64_t width) {
    return at::randn({tokens, heads, width}).to(at::kBFloat16);
  };
  // Views of one tensor, as a model has them.
  const Tensor qk = filled(c.heads + c.key_heads, c.key), v = leaf(filled(c.key_heads, c.value));
  const Tensor q = leaf(qk.narrow(1, 0, c.heads)), k = leaf(qk.narrow(1, c.heads, c.key_heads));
  const Tensor gradient = filled(c.heads, c.value), offsets = to_tensor(c.offsets());
  const kernels::AttentionOptions options{.scale = scale, .window = c.window};
  Result result{
      .name = "attention", .shape = fmt::format("{}, H {} D {}", c.name, c.heads, c.key), .dtype = "bf16"};
  result.passes = passes_of(c, {q, k, v}, gradient,
                            [&] { return kernels::attention(q, k, v, offsets, Tensor(), options).o_thd; });
  result.implementation = kernels::Dispatcher::last("attention").chosen;
  result.error = checked_error(c);
  result.tolerance = kTolerance;
  if (with_peer && c.peer_can()) {
    const auto batched = [&](const Tensor& x) {
      return x.detach().reshape({batch, tokens / batch, x.size(1), x.size(2)}).transpose(1, 2).contiguous();
    };
    const std::vector<Tensor> x = {leaf(batched(q)), leaf(batched(k)), leaf(batched(v))};
    result.peer = Peer{"LibTorch SDPA", passes_of(c, x, batched(gradient), [&] {
                         return at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true, scale);
                       })};
  }
  return result;
}

// One new token over a cache, as sampling does once a layer: bound by reading keys and values.
Result decoding() {
  constexpr int64_t kKeys = 8192, kHeads = 12, kWidth = 64;
  const auto filled = [&](int64_t tokens) { return at::randn({tokens, kHeads, kWidth}).to(at::kBFloat16); };
  kernels::KeyValueCache cache({.heads = kHeads, .key = kWidth, .value = kWidth, .options = at::kBFloat16});
  cache.grow(1);
  const int64_t rows[] = {0}, offsets[] = {0, kKeys};
  cache.append(rows, offsets, filled(kKeys), filled(kKeys));
  const Tensor q = filled(1);
  const kernels::AttentionOptions options{.scale = 0.125};
  Tensor o;
  Result result{.name = "attention_paged",
                .shape = fmt::format("1 query, {} keys, H {} D {}", kKeys, kHeads, kWidth),
                .dtype = "bf16"};
  result.passes.push_back(
      {"", time_of([&] { o = kernels::attention_paged(q, Tensor(), cache, rows, options).o_thd; }), 0,
       4.0 * kKeys * kHeads * kWidth});
  result.implementation = kernels::Dispatcher::last("attention_paged").chosen;
  const auto boundaries = [](int64_t end) { return to_tensor(std::vector<int64_t>{0, end}); };
  const Tensor expected = kernels::attention_reference(q.to(at::kFloat), cache.keys_shd(0).to(at::kFloat),
                                                       cache.values_shd(0).to(at::kFloat), boundaries(1),
                                                       boundaries(kKeys), options)
                              .o_thd;
  result.error = ((o - expected).norm() / expected.norm()).item<double>();
  result.tolerance = kTolerance;
  return result;
}

}  // namespace

void bench_attention(const Request& request, Results& into) {
  for (const Case& c : bench_cases()) into.push_back(result_of(c, request.peer));
  into.push_back(decoding());
}

}  // namespace longhaul::bench
