// Routes that are recorded and replayed: a model's own change nothing, others give what plain operators make
// of those experts, forward and backward.
#include "model/experts/routes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "router_of_one_layer.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;
using recipe::Recompute;
using recipe::RouterChoice;

constexpr int64_t kSequences = 2, kTokens = 12;

struct RoutedPass {
  std::vector<Tensor> tensors;  // losses, statistics, what moves biases, gradients
  std::vector<std::shared_ptr<const Routes>> routes;
  double sum = 0;  // of all losses
};

// Two micro-batches, forward and then backward; each replays its routes, if there are any.
RoutedPass routed_pass(Decoder& decoder, const std::vector<std::shared_ptr<const Routes>>& replayed = {}) {
  ParameterSet& parameters = decoder.parameters();
  parameters.zero_gradients();
  parameters.begin_step([](Arena&) {});
  LocalOps ops;
  RoutedPass trained;
  std::vector<Tensor> losses;
  for (int64_t m = 0; m < 2; ++m) {
    Context context(ops, decoder.precision());
    context.seed = 7, context.step = 3, context.micro_batch = m;
    const auto recorded = std::make_shared<Routes>();
    context.recorded_routes = recorded;
    if (!replayed.empty()) context.replayed_routes = replayed[static_cast<size_t>(m)];
    const layout::SequenceLayout layout = layout::make_batch(kSequences, kTokens);
    const auto ids =
        random_ids(kSequences * kTokens, decoder.config().vocabulary, static_cast<uint64_t>(m) + 1);
    losses.push_back(decoder.loss(context, decoder.hidden(context, id_tensor(ids), layout),
                                  id_tensor(layout::shifted_labels(layout, ids))));
    trained.routes.push_back(recorded);
    trained.sum += losses.back().item<double>();
    for (const auto& [block, loss] : context.auxiliary_losses)
      trained.sum += loss.item<double>(), trained.tensors.push_back(loss);
    for (const auto& [name, of_blocks] : context.statistics) {
      for (const auto& [block, value] : of_blocks) trained.tensors.push_back(value);
    }
    for (const auto& [name, count] : context.choices_of_routers) trained.tensors.push_back(count);
  }
  parameters.all_announced();
  for (const Tensor& loss : losses) {
    trained.tensors.push_back(loss.detach());
    loss.backward();
  }
  parameters.end_step();
  for (const auto& parameter : parameters.all()) {
    if (parameter->trainable()) trained.tensors.push_back(parameter->grad.clone());
  }
  return trained;
}

// As many tokens as these, sent elsewhere: two neighbours from an expert on that no score names.
std::vector<std::shared_ptr<const Routes>> other_routes(const recipe::ModelConfig& config) {
  std::vector<std::shared_ptr<const Routes>> routes;
  for (int64_t m = 0; m < 2; ++m) {
    Routes of_pass;
    int64_t layer = 0;
    for (const std::string& block : blocks_with_routers(config)) {
      const Tensor first = at::arange(kSequences * kTokens).mul(3).add(m + layer++).remainder(config.experts);
      of_pass[block] = at::stack({first, first.add(1).remainder(config.experts)}, 1);
    }
    routes.push_back(std::make_shared<const Routes>(of_pass));
  }
  return routes;
}

std::vector<NamedConfig> forms() {
  std::vector<NamedConfig> forms;
  const auto add = [&](const std::string& name, const recipe::RouterOptions& router,
                       double auxiliary_loss = 0.05) {
    recipe::ModelConfig config = hybrid_experts_post_norm();
    config.auxiliary_loss = auxiliary_loss;
    config.router = router;
    forms.push_back({name, config});
  };
  add("plain", {});
  add("jitter", {.jitter = 0.2});
  add("bias_and_groups", {.score = recipe::RouterScore::kSigmoid,
                          .bias_rate = 0.1,
                          .scale = 2.5,
                          .groups = 2,
                          .groups_per_token = 1});
  add("unnormalised", {.score = recipe::RouterScore::kSqrtSoftplus, .normalised = false});
  add("sinkhorn", {.choice = RouterChoice::kSinkhorn}, 0);
  add("random", {.choice = RouterChoice::kRandom});
  add("round_robin", {.choice = RouterChoice::kRoundRobin});
  add("biased", {.choice = RouterChoice::kBiased});
  add("capacity", {.capacity_factor = 0.75});
  forms.push_back({"dense_layer", hybrid_experts_post_norm()});
  forms.back().config.dense_layers = {1};
  return forms;
}

class RoutesOfForms : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(RoutesOfForms, TheirOwnAreTheSameToTheBit) {
  Decoder decoder = filled_decoder(GetParam().config);
  const RoutedPass expected = routed_pass(decoder);
  ASSERT_EQ(std::ssize(*expected.routes[0]), std::ssize(blocks_with_routers(GetParam().config)));
  for (const std::string& block : blocks_with_routers(GetParam().config))
    EXPECT_EQ(expected.routes[0]->at(block).sizes(), at::IntArrayRef({kSequences * kTokens, 2})) << block;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    decoder.set_recompute(recompute);
    const RoutedPass found = routed_pass(decoder, expected.routes);
    ASSERT_EQ(found.tensors.size(), expected.tensors.size());
    for (size_t i = 0; i < expected.tensors.size(); ++i)
      EXPECT_TRUE(found.tensors[i].equal(expected.tensors[i])) << i;
  }
}

// The experts of the routes with the weights at hand, whatever a router says: perturbed, it replays the same
// ones, and its loss is another.
TEST_P(RoutesOfForms, APerturbedRouterReplaysThem) {
  Decoder decoder = filled_decoder(GetParam().config);
  const auto routes = other_routes(GetParam().config);
  const RoutedPass before = routed_pass(decoder, routes);
  {
    const at::NoGradGuard no_gradient;
    for (const std::string& block : blocks_with_routers(GetParam().config)) {
      Parameter& router =
          *decoder.parameters().holder_of(block.substr(0, block.rfind('.')) + ".router.weight");
      router.value.add_(random_tensor(router.value.sizes(), 77));
      router.written();
    }
  }
  const RoutedPass after = routed_pass(decoder, routes);
  for (const RoutedPass* trained : {&before, &after}) {
    for (size_t m = 0; m < 2; ++m) {
      for (const auto& [block, choice_tk] : *routes[m])
        EXPECT_TRUE(trained->routes[m]->at(block).equal(choice_tk)) << block;
    }
  }
  EXPECT_NE(after.sum, before.sum);
}

// Every gradient by differences of the sum of all losses, which is smooth where the choice is given.
TEST_P(RoutesOfForms, GradientsByDifferences) {
  if (GetParam().config.router.capacity_factor > 0) GTEST_SKIP() << "what is dropped goes by weights";
  Decoder decoder = filled_decoder(GetParam().config);
  const auto routes = other_routes(GetParam().config);
  routed_pass(decoder, routes);
  std::vector<Tensor> gradients;
  for (const auto& parameter : decoder.parameters().all())
    gradients.push_back(parameter->trainable() ? parameter->grad.clone() : Tensor());
  for (const std::string& block : blocks_with_routers(GetParam().config)) {
    const std::string router = block.substr(0, block.rfind('.')) + ".router.weight";
    for (const std::string& name : {router, block + ".gate_up.weight", block + ".down.weight"}) {
      const auto& all = decoder.parameters().all();
      const auto at =
          std::ranges::find_if(all, [&](const auto& parameter) { return parameter->name == name; });
      ASSERT_NE(at, all.end()) << name;
      Parameter& parameter = **at;
      const Tensor direction = random_tensor(parameter.value.sizes(), 91);
      const auto moved = [&](double step) {
        const auto move = [&](double by) {
          const at::NoGradGuard no_gradient;
          parameter.value.add_(direction, by);
          parameter.written();
        };
        move(step);
        const double sum = routed_pass(decoder, routes).sum;
        move(-step);
        return sum;
      };
      constexpr double kStep = 1e-5;
      const double analytic =
          gradients[static_cast<size_t>(at - all.begin())].mul(direction).sum().item<double>();
      EXPECT_NEAR(analytic, (moved(kStep) - moved(-kStep)) / (2 * kStep),
                  1e-5 * std::max(1.0, std::abs(analytic)))
          << name;
      EXPECT_NE(analytic, 0) << name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Forms, RoutesOfForms, ::testing::ValuesIn(forms()),
                         [](const auto& each) { return each.param.name; });

// A layer by itself: values and gradients of plain operators, token by token, over the experts that are
// given.
TEST(ReplayedRoutes, AreThoseOfAPlainMixture) {
  for (const NamedConfig& form : forms()) {
    SCOPED_TRACE(form.name);
    recipe::ModelConfig config = form.config;
    config.layers = 1, config.dense_layers.clear(), config.z_loss = 0, config.auxiliary_loss = 0;
    const recipe::RouterOptions& options = config.router;
    if (options.jitter > 0 || options.capacity_factor > 0) continue;
    RouterOfOneLayer layer(config);
    if (options.bias_rate > 0) {
      const at::NoGradGuard no_gradient;
      layer.parameters.holder_of("layers.0.router.bias")->own_value.copy_(random_tensor({config.experts}, 6));
    }
    constexpr int64_t kRows = 9;
    const Tensor first = at::arange(kRows).mul(3).remainder(config.experts);
    const Tensor choice = at::stack({first, first.add(2).remainder(config.experts)}, 1),
                 mix = random_tensor({kRows, config.hidden}, 8);
    layer.context.replayed_routes = std::make_shared<const Routes>(Routes{{"layers.0.experts", choice}});
    const Tensor x = random_tensor({kRows, config.hidden}, 4).requires_grad_(true);
    const Tensor found = layer.experts.forward(layer.context, x, layout::make_single(kRows));
    found.mul(mix).sum().backward();

    const Tensor again = x.detach().clone().requires_grad_(true),
                 router = layer.matrix("router").clone().requires_grad_(true);
    const Tensor z = at::mm(again, router.t());
    const Tensor score = options.score == recipe::RouterScore::kSoftmax   ? z.softmax(1)
                         : options.score == recipe::RouterScore::kSigmoid ? z.sigmoid()
                                                                          : (1 + z.exp()).log().sqrt();
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < kRows; ++t) {
      const auto a = choice[t][0].item<int64_t>(), b = choice[t][1].item<int64_t>();
      const Tensor sum = score[t][a] * layer.expert(again[t], a) + score[t][b] * layer.expert(again[t], b);
      rows.push_back(options.scale * (options.normalised ? sum / (score[t][a] + score[t][b]) : sum));
    }
    const Tensor expected = at::stack(rows);
    expected.mul(mix).sum().backward();
    EXPECT_LT(relative_error(found, expected), 1e-12);
    EXPECT_LT(relative_error(x.grad(), again.grad()), 1e-11);
    EXPECT_LT(relative_error(layer.router_gradient(), router.grad()), 1e-11);
    if (options.bias_rate > 0) {  // what moves it counts the replayed choices: 3 t and 3 t + 2 modulo 4
      EXPECT_TRUE(layer.context.choices_of_routers.at("layers.0.router.bias")
                      .equal(at::tensor({5, 4, 5, 4}, at::kLong)));
    }
  }
}

// Everybody goes to experts 0 and 1, which have room for ⌈0.5 · 2 · 8 / 4⌉ = 2 each: the last six go without.
// Recorded are all of them.
TEST(ReplayedRoutes, ACapacityDropsBehindThem) {
  recipe::ModelConfig config = router_config();
  config.router = {.capacity_factor = 0.5, .dropped = recipe::Dropped::kLast};
  RouterOfOneLayer layer(config);
  const Tensor choice = at::tensor({0, 1}, at::kLong).expand({8, 2}),
               x = random_tensor({8, config.hidden}, 4);
  layer.context.replayed_routes = std::make_shared<const Routes>(Routes{{"layers.0.experts", choice}});
  layer.context.recorded_routes = std::make_shared<Routes>();
  const at::NoGradGuard no_gradient;
  const Tensor dropping = layer.experts.forward(layer.context, x, layout::make_single(8));
  EXPECT_NEAR(layer.context.statistics.at(kDroppedShare).at("layers.0.experts").item<double>(), 0.75, 1e-12);
  EXPECT_TRUE(layer.context.recorded_routes->at("layers.0.experts").equal(choice));
  layer.context.training = false;
  const Tensor whole = layer.experts.forward(layer.context, x, layout::make_single(8));
  EXPECT_LT(relative_error(dropping.narrow(0, 0, 2), whole.narrow(0, 0, 2)), 1e-14);
  EXPECT_TRUE(dropping.narrow(0, 2, 6).eq(0).all().item<bool>());
  EXPECT_FALSE(whole.narrow(0, 2, 6).eq(0).any().item<bool>());
}

// Replayed behind training too, before the thresholds, which nobody moves then.
TEST(ReplayedRoutes, GoBeforeThresholds) {
  recipe::ModelConfig config = router_config();
  config.router.choice = RouterChoice::kQuantile;
  RouterOfOneLayer layer(config);
  const Tensor choice = at::tensor({2, 1}, at::kLong).expand({5, 2}),
               x = random_tensor({5, config.hidden}, 4);
  layer.context.replayed_routes = std::make_shared<const Routes>(Routes{{"layers.0.experts", choice}});
  layer.context.recorded_routes = std::make_shared<Routes>();
  const at::NoGradGuard no_gradient;
  for (const bool training : {true, false}) {
    layer.context.training = training;
    layer.experts.forward(layer.context, x, layout::make_single(5));
    EXPECT_TRUE(layer.context.recorded_routes->at("layers.0.experts").equal(choice));
    EXPECT_TRUE(layer.context.choices_of_routers.empty());
  }
}

TEST(ReplayedRoutes, EveryRouterHasAnEntry) {
  RouterOfOneLayer layer(router_config());
  const Tensor x = random_tensor({5, layer.config.hidden}, 4);
  const layout::SequenceLayout layout = layout::make_single(5);
  const at::NoGradGuard no_gradient;
  const Tensor own = layer.experts.forward(layer.context, x, layout);
  layer.context.replayed_routes = std::make_shared<const Routes>(Routes{{"layers.0.experts", Tensor()}});
  EXPECT_TRUE(layer.experts.forward(layer.context, x, layout).equal(own))
      << "undefined: it chooses by itself";
  layer.context.replayed_routes = std::make_shared<const Routes>();
  EXPECT_THROW(layer.experts.forward(layer.context, x, layout), Error);
  layer.context.replayed_routes =
      std::make_shared<const Routes>(Routes{{"layers.0.experts", at::zeros({4, 2}, at::kLong)}});
  EXPECT_THROW(layer.experts.forward(layer.context, x, layout), Error) << "of other tokens";
}

TEST(Routes, BlocksOfAModel) {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  EXPECT_EQ(blocks_with_routers(config),
            (std::vector<std::string>{"layers.0.experts", "layers.1.experts", "layers.2.experts"}));
  config.dense_layers = {0, 2};
  EXPECT_EQ(blocks_with_routers(config), (std::vector<std::string>{"layers.1.experts"}));
  config.experts = 0;
  EXPECT_TRUE(blocks_with_routers(config).empty());
}

}  // namespace
}  // namespace longhaul::model
