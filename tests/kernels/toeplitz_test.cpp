// The Toeplitz encoding against the matrix of all pairs of tokens in fp64, by finite differences, cut into
// calls, and at extremes.
#include "kernels/toeplitz/op.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

// κ_c(τ) summed from its definition, for all pairs; `initial` stands for what came before: λ^(t + 1) of it is
// left at token t.
Toeplitz by_pairs(const Tensor& x, const Tensor& coefficient, const Tensor& log_decay,
                  const std::vector<int64_t>& offsets, const Tensor& initial) {
  std::vector<Tensor> rows{x.narrow(0, 0, 0)}, states;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const int64_t begin = offsets[n], count = offsets[n + 1] - begin;
    const Tensor t = at::arange(count, at::kDouble), apart = t.unsqueeze(1) - t.unsqueeze(0);
    // [t, s, e]
    const Tensor powers = (apart.clamp_min(0).unsqueeze(2) * log_decay).exp();
    // [t, s, c]
    const Tensor kernel = at::matmul(powers, coefficient.t()) * apart.ge(0).unsqueeze(2);
    // [t, e]
    const Tensor left = ((count - 1 - t).unsqueeze(1) * log_decay).exp(),
                 before = ((t + 1).unsqueeze(1) * log_decay).exp();
    const Tensor part = x.narrow(0, begin, count);
    Tensor y = (kernel * part.unsqueeze(0)).sum(1), state = at::mm(left.t(), part);
    if (initial.defined()) {
      const Tensor entering = initial[static_cast<int64_t>(n)];  // [e, c]
      y = y + at::mm(before, coefficient.t() * entering);
      state = state + (log_decay * static_cast<double>(count)).exp().unsqueeze(1) * entering;
    }
    rows.push_back(y);
    states.push_back(state);
  }
  return {at::cat(rows), at::stack(states)};
}

std::vector<Tensor> toeplitz_leaves(const std::vector<Tensor>& from,
                                    std::optional<at::ScalarType> type = {}) {
  std::vector<Tensor> to;
  for (const Tensor& each : from)
    to.push_back(each.defined() ? each.to(type.value_or(each.scalar_type())).clone().requires_grad_(true)
                                : Tensor());
  return to;
}

void expect_same(const Toeplitz& found, const std::vector<Tensor>& in, const Toeplitz& wanted,
                 const std::vector<Tensor>& again, double tolerance, const std::string& what) {
  EXPECT_LT(relative_error(found.y_td, wanted.y_td), tolerance) << what;
  EXPECT_LT(relative_error(found.final_state_ned, wanted.final_state_ned), tolerance) << what;
  const Tensor mix = random_tensor(found.y_td.sizes(), 40),
               last = random_tensor(found.final_state_ned.sizes(), 41);
  const auto mixed = [&](const Toeplitz& of) {
    return of.y_td.to(at::kDouble).mul(mix).sum() + of.final_state_ned.to(at::kDouble).mul(last).sum();
  };
  mixed(found).backward();
  mixed(wanted).backward();
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined()) continue;
    EXPECT_LT(relative_error(in[i].grad(), again[i].grad()), tolerance) << what << ", gradient " << i;
  }
}

const std::vector<int64_t> kToeplitzDocuments = {0, 1, 1, 8, 75, 204};
const std::pair<at::ScalarType, double> kToeplitzTypes[] = {
    {at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 1e-2}};

// x, B, log λ, and an initial state.
std::vector<Tensor> toeplitz_values(int64_t tokens, int64_t documents, int64_t channels, int64_t exponentials,
                                    at::ScalarType type, bool state) {
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  return {random_tensor({tokens, channels}, 1, type), random_tensor({channels, exponentials}, 2, wide),
          random_tensor({exponentials}, 3, wide).mul(2).exp().neg(),
          state ? random_tensor({documents, exponentials, channels}, 4, wide) : Tensor()};
}

TEST(Toeplitz, EqualsTheMatrixOfAllPairs) {
  const PoisonFreshMemory poison;
  const Tensor offsets = to_tensor(kToeplitzDocuments);
  for_each_instruction_set([&] {
    for (const auto& [type, tolerance] : kToeplitzTypes) {
      for (const auto& [channels, exponentials] : {std::pair<int64_t, int64_t>{3, 1}, {70, 5}}) {
        for (const bool state : {false, true}) {
          const auto values = toeplitz_values(204, 5, channels, exponentials, type, state);
          const auto in = toeplitz_leaves(values), again = toeplitz_leaves(values, at::kDouble);
          expect_same(toeplitz(in[0], in[1], in[2], offsets, in[3]), in,
                      by_pairs(again[0], again[1], again[2], kToeplitzDocuments, again[3]), again, tolerance,
                      std::string(name_of(type)) + (state ? " from a state" : ""));
        }
      }
    }
  });
}

TEST(Toeplitz, InChunksOnAnyDevice) {
  const Tensor offsets = to_tensor(kToeplitzDocuments);
  for (const bool state : {false, true}) {
    const auto values = toeplitz_values(204, 5, 6, 4, at::kDouble, state);
    const auto in = toeplitz_leaves(values), again = toeplitz_leaves(values);
    expect_same(toeplitz_aten(in[0], in[1], in[2], offsets, in[3]), in,
                by_pairs(again[0], again[1], again[2], kToeplitzDocuments, again[3]), again, 1e-12,
                "in chunks");
  }
}

TEST(Toeplitz, Gradients) {
  const Tensor offsets = to_tensor(std::vector<int64_t>{0, 2, 11});
  const Tensor mix = random_tensor({11, 3}, 5), last = random_tensor({2, 2, 3}, 7);
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        const Toeplitz out = toeplitz(in[0], in[1], in[2].exp().neg(), offsets, in[3]);
        return out.y_td.mul(mix).sum() + out.final_state_ned.mul(last).sum();
      },
      {random_tensor({11, 3}, 1), random_tensor({3, 2}, 2), random_tensor({2}, 3),
       random_tensor({2, 2, 3}, 4)});
}

// A gradient alone, of each input, and of y or of the last state alone, is that of all together.
TEST(Toeplitz, GradientsOfSomeInputsOnly) {
  const auto values = toeplitz_values(20, 1, 5, 3, at::kDouble, true);
  for (const bool of_state : {false, true}) {
    const auto gradients = [&](int64_t only) {
      std::vector<Tensor> in;
      for (size_t i = 0; i < values.size(); ++i)
        in.push_back(values[i].clone().requires_grad_(only < 0 || only == static_cast<int64_t>(i)));
      const Toeplitz out = toeplitz(in[0], in[1], in[2], {}, in[3]);
      (of_state ? out.final_state_ned.square().sum() : out.y_td.square().sum()).backward();
      return in;
    };
    const auto all = gradients(-1);
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(gradients(i)[static_cast<size_t>(i)].grad().equal(all[static_cast<size_t>(i)].grad()))
          << i << of_state;
    }
  }
}

// However a document is cut into calls, the same bits; other sequences' states stay.
TEST(Toeplitz, ContinuesToTheBit) {
  const auto values = toeplitz_values(21, 1, 37, 6, at::kFloat, false);
  const Toeplitz whole = toeplitz(values[0], values[1], values[2], {}, {});
  const Tensor states = at::zeros({3, 6, 37});
  states[0].fill_(7);
  const std::vector<int64_t> rows{2};
  for (const auto& [begin, length] : {std::pair<int64_t, int64_t>{0, 5}, {5, 1}, {6, 15}}) {
    const Tensor part =
        toeplitz_continued(values[0].narrow(0, begin, length), values[1], values[2], {states, rows}, {});
    EXPECT_TRUE(part.equal(whole.y_td.narrow(0, begin, length))) << begin;
  }
  EXPECT_TRUE(states[2].equal(whole.final_state_ned[0]));
  EXPECT_TRUE(states[0].eq(7).all().item<bool>());
}

// λ = 1 sums without end, λ = 0 keeps the token alone; both are exact.
TEST(Toeplitz, KnownAnswers) {
  const Tensor x = at::arange(1, 1001, at::kDouble).unsqueeze(1),
               two = at::tensor({1.0, 10.0}, at::kDouble).unsqueeze(0);
  const Tensor y = toeplitz(x, two, at::tensor({0.0, -1e4}, at::kDouble), {}, {}).y_td;
  EXPECT_TRUE(y.equal(x.cumsum(0) + 10 * x));
}

TEST(Toeplitz, DoesNotDependOnThreads) {
  const auto values = toeplitz_values(40, 1, 150, 7, at::kFloat, false);
  expect_same_for_all_threads([&] {
    const auto in = toeplitz_leaves(values);
    const Toeplitz out = toeplitz(in[0], in[1], in[2], {}, {});
    out.y_td.square().sum().backward();
    return std::vector<Tensor>{out.y_td.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
  });
}

TEST(Toeplitz, RefusesWhatDoesNotFit) {
  const Tensor x = at::zeros({4, 6}), b = at::zeros({6, 2}), l = at::zeros({2});
  EXPECT_THROW(toeplitz(x.view({24}), b, l, {}, {}), Error);
  EXPECT_THROW(toeplitz(x, at::zeros({5, 2}), l, {}, {}), Error);
  EXPECT_THROW(toeplitz(x, b, at::zeros({3}), {}, {}), Error);
  EXPECT_THROW(toeplitz(x, b, l, {}, at::zeros({2, 2, 6})), Error);
  EXPECT_THROW(toeplitz(x, b, at::full({2}, 0.5f), {}, {}), Error) << "it would grow without end";
}

}  // namespace
}  // namespace longhaul::kernels
