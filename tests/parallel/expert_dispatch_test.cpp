// Experts on several ranks against a token by token mixture of one process, in fp64: values and all
// gradients, for all dispatchers, with groups of tokens and delayed weight gradients; with ranks that have no
// tokens, experts that get none, and dropped choices.
#include "parallel/experts/expert_dispatch.h"

#include <gtest/gtest.h>

#include "kernels/differentiable.h"
#include "parallel/expert_cases.h"

namespace longhaul::parallel {
namespace {

using layout::Axis;
using namespace testing;  // NOLINT: the cases

const recipe::ExpertOptions kGathers{.dispatcher = recipe::Dispatcher::kAllGather};
const recipe::ExpertOptions kOverlaps{.token_groups = 2, .delay_gradients = true};
const recipe::ExpertOptions kGathersInGroups{
    .dispatcher = recipe::Dispatcher::kAllGather, .token_groups = 3, .delay_gradients = true};

const recipe::ExpertOptions kFlex{.dispatcher = recipe::Dispatcher::kFlex};
const recipe::ExpertOptions kFlexInGroups{
    .dispatcher = recipe::Dispatcher::kFlex, .token_groups = 3, .delay_gradients = true};

const recipe::ExpertOptions kPadded{.padded = true};
const recipe::ExpertOptions kPaddedInGroups{.padded = true, .token_groups = 3, .delay_gradients = true};

std::vector<ExpertCase> cases() {
  std::vector<ExpertCase> all;
  const std::pair<std::string, recipe::ExpertOptions> ways[] = {{"all-to-all", {}},
                                                                {"all-gather", kGathers},
                                                                {"all-to-all in groups", kOverlaps},
                                                                {"all-gather in groups", kGathersInGroups},
                                                                {"flex", kFlex},
                                                                {"flex in groups", kFlexInGroups},
                                                                {"padded", kPadded},
                                                                {"padded in groups", kPaddedInGroups}};
  for (const auto& [way, options] : ways) {
    all.push_back({"ep2 " + way, 2, {.ep = 2}, options});
    all.push_back({"etp2 " + way, 2, {.etp = 2}, options});
    all.push_back({"ep2-etp2 " + way, 4, {.tp = 2, .ep = 2, .etp = 2}, options});
    all.push_back({"etp3 beside replicas " + way, 6, {.etp = 3}, options});
    all.push_back({"ep2-etp2 beside replicas " + way, 8, {.cp = 2, .tp = 2, .ep = 2, .etp = 2}, options});
    all.push_back({"ep4 to few experts " + way, 4, {.ep = 4}, options, {}, /*skew=*/true});
    all.push_back({"ranks without tokens " + way, 4, {.ep = 2, .etp = 2}, options, {0, 7, 0, 1}});
    all.push_back({"no tokens at all " + way, 4, {.ep = 2, .etp = 2}, options, {0, 0, 0, 0}});
    all.push_back({"dropped choices " + way, 4, {.ep = 2, .etp = 2}, options, {}, false, /*drop=*/true});
    if (!way.starts_with("flex")) continue;
    all.push_back({.name = "all experts " + way,
                   .world = 4,
                   .shape = {.ep = 2, .etp = 2},
                   .options = options,
                   .all_experts = true});
    all.push_back({.name = "all experts, one a rank " + way,
                   .world = 4,
                   .shape = {.ep = 4},
                   .options = options,
                   .all_experts = true});
  }
  return all;
}

// What this rank has of the experts' weights, and the product that a model would make; weight gradients go to
// sinks.
struct OwnExperts {
  OwnExperts(const Weights& all, const layout::MeshRank& place) {
    const int64_t experts = kExperts / place.mesh.size(Axis::kEp);
    const layout::Range inner =
        layout::even_part(kInner, place.mesh.size(Axis::kEtp), place.coordinate(Axis::kEtp));
    first = place.coordinate(Axis::kEp) * experts;
    up = all.up_ecd.narrow(0, first, experts).narrow(1, inner.begin, inner.length).contiguous();
    down = all.down_edc.narrow(0, first, experts).narrow(2, inner.begin, inner.length).contiguous();
    channels = inner;
    up_gradient = at::zeros_like(up), down_gradient = at::zeros_like(down);
  }

  Tensor product(const Tensor& rows, const std::vector<int64_t>& per_expert,
                 const std::shared_ptr<kernels::Postponed>& later) {
    return kernels::differentiable("experts of a test", {rows}, [&]() -> kernels::Recorded {
      std::vector<Tensor> parts = rows.split_with_sizes(per_expert), results;
      for (size_t e = 0; e < parts.size(); ++e)
        results.push_back(expert(parts[e], up[static_cast<int64_t>(e)], down[static_cast<int64_t>(e)]));
      return {.results = {at::cat(results)},
              .saved = {rows},
              .backward = [this, per_expert, later](const kernels::BackwardCall& call) {
                return std::vector<Tensor>{gradient(call.saved[0], call.gradients[0], per_expert, later)};
              }};
    })[0];
  }

  Tensor gradient(const Tensor& rows, const Tensor& dy, const std::vector<int64_t>& per_expert,
                  const std::shared_ptr<kernels::Postponed>& later) {
    const std::vector<Tensor> x = rows.split_with_sizes(per_expert), dys = dy.split_with_sizes(per_expert);
    std::vector<Tensor> dx;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto e = static_cast<int64_t>(i);
      const Tensor a = x[i].matmul(up[e].t()).tanh(), dz = dys[i].matmul(down[e]).mul(1 - a.square());
      dx.push_back(dz.matmul(up[e]));
      kernels::GradientSink(up_gradient[e]).into(later).add([dz, x = x[i]](const Tensor& to) {
        to.add_(dz.t().matmul(x));
      });
      kernels::GradientSink(down_gradient[e]).into(later).add([a, dy = dys[i]](const Tensor& to) {
        to.add_(dy.t().matmul(a));
      });
    }
    return at::cat(dx);
  }

  int64_t first = 0;
  layout::Range channels;
  Tensor up, down, up_gradient, down_gradient;
};

struct Plain {
  std::vector<Tensor> output, d_hidden, d_weight;  // of each rank's tokens
  Tensor d_up, d_down;                             // of all
};

Tensor loss_weight(int64_t rank, const Tensor& output) {
  return drawn("loss of " + std::to_string(rank), output.sizes().vec());
}

Plain plain(const ExpertCase& test, const Weights& weights) {
  const Tensor up = weights.up_ecd.clone().requires_grad_(true),
               down = weights.down_edc.clone().requires_grad_(true);
  Plain result;
  for (int64_t rank = 0; rank < test.world; ++rank) {
    Tokens tokens = test.of(rank);
    tokens.hidden_td.requires_grad_(true);
    tokens.weight_tk.requires_grad_(true);
    result.output.push_back(plain_mixture(tokens, up, down));
    if (result.output.back().requires_grad())
      result.output.back().mul(loss_weight(rank, result.output.back())).sum().backward();
    const auto gradient = [](const Tensor& x) { return x.grad().defined() ? x.grad() : at::zeros_like(x); };
    result.d_hidden.push_back(gradient(tokens.hidden_td));
    result.d_weight.push_back(gradient(tokens.weight_tk));
  }
  result.d_up = up.grad().defined() ? up.grad() : at::zeros_like(up);
  result.d_down = down.grad().defined() ? down.grad() : at::zeros_like(down);
  return result;
}

// Sums of a few dozen fp64 terms of size 1, in another order.
void expect_near(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  if (found.numel() == 0) return;
  EXPECT_LE(found.detach().sub(expected).abs().max().item<double>(), 1e-12) << what;
}

void check(const ExpertCase& test) {
  SCOPED_TRACE(test.name);
  const Weights weights;
  const Plain expected = plain(test, weights);
  const layout::Mesh mesh(test.world, test.shape);
  comm::run_ranks(test.world, [&](comm::Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    const MeshGroups groups(world, mesh);
    OwnExperts own(weights, groups.place());
    const Tokens tokens = test.of(world.rank());
    const Tensor hidden = tokens.hidden_td.clone().requires_grad_(true),
                 weight = tokens.weight_tk.clone().requires_grad_(true);
    const auto product = [&](const auto&... arguments) { return own.product(arguments...); };
    const int64_t most = test.options.padded ? test.most_tokens() : 0;
    const Tensor output =
        dispatch_to_experts(groups, test.options, hidden,
                            {tokens.choice_tk, weight, kExperts, tokens.every, most, most}, product);
    expect_near(output, expected.output[rank], "output");
    output.mul(loss_weight(world.rank(), output)).sum().backward();
    expect_near(hidden.grad(), expected.d_hidden[rank], "gradient of hidden");
    expect_near(weight.grad(), expected.d_weight[rank], "gradient of weight");
    for (const Tensor& gradient : {own.up_gradient, own.down_gradient})
      groups.over({Axis::kEdp}).all_reduce(gradient, comm::Reduction::kSum, {.name = "gradients"}).wait();
    const int64_t experts = own.up.size(0);
    expect_near(
        own.up_gradient,
        expected.d_up.narrow(0, own.first, experts).narrow(1, own.channels.begin, own.channels.length), "up");
    expect_near(
        own.down_gradient,
        expected.d_down.narrow(0, own.first, experts).narrow(2, own.channels.begin, own.channels.length),
        "down");
  });
}

TEST(ExpertDispatch, GivesWhatOneProcessGives) {
  for (const ExpertCase& test : cases()) check(test);
}

// Identity experts whose weights sum to one give every token back, to the bit; expert e times (e + 1) gives a
// known sum.
TEST(ExpertDispatch, KnownAnswers) {
  for (const recipe::ExpertOptions& options :
       {recipe::ExpertOptions{}, kGathers, kOverlaps, kFlex, kFlexInGroups}) {
    for (const layout::MeshShape& shape : {layout::MeshShape{.ep = 2, .etp = 2}, {.ep = 4}, {.etp = 4}}) {
      const layout::Mesh mesh(4, shape);
      comm::run_ranks(4, [&](comm::Communicator& world) {
        const MeshGroups groups(world, mesh);
        const int64_t experts = kExperts / shape.ep, first = experts * groups.place().coordinate(Axis::kEp);
        // of the sum over etp, which is then exact
        const double part = groups.place().coordinate(Axis::kEtp) == 0 ? 1 : 0;
        const Tokens tokens = tokens_of(world.rank(), 9, false, false);
        const auto times = [&](bool number) {
          return [&, number](const Tensor& rows, const std::vector<int64_t>& per_expert, const auto&) {
            std::vector<Tensor> parts = rows.split_with_sizes(per_expert);
            for (size_t e = 0; e < parts.size(); ++e)
              parts[e] =
                  parts[e] * (number ? static_cast<double>(first) + static_cast<double>(e) + 1 : 1.0) * part;
            return at::cat(parts);
          };
        };
        const Tensor x = tokens.hidden_td.to(at::kFloat).requires_grad_(true),
                     half = at::full({9, kChoices}, 0.5, at::kFloat);
        const Tensor same =
            dispatch_to_experts(groups, options, x, {tokens.choice_tk, half, kExperts}, times(false));
        EXPECT_TRUE(same.detach().equal(x.detach())) << mesh.text();
        same.sum().backward();
        EXPECT_TRUE(x.grad().equal(at::ones_like(x))) << mesh.text();
        const Tensor numbered =
            dispatch_to_experts(groups, options, x, {tokens.choice_tk, half, kExperts}, times(true));
        const Tensor factor = tokens.choice_tk.to(at::kFloat).add(1).mul(0.5).sum(1, true);
        EXPECT_LE(numbered.sub(x * factor).abs().max().item<float>(), 1e-5) << mesh.text();
      });
    }
  }
}

}  // namespace
}  // namespace longhaul::parallel
