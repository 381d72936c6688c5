// Known values of every optimizer but CAME (came_test.cpp): docs/sources/optimizers.md §12, and
// tests/optim/known_values.py, which is apart from this code.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/threads/parallel.h"
#include "kernels/gemm/block.h"
#include "kernels/newton_schulz/newton_schulz.h"
#include "kernels/newton_schulz/op.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"
#include "parameters_for_tests.h"
#include "recipe/optimizers/optimizers.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::optim {
namespace {

using kernels::newton_schulz;
using longhaul::testing::relative_error;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers
using recipe::AdafactorForm;

using Numbers = std::vector<double>;
const Numbers kWeights = {0.5, -0.25, 0.125, -1, 0.75, 0.3};
const Numbers kGradients[] = {
    {0.1, -0.2, 0.3, -0.4, 0.5, -0.6}, {0.2, 0.1, -0.3, 0.05, -0.15, 0.25}, {-0.1, 0.4, 0.2, 0.3, 0, -0.5}};

struct Known {
  std::string label;
  recipe::OptimOptions options;
  Numbers expected;  // after three steps; six numbers: of the matrix, three: of its first row as a vector
};

std::vector<Known> known() {
  return {
      {"lamb",
       {.name = "lamb", .beta2 = 0.999, .eps = 1e-6, .weight_decay = 1e-2},
       {0.477508519904, -0.24796974603, 0.116375637046, -0.988132106153, 0.734573850467, 0.317882802095}},
      {"lamb l2",
       {.name = "lamb",
        .beta2 = 0.999,
        .eps = 1e-6,
        .lamb_decay = recipe::LambDecay::kL2,
        .weight_decay = 1e-2},
       {0.477367889265, -0.247690646961, 0.116327876734, -0.987724129635, 0.734398895586, 0.317741841835}},
      {"lamb no decay",
       {.name = "lamb", .beta2 = 0.999, .eps = 1e-6, .weight_decay = 0},
       {0.476147477444, -0.24190999707, 0.113168726943, -0.984541839163, 0.732414274644, 0.319252885274}},
      {"nvlamb no decay",
       {.name = "lamb", .beta2 = 0.999, .eps = 1e-6, .nvlamb = true, .weight_decay = 0},
       {0.477541527164, -0.248012586293, 0.116389109251, -0.988368953966, 0.734735935256, 0.318046593042}},
      {"lamb sums",
       {.name = "lamb", .beta2 = 0.999, .eps = 1e-6, .lamb_grad_averaging = false, .weight_decay = 1e-2},
       {0.477538150087, -0.248008346109, 0.116387716827, -0.988345172248, 0.734719608471, 0.318030236605}},
      // The ratios are about 0.57, 1.09 and 1.46: one bound raises the first, the other lowers the last.
      {"lamb bounded",
       {.name = "lamb",
        .beta2 = 0.999,
        .eps = 1e-6,
        .lamb_min_ratio = 0.8,
        .lamb_max_ratio = 1.25,
        .weight_decay = 1e-2},
       {0.476129777403, -0.244752587962, 0.114586320493, -0.985815041092, 0.732994042905, 0.318919521668}},
      {"lamb no decay, bounded",
       {.name = "lamb", .beta2 = 0.999, .eps = 1e-6, .lamb_min_ratio = 2, .weight_decay = 0},
       {0.476147477444, -0.24190999707, 0.113168726943, -0.984541839163, 0.732414274644, 0.319252885274}},
      {"adafactor torch",
       {.name = "adafactor", .adafactor_form = AdafactorForm::kTorch, .weight_decay = 1e-2},
       {0.492281852144, -0.257255992727, 0.121068433683, -1.00095140124, 0.746635595478, 0.308446182273}},
      {"adafactor fairseq",
       {.name = "adafactor", .weight_decay = 1e-2},
       {0.492345380968, -0.257288709807, 0.121084143684, -1.00107986413, 0.746731592875, 0.308485421588}},
      {"adafactor fairseq, external lr, momentum",
       {.name = "adafactor",
        .momentum = 0.9,
        .scale_by_weights = false,
        .relative_step = false,
        .weight_decay = 1e-2},
       {0.496357904381, -0.250055749825, 0.12332114334, -0.998292163626, 0.74792493145, 0.302563228404}},
      {"adafactor big_vision, momentum",
       {.name = "adafactor",
        .momentum = 0.9,
        .adafactor_form = AdafactorForm::kBigVision,
        .weight_decay = 1e-2},
       {0.496357904381, -0.250055749825, 0.12332114334, -0.998292163626, 0.74792493145, 0.302563228404}},
      {"adafactor torch, vector",
       {.name = "adafactor", .adafactor_form = AdafactorForm::kTorch, .weight_decay = 1e-2},
       {0.494846144861, -0.253355804876, 0.122483475537}},
      {"adafactor fairseq, vector",
       {.name = "adafactor", .weight_decay = 1e-2},
       {0.494946195053, -0.253406630968, 0.12250832288}},
      {"lion",
       {.name = "lion", .beta2 = 0.99, .weight_decay = 1e-2},
       {0.4898530149, -0.2599260074, 0.11496350365, -1.0097010299, 0.739776022399, 0.3099090091}},
      {"sgd",
       {.name = "sgd", .nesterov = false, .weight_decay = 1e-2},
       {0.494340504989, -0.25040548748, 0.12053307372, -0.992811139959, 0.739076322449, 0.31641851906}},
      {"sgd nesterov",
       {.name = "sgd", .weight_decay = 1e-2},
       {0.492891855981, -0.253357739462, 0.118976316693, -0.993000778923, 0.736647042404, 0.323266718114}},
      {"sm3",
       {.name = "sm3", .momentum = 0, .weight_decay = 0},
       {0.368607150995, -0.250222210659, 0.0530705348475, -0.972105704872, 0.678734788557, 0.422509537623}},
      {"sm3 momentum, decay",
       {.name = "sm3", .weight_decay = 1e-2},
       {0.496327201793, -0.248502092963, 0.123169824481, -0.997822995895, 0.747611244737, 0.302498699001}},
      {"muon",
       {.name = "muon", .weight_decay = 1e-2},
       {0.499744322426, -0.253040054042, 0.123616979739, -0.996566508288, 0.745221794274, 0.305439281227}},
      {"muon original, no nesterov",
       {.name = "muon", .nesterov = false, .muon_scale = recipe::MuonScale::kOriginal, .weight_decay = 1e-2},
       {0.491473870771, -0.259547485052, 0.120304597322, -0.99260475983, 0.737743006977, 0.315028331621}},
      {"adamw",
       {.name = "adamw", .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2},
       {0.476000269, -0.241837222, 0.113133138, -0.984244398, 0.732191683, 0.319160598}},
  };
}

Tensor shaped(const Numbers& numbers, size_t count) {
  const Tensor flat = at::tensor(numbers, at::kDouble).narrow(0, 0, static_cast<int64_t>(count));
  return count == 6 ? flat.view({2, 3}) : flat;
}

model::ParameterSet set_of(size_t count, const std::string& dtype) {
  layout::ParameterSpec tensor = spec("w", count == 6 ? layout::Shape{2, 3} : layout::Shape{3}, true);
  tensor.layer = 0;
  model::ParameterSet set({tensor}, Precision::named(dtype), at::kCPU);
  set.add_stacked("w", {"w"});
  set.allocate();
  value_of(set, "w").copy_(shaped(kWeights, count));
  return set;
}

TEST(KnownValues, OfThreeSteps) {
  for (const Known& each : known()) {
    for (const char* dtype : {"fp64", "fp32"}) {
      SCOPED_TRACE(each.label + ", " + dtype);
      const size_t count = each.expected.size();
      model::ParameterSet set = set_of(count, dtype);
      const auto optimizer = make_optimizer(each.options, set, Precision::named(dtype));
      for (const Numbers& gradient : kGradients) {
        const Tensor g = shaped(gradient, count);
        grad_of(set, "w").copy_(g * 4);
        // as apex clips
        const double norm = g.norm().item<double>(),
                     clip = each.options.name == "lamb" && norm > 1 ? 1 / norm : 1;
        optimizer->step({.lr = each.options.name == "sm3" && each.options.momentum == 0 ? 0.1 : 1e-2,
                         .gradient_scale = 0.25 * clip});
        EXPECT_TRUE(grad_of(set, "w").eq(0).all().item<bool>());
      }
      EXPECT_LT(relative_error(value_of(set, "w"), shaped(each.expected, count)),
                std::string(dtype) == "fp64" ? 1e-8 : 1e-6);
    }
  }
}

// Of each of the three steps: docs/sources/optimizers.md §12, with nine digits.
TEST(KnownValues, TrustRatiosOfLamb) {
  const Numbers ratios = {0.572326366, 1.08721437, 1.45729595};
  model::ParameterSet set = set_of(6, "fp64");
  const auto optimizer = make_optimizer({.name = "lamb", .beta2 = 0.999, .eps = 1e-6, .weight_decay = 1e-2},
                                        set, Precision::named("fp64"));
  for (size_t step = 0; step < ratios.size(); ++step) {
    const Tensor g = shaped(kGradients[step], 6);
    grad_of(set, "w").copy_(g);
    // as apex clips
    optimizer->step({.lr = 1e-2, .gradient_scale = 1 / std::max(1.0, g.norm().item<double>())});
    const std::vector<OfTensor> measured = optimizer->measured();
    ASSERT_EQ(measured.size(), 1u);
    EXPECT_EQ(measured[0].name, kTrustRatio);
    EXPECT_NEAR(measured[0].number, ratios[step], 1e-8 * ratios[step]) << step;
  }
}

TEST(KnownValues, BoundsOfSm3) {
  model::ParameterSet set = set_of(6, "fp64");
  const auto optimizer =
      make_optimizer({.name = "sm3", .momentum = 0, .weight_decay = 0}, set, Precision::named("fp64"));
  for (const Numbers& gradient : kGradients) {
    grad_of(set, "w").copy_(shaped(gradient, 6));
    optimizer->step({.lr = 0.1});
  }
  std::map<std::string, Tensor> state;
  for (const StateTensor& each : optimizer->state()) state[each.kind] = each.view;
  EXPECT_LT(relative_error(state.at("row_bound"), at::tensor({0.34, 0.6725}, at::kDouble)), 1e-14);
  EXPECT_LT(relative_error(state.at("column_bound"), at::tensor({0.2525, 0.34, 0.6725}, at::kDouble)), 1e-14);
}

// The other side first gives the transpose; singular values end where the specification says.
TEST(NewtonSchulz, KnownValuesAndRange) {
  const Tensor g = shaped(kGradients[0], 6);
  const Tensor expected = at::tensor({-0.568290092089, -0.0577419432735, 0.683773978636, -0.563354684342,
                                      0.405612823564, -0.247870962786},
                                     at::kDouble)
                              .view({2, 3});
  EXPECT_LT(relative_error(newton_schulz(g, 5), expected), 1e-10);
  EXPECT_LT(relative_error(newton_schulz(g.t(), 5).t(), expected), 1e-10);
  EXPECT_LT(relative_error(newton_schulz(g.to(at::kFloat), 5), expected), 1e-5);
  EXPECT_EQ(newton_schulz(at::zeros({3, 4}, at::kDouble), 5).abs().max().item<double>(), 0);
  // Of scalars in exact arithmetic.
  for (const auto& [value, known] : {std::pair(1.0, 0.696436),
                                     {0.5, 0.765439},
                                     {0.1, 0.712120},
                                     {0.01, 0.698917},
                                     {0.001, 0.470544},
                                     {1e-4, 0.048473}}) {
    const Tensor diagonal = at::diag(at::tensor({value, std::sqrt(1 - value * value)}, at::kDouble));
    EXPECT_NEAR(newton_schulz(diagonal, 5)[0][0].item<double>(), known, 2e-6) << value;
  }
  // Our own products, against LibTorch's in fp64: sizes that fill no whole tile.
  for (const auto& [rows, columns] : {std::pair(48, 80), std::pair(129, 65), std::pair(1, 7)}) {
    const Tensor x = longhaul::testing::random_tensor({rows, columns}, 5);
    const Tensor fp64 = newton_schulz(x.to(at::kDouble), 5);
    EXPECT_LT(relative_error(newton_schulz(x.to(at::kFloat), 5), fp64), 2e-5);
    const Tensor values = at::linalg_svdvals(fp64);
    EXPECT_LT(values.max().item<double>(), 1.203);
  }
}

// The sets of kernels/gemm/block.h that have an instruction for it.
bool block_sets_that_multiply_bf16() {
  const std::string_view name = kernels::block_kernels().name;
  return name == "amx" || name == "avx512_bf16" || name == "neon_bf16";
}

// Products in bf16: where the iteration in exact arithmetic of the same matrix ends, to what its roundings
// leave (specs: 2e-2), on many matrices at once, tall and wide, of a thread each and of all threads.
TEST(NewtonSchulz, ProductsInBf16) {
  const longhaul::testing::PoisonFreshMemory poison;
  std::vector<Tensor> matrices = {at::zeros({5, 9}, at::kFloat), at::empty({0, 4}, at::kFloat)};
  for (const auto& [rows, columns] :
       {std::pair(48, 80), {129, 65}, {1, 7}, {7, 1}, {64, 64}, {200, 130}, {1100, 520}, {520, 1030}})
    matrices.push_back(
        longhaul::testing::random_tensor({rows, columns}, static_cast<uint64_t>(rows), at::kFloat));
  const auto with = [&](kernels::NewtonSchulzProducts products) {
    std::vector<Tensor> results;
    std::vector<kernels::NewtonSchulzMatrix> problems;
    for (const Tensor& matrix : matrices) {
      results.push_back(at::empty_like(matrix));
      problems.push_back({matrix.const_data_ptr<float>(), results.back().mutable_data_ptr<float>(),
                          matrix.size(0), matrix.size(1)});
    }
    kernels::newton_schulz_bf16(problems, 5, products);
    return results;
  };
  using Products = kernels::NewtonSchulzProducts;
  // In bf16 five iterations, each with three roundings of 2^-9 that the next one stretches by up to 3.4.
  for (const auto& [products, largest, together] :
       {std::tuple(Products::kBf16, 2e-2, 3e-2), {Products::kFp32, 1e-4, 2e-5}}) {
    const std::vector<Tensor> found = with(products);
    EXPECT_EQ(found[0].abs().max().item<double>(), 0);
    for (size_t i = 2; i < matrices.size(); ++i) {
      const Tensor exact = newton_schulz(matrices[i].to(at::kDouble), 5),
                   difference = found[i].to(at::kDouble) - exact;
      EXPECT_LT(difference.abs().max().item<double>(), largest) << matrices[i].sizes();
      EXPECT_LT((difference.norm() / exact.norm()).item<double>(), together) << matrices[i].sizes();
    }
    const int before = threads();
    set_threads(1);
    const std::vector<Tensor> alone = with(products);
    set_threads(before);
    for (size_t i = 0; i < matrices.size(); ++i) EXPECT_TRUE(same_bits(found[i], alone[i]));
  }
  const bool own = block_sets_that_multiply_bf16();
  const std::vector<Tensor> chosen = newton_schulz(matrices, 5, at::kBFloat16),
                            expected = with(own ? Products::kBf16 : Products::kFp32);
  for (size_t i = 0; i < matrices.size(); ++i) EXPECT_TRUE(same_bits(chosen[i], expected[i]));
  EXPECT_TRUE(same_bits(newton_schulz(matrices, 5, at::kFloat)[2], newton_schulz(matrices[2], 5)));
}

// A working copy in bf16 is the rounding of the master, and what the plan counts is what there is.
TEST(KnownValues, StateIsWhatEntriesSayAndBf16FollowsTheMaster) {
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    const recipe::OptimOptions options{.name = std::string(entry->name)};
    model::ParameterSet set = fused_set(Precision::named("bf16"));
    fill_values(set);
    const auto optimizer = make_optimizer(options, set, Precision::named("bf16"));
    fill_gradients(set, 1);
    optimizer->step({.lr = 1e-2});
    std::map<std::string, int64_t> state;
    for (const StateTensor& each : optimizer->state()) {
      if (each.kind == "master")
        EXPECT_TRUE(value_of(set, each.name).equal(each.view.to(value_of(set, each.name).scalar_type())))
            << entry->name << " " << each.name;
      else
        state[each.name] += static_cast<int64_t>(each.view.nbytes());
    }
    for (const auto& each : small_specs()) {
      const layout::Shape& shape = each.tensor.global_shape;
      EXPECT_EQ(state[each.tensor.name],
                recipe::state_bytes(options, each.tensor.role, each.layer, shape, shape, 4))
          << entry->name << " " << each.tensor.name;
    }
  }
}

}  // namespace
}  // namespace longhaul::optim
