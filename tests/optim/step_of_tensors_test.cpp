// The step that Python users have: states in the documented order, in place, and what is refused.
#include "optim/step_of_tensors.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/optimizers.h"
#include "support/tensors.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;

std::vector<Tensor> zeros(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<Tensor> all;
  for (const auto& shape : shapes) all.push_back(at::zeros(shape, at::kDouble));
  return all;
}

// Of a matrix [5, 3] and a vector [4], by the table of the header.
std::vector<Tensor> states_of(const std::string& name) {
  if (name == "adamw" || name == "lamb") return zeros({{5, 3}, {5, 3}, {4}, {4}});
  if (name == "came") return zeros({{5, 3}, {5}, {3}, {5}, {3}, {4}, {4}});
  if (name == "adafactor") return zeros({{5}, {3}, {4}});
  if (name == "sm3") return zeros({{5, 3}, {5}, {3}, {4}, {4}});
  if (name == "muon") return zeros({{5, 3}, {4}, {4}});
  return zeros({{5, 3}, {4}});
}

TEST(StepOfTensors, StatesAreInTheirOrderAndInPlace) {
  for (const recipe::OptimizerEntry& entry : recipe::optimizers()) {
    const std::string name(entry.name);
    const std::vector<Tensor> values = {random_tensor({5, 3}, 1).to(at::kDouble), random_tensor({4}, 2).to(at::kDouble)};
    const std::vector<Tensor> before = {values[0].clone(), values[1].clone()}, states = states_of(name);
    for (int64_t step = 1; step <= 2; ++step) {
      const std::vector<Tensor> gradients = {random_tensor({5, 3}, 10 + static_cast<uint64_t>(step)).to(at::kDouble),
                                             random_tensor({4}, 20 + static_cast<uint64_t>(step)).to(at::kDouble)};
      step_of_tensors(name, values, gradients, states, step, 1e-2, {});
    }
    for (size_t i = 0; i < values.size(); ++i) EXPECT_FALSE(values[i].equal(before[i])) << name;
    for (size_t i = 0; i < states.size(); ++i) EXPECT_GT(states[i].abs().max().item<double>(), 0) << name << " " << i;
  }
}

// AdamW of two steps by hand; SGD without momentum keeps nothing.
TEST(StepOfTensors, IsTheEquations) {
  const Tensor w = at::tensor({0.5, -1.0}, at::kDouble), m = at::zeros({2}, at::kDouble), v = at::zeros({2}, at::kDouble);
  Tensor expected = w.clone(), first = m.clone(), second = v.clone();
  for (int64_t step = 1; step <= 2; ++step) {
    const Tensor g = at::tensor({0.1, 0.3}, at::kDouble) * static_cast<double>(step);
    const double t = static_cast<double>(step);
    first = first * 0.9 + g * 0.1, second = second * 0.99 + g * g * 0.01;
    expected = expected * (1 - 0.01 * 0.2) - first / (1 - std::pow(0.9, t)) / ((second / (1 - std::pow(0.99, t))).sqrt() + 1e-6) * 0.01;
    step_of_tensors("adamw", std::vector{w}, std::vector{g}, std::vector{m, v}, step, 0.01, std::vector{0.9, 0.99, 1e-6, 0.2});
  }
  EXPECT_LT(relative_error(w, expected), 1e-14);
  EXPECT_LT(relative_error(m, first), 1e-14);
  EXPECT_LT(relative_error(v, second), 1e-14);
  const Tensor x = at::tensor({2.0f});
  step_of_tensors("sgd", std::vector{x}, std::vector{at::tensor({1.0f})}, {}, 1, 0.5, std::vector{0.0, 0.0});
  EXPECT_EQ(x.item<float>(), 1.5f);
}

TEST(StepOfTensors, RefusesWhatDoesNotFit) {
  const Tensor w = at::ones({2, 2}), g = at::ones({2, 2});
  const auto refused = [&](const std::string& name, std::vector<Tensor> values, std::vector<Tensor> gradients, std::vector<Tensor> states,
                           int64_t step, std::vector<double> options) {
    try {
      step_of_tensors(name, values, gradients, states, step, 0.1, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::vector<Tensor> momentum = {at::zeros({2, 2})};
  EXPECT_EQ(refused("lion", {w}, {g}, momentum, 1, {}), "");
  EXPECT_NE(refused("nobody", {w}, {g}, momentum, 1, {}).find("lion"), std::string::npos);
  EXPECT_NE(refused("lion", {w}, {g}, {}, 1, {}).find("states"), std::string::npos);
  EXPECT_NE(refused("lion", {w}, {g}, {at::zeros({4})}, 1, {}).find("momentum"), std::string::npos);
  EXPECT_NE(refused("lion", {w}, {}, momentum, 1, {}).find("gradients"), std::string::npos);
  EXPECT_NE(refused("lion", {w}, {at::ones({3})}, momentum, 1, {}).find("gradients[0]"), std::string::npos);
  EXPECT_NE(refused("lion", {at::ones({2, 2, 2})}, {g}, momentum, 1, {}).find("values[0]"), std::string::npos);
  EXPECT_NE(refused("lion", {w}, {g}, momentum, 0, {}).find("step"), std::string::npos);
  EXPECT_NE(refused("lion", {w}, {g}, momentum, 1, {1.5}).find("beta1"), std::string::npos);
  EXPECT_NE(refused("lion", {w}, {g}, momentum, 1, {std::nan("")}).find("beta1"), std::string::npos);
  EXPECT_NE(refused("lion", {w}, {g}, momentum, 1, {0.9, 0.99, 0.1, 7}).find("at most 3"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::optim
