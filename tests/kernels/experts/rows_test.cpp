// Rows taken and summed by number against plain loops, linear layers on ranges of rows, and routers of every
// kind against the definition.
#include "kernels/experts/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/dispatch.h"
#include "kernels/experts/op.h"
#include "kernels/linear/raw.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::rows_test {
namespace {

using namespace longhaul::testing;

// Token 2 three times, 0 and 5 never.
const std::vector<int64_t> kIndex = {3, 2, 1, 2, 6, 4, 2, 1};
constexpr int64_t kRowsTokens = 7, kChannels = 19;

Tensor numbers(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

Tensor summed_by_hand(const Tensor& y, int64_t tokens) {
  const Tensor out = at::zeros({tokens, y.size(1)}, at::kDouble);
  for (size_t r = 0; r < kIndex.size(); ++r) out[kIndex[r]].add_(y[static_cast<int64_t>(r)].to(at::kDouble));
  return out;
}

// Sums of three are rounded once: half a unit of bf16 of the largest.
TEST(TakenRows, AreTakenAndSummedByNumber) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    for (const auto& [type, tolerance] :
         {std::pair{at::kDouble, 1e-15}, {at::kFloat, 1e-6}, {at::kBFloat16, 4e-3}}) {
      const Tensor x = random_tensor({kRowsTokens, kChannels}, 1, type).requires_grad_(true);
      const auto rows = static_cast<int64_t>(kIndex.size());
      const Tensor y = random_tensor({rows, kChannels}, 2, type).requires_grad_(true),
                   index = numbers(kIndex);
      const Tensor taken = take_rows(x, index), summed = sum_rows(y, index, kRowsTokens);
      for (int64_t r = 0; r < rows; ++r) EXPECT_TRUE(taken[r].equal(x[kIndex[static_cast<size_t>(r)]])) << r;
      EXPECT_LT(relative_error(summed, summed_by_hand(y.detach(), kRowsTokens)), tolerance);
      EXPECT_EQ(summed[0].abs().max().item<double>(), 0) << "no row";
      const Tensor d_taken = random_tensor({rows, kChannels}, 3, type),
                   d_summed = random_tensor({kRowsTokens, kChannels}, 4, type);
      taken.backward(d_taken);
      summed.backward(d_summed);
      EXPECT_LT(relative_error(x.grad(), summed_by_hand(d_taken, kRowsTokens)), tolerance);
      for (int64_t r = 0; r < rows; ++r)
        EXPECT_TRUE(y.grad()[r].equal(d_summed[kIndex[static_cast<size_t>(r)]])) << r;
    }
  });
}

TEST(TakenRows, AtenEqualsCpu) {
  const Tensor x = random_tensor({kRowsTokens, kChannels}, 1),
               y = random_tensor({static_cast<int64_t>(kIndex.size()), kChannels}, 2);
  const auto run = [&] {
    return std::vector<Tensor>{take_rows(x, numbers(kIndex)), sum_rows(y, numbers(kIndex), kRowsTokens)};
  };
  const auto cpu = run();
  EXPECT_EQ(Dispatcher::last("sum_rows").chosen, "cpu");
  for (const char* op : {"take_rows", "sum_rows"}) Dispatcher::force(op, "aten");
  const auto aten = run();
  EXPECT_EQ(Dispatcher::last("sum_rows").chosen, "aten");
  for (const char* op : {"take_rows", "sum_rows"}) Dispatcher::force(op, std::nullopt);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_LT(relative_error(aten[i], cpu[i]), 1e-15) << i;
}

TEST(TakenRows, EdgeCases) {
  const Tensor x = at::zeros({3, 4}), none = numbers({});
  EXPECT_EQ(take_rows(x, none).sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(sum_rows(at::zeros({0, 4}), none, 2).abs().sum().item<double>(), 0);
  EXPECT_THROW(take_rows(x, numbers({0, 3})), Error);
  EXPECT_THROW(take_rows(x, numbers({-1})), Error);
  EXPECT_THROW(sum_rows(x, numbers({0, 1}), 2), Error);
  EXPECT_THROW(sum_rows(x, numbers({0, 1, 2}), 2), Error);
}

TEST(TakenRows, SameForEveryNumberOfThreads) {
  const Tensor y = random_tensor({900, 33}, 1, at::kBFloat16), index = at::arange(900).mul(37).remainder(101);
  expect_same_for_all_threads([&] {
    return std::vector<Tensor>{sum_rows(y, index, 101), take_rows(y, index)};
  });
}

// Whatever ranges the rows come in: the same y and dx, bit by bit where our packed products answer, and one
// sum for the weight.
TEST(LinearRows, RangesAreTheWhole) {
  const PoisonFreshMemory poison;
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 8e-3}}) {
    const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
    const Tensor x = random_tensor({300, 40}, 1, type), weight = random_tensor({33, 40}, 2, type),
                 bias = random_tensor({33}, 3, type), dy = random_tensor({300, 33}, 4, type);
    for (const bool packed : {false, true}) {
      PackedWeight copies;
      const KeptPacked kept = packed ? KeptPacked{&copies, 1} : KeptPacked{};
      const Tensor y = linear_output(x, weight, bias, kept), dx = linear_input_gradient(dy, weight, kept);
      const Tensor sink = at::full({33, 40}, 5, wide);
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 130}, {130, 130}, {130, 300}}) {
        const auto part = [&, from = begin, rows = end - begin](const Tensor& of) {
          return of.narrow(0, from, rows);
        };
        const Tensor some = linear_output(part(x), weight, bias, kept),
                     d_some = linear_input_gradient(part(dy), weight, kept);
        if (begin == end) continue;
        EXPECT_LT(relative_error(some, part(y)), packed && type != at::kDouble ? 1e-30 : tolerance)
            << type << packed;
        EXPECT_LT(relative_error(d_some, part(dx)), packed && type != at::kDouble ? 1e-30 : tolerance)
            << type << packed;
        add_weight_gradient(sink, part(dy), part(x));
      }
      const auto d = [](const Tensor& t) { return t.to(at::kDouble); };
      EXPECT_LT(relative_error(y, at::addmm(d(bias), d(x), d(weight).t())), tolerance);
      EXPECT_LT(relative_error(dx, at::mm(d(dy), d(weight))), tolerance);
      EXPECT_LT(relative_error(sink.sub(5), at::mm(d(dy).t(), d(x))), tolerance);
    }
  }
  EXPECT_THROW(linear_output(at::zeros({2, 3}), at::zeros({4, 4}), {}), Error);
  EXPECT_THROW(linear_input_gradient(at::zeros({2, 3}), at::zeros({4, 4})), Error);
}

// Token by token, in plain loops: scores, the k best by score + bias (ties: the lower expert), weights,
// shares.
struct PlainRouting {
  Tensor weight_tk, choice_tk, share_e;
};
PlainRouting route_by_hand(const Tensor& logits, int64_t k, const RouterOptions& options) {
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  PlainRouting result{at::zeros({tokens, k}, at::kDouble), at::zeros({tokens, k}, at::kLong),
                      at::zeros({experts}, at::kDouble)};
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<double> score(static_cast<size_t>(experts)), judged;
    double all = 0, chosen = 0;
    for (int64_t e = 0; e < experts; ++e) {
      const double z = logits[t][e].item<double>();
      score[static_cast<size_t>(e)] =
          options.score == RouterOptions::Score::kSigmoid ? 1 / (1 + std::exp(-z)) : std::exp(z);
      all += score[static_cast<size_t>(e)];
    }
    for (int64_t e = 0; e < experts; ++e) {
      result.share_e[e] += score[static_cast<size_t>(e)] / all;
      if (options.score == RouterOptions::Score::kSoftmax) score[static_cast<size_t>(e)] /= all;
      judged.push_back(score[static_cast<size_t>(e)] +
                       (options.bias_e.defined() ? options.bias_e[e].item<double>() : 0));
    }
    for (int64_t i = 0; i < k; ++i) {
      const auto best = std::max_element(judged.begin(), judged.end()) - judged.begin();
      judged[static_cast<size_t>(best)] = -1e300;
      result.choice_tk[t][i] = best;
      result.weight_tk[t][i] = score[static_cast<size_t>(best)];
      chosen += score[static_cast<size_t>(best)];
    }
    if (options.normalised) result.weight_tk[t].div_(chosen);
  }
  return result;
}

std::vector<RouterOptions> router_kinds(at::ScalarType type) {
  std::vector<RouterOptions> kinds;
  for (const auto score : {RouterOptions::Score::kSoftmax, RouterOptions::Score::kSigmoid}) {
    for (const bool normalised : {true, false}) {
      for (const bool biased : {false, true})
        kinds.push_back({.score = score,
                         .normalised = normalised,
                         .bias_e = biased ? random_tensor({7}, 5, type).mul(0.3) : Tensor()});
    }
  }
  return kinds;
}

TEST(RouteKinds, EqualTheDefinition) {
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-12}, {at::kFloat, 2e-6}}) {
    const Tensor hidden = random_tensor({41, 12}, 1, type), router = random_tensor({7, 12}, 2, type).mul(0.4);
    const Tensor logits = at::mm(hidden.to(at::kDouble), router.to(at::kDouble).t());
    for (const RouterOptions& options : router_kinds(type)) {
      const Routing found = route(hidden, router, 3, {}, {}, options);
      EXPECT_EQ(Dispatcher::last("route").chosen, options.plain() ? "cpu" : "aten");
      const PlainRouting expected = route_by_hand(logits, 3, options);
      EXPECT_TRUE(found.choice_tk.equal(expected.choice_tk));
      EXPECT_LT(relative_error(found.weight_tk, expected.weight_tk), tolerance);
      EXPECT_LT(relative_error(found.probability_sum_se[0], expected.share_e), tolerance);
      EXPECT_EQ(found.count_se.sum().item<int64_t>(), 41 * 3);
    }
  }
}

TEST(RouteKinds, Gradients) {
  const Tensor mix = random_tensor({6, 2}, 3), shares = random_tensor({1, 7}, 4);
  for (const RouterOptions& options : router_kinds(at::kDouble)) {
    const auto loss = [&](const Tensor& hidden, const Tensor& router, const Tensor& sink) {
      const Routing routing = route(hidden, router, 2, sink, {}, options);
      return routing.weight_tk.mul(mix).sum() + routing.probability_sum_se.mul(shares).sum() +
             routing.log_sum_square.mul(0.3);
    };
    const Tensor hidden = random_tensor({6, 9}, 1), router = random_tensor({7, 9}, 2),
                 sink = at::full({7, 9}, 2, at::kDouble);
    check_gradients(
        [&](const std::vector<Tensor>& in) { return loss(in[0], router, at::zeros_like(router)); }, {hidden});
    loss(hidden.clone().requires_grad_(true), router, sink).backward();
    const Tensor step = random_tensor({7, 9}, 8).mul(1e-6);
    const double slope =
        loss(hidden, router + step, {}).item<double>() - loss(hidden, router - step, {}).item<double>();
    EXPECT_NEAR(slope / 2e-6, sink.sub(2).mul(step).sum().item<double>() / 1e-6, 1e-6);
  }
}

TEST(RouteKinds, RefuseABadBias) {
  const Tensor hidden = at::zeros({2, 3}), router = at::zeros({4, 3});
  EXPECT_THROW(route(hidden, router, 2, {}, {}, {.bias_e = at::zeros({3})}), Error);
  EXPECT_THROW(route(hidden, router, 2, {}, {}, {.bias_e = at::zeros({4}, at::kDouble)}), Error);
}

}  // namespace
}  // namespace longhaul::kernels::rows_test
