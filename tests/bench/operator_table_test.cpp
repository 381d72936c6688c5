// The work that operators report, beside the plan's formulas; and what lies inside what.
#include "bench/models/operator_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "bench/models/train.h"
#include "plan/flops.h"
#include "recipe/load.h"

namespace longhaul::bench {
namespace {

using kernels::OperatorClock;
using kernels::OperatorFrame;
using kernels::OperatorTime;

constexpr int64_t kTokens = 96, kSequences = 2;

MachineProfile peak() {
  MachineProfile profile;
  profile.gemm_fp32 = profile.gemm_bf16 = profile.gemm_fp64 = 1e11;
  profile.memory_bytes_per_second = 1e10;
  return profile;
}

std::vector<OperatorTime> operators_of(const std::vector<std::string>& overrides) {
  std::vector<OperatorTime> rows;
  bench_train({.preset = "softmax-bench",
               .batch = kSequences,
               .sequence = kTokens,
               .dtype = "fp32",
               .steps = 2,
               .overrides = overrides},
              peak(), &rows);
  return rows;
}

std::vector<std::string> small(std::vector<std::string> more) {
  std::vector<std::string> words = {
      "model.layers=2",        "model.hidden=64",           "model.vocabulary=320", "data.vocabulary=300",
      "model.heads=4",         "model.kv_heads=2",          "model.head_dim=16",    "model.rotary_dim=16",
      "model.intermediate=48", "model.preset=softmax-bench"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The plan counts a label for every token and half of the diagonal of causal attention; the step has none for
// the last token of a sequence and the whole diagonal. Routers' products are left out.
double planned(const std::vector<std::string>& words) {
  const recipe::ModelConfig model = recipe::load_defaults(words).recipe.model;
  const plan::TokenFlops token = plan::training_flops_per_token(model, kTokens);
  const auto tokens = static_cast<double>(kSequences * kTokens);
  const double head = 6.0 * static_cast<double>(model.vocabulary * model.hidden),
               routers = model.experts > 0
                             ? 6.0 * static_cast<double>(model.layers * model.hidden * model.experts)
                             : 0;
  return (token.matrices - routers + token.recurrence + token.attention_causal * (kTokens + 1) / kTokens) *
             tokens -
         head * kSequences;
}

class OperatorWork : public ::testing::TestWithParam<std::pair<const char*, std::vector<std::string>>> {};

TEST_P(OperatorWork, IsWhatThePlanCounts) {
  const std::vector<std::string> words = small(GetParam().second);
  double flops = 0;
  for (const OperatorTime& row : operators_of(words)) flops += row.flops / 2;  // of two steps
  EXPECT_NEAR(flops, planned(words), 1e-9 * flops);
}

INSTANTIATE_TEST_SUITE_P(
    Models, OperatorWork,
    ::testing::Values(
        std::pair{"softmax", std::vector<std::string>{"model.experts=0"}},
        std::pair{"gelu_with_biases",
                  std::vector<std::string>{"model.experts=0", "model.channel=gelu", "model.bias=true"}},
        std::pair{"experts", std::vector<std::string>{"model.experts=4", "model.experts_per_token=2"}},
        std::pair{"lightning", std::vector<std::string>{"model.experts=0", "model.mixers=lightning"}},
        std::pair{"deltanet", std::vector<std::string>{"model.experts=0", "model.mixers=deltanet"}},
        std::pair{"mamba2", std::vector<std::string>{"model.experts=0", "model.mixers=mamba2"}}),
    [](const auto& each) { return std::string(each.param.first); });

TEST(OperatorTimes, WhatIsInsideIsNotCountedTwice) {
  OperatorClock clock(at::kCPU);
  const Stopwatch watch;
  {
    const OperatorFrame outer("outer");
    for (int i = 0; i < 3; ++i) {
      OperatorFrame inner("inner", "forward");
      const Tensor x = at::ones({256, 256});
      inner.moves({x, x.t(), Tensor(), x.mm(x)});
      kernels::count_flops(5);
    }
    kernels::count_flops(7);
    std::thread([] { const OperatorFrame beside("beside"); }).join();
  }
  const double passed = watch.milliseconds();
  kernels::count_flops(1000);  // of no operator
  std::map<std::string, OperatorTime> rows;
  for (const OperatorTime& row : clock.rows()) rows[row.op] = row;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows["inner"].calls, 3);
  EXPECT_EQ(rows["inner"].flops, 15);
  EXPECT_EQ(rows["inner"].bytes, 3 * 2 * 4 * 256 * 256) << "two tensors, of which a view is no third";
  EXPECT_EQ(rows["outer"].flops, 7);
  EXPECT_GE(rows["outer"].milliseconds, 0) << "the thread lies in it too";
  EXPECT_GT(rows["inner"].milliseconds, 0);
  EXPECT_LE(rows["outer"].milliseconds + rows["inner"].milliseconds + rows["beside"].milliseconds, passed)
      << "each moment once";
}

TEST(OperatorTimes, AreShownForOneStep) {
  const std::vector<OperatorTime> rows = {
      {.op = "linear", .pass = "forward", .calls = 8, .milliseconds = 6, .flops = 6e8, .bytes = 6e6},
      {.op = "between operators", .pass = "", .calls = 2, .milliseconds = 2}};
  const std::string table = operator_table(rows, 2, "fp32", peak(), /*colours=*/false);
  EXPECT_THAT(table,
              ::testing::ContainsRegex(
                  "linear +forward +4 +3.000 +75.0 % +100.0 GFLOP/s \\(100 %\\) +1.0 GB/s \\(10 %\\)"));
  EXPECT_THAT(table, ::testing::ContainsRegex("all +5 +4.000 +100.0 %"));
  const nlohmann::ordered_json json = operators_json(rows, 2);
  EXPECT_EQ(json.at(0).at("flops"), 3e8);
  EXPECT_EQ(json.at(1).at("milliseconds"), 1);
}

}  // namespace
}  // namespace longhaul::bench
