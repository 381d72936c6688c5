// The loss of a head whose vocabulary is dealt out: its value and gradients against LibTorch's autograd on
// whole logits, and how many products of the logits' size it takes.
#include "parallel/vocabulary.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "comm/single.h"
#include "comm/threads/run_ranks.h"
#include "kernels/gradient_sink.h"

namespace longhaul::parallel::vocabulary_test {
namespace {

constexpr int64_t kRowTokens = 6, kChannels = 5, kWords = 12;

struct Whole {
  Tensor hidden = at::linspace(-1, 1, kRowTokens* kChannels, at::kDouble).view({kRowTokens, kChannels}).sin();
  Tensor weight = at::linspace(-2, 3, kWords* kChannels, at::kDouble).view({kWords, kChannels}).cos();
  Tensor labels = at::tensor({3, -1, 11, 0, 7, 3}, at::kLong);
};

// Σ (logsumexp − the label's logit) of what has a label, and its gradients, on whole logits.
std::array<Tensor, 3> by_autograd(const Whole& of) {
  const Tensor hidden = of.hidden.clone().requires_grad_(), weight = of.weight.clone().requires_grad_();
  const Tensor log_p = at::mm(hidden, weight.t()).log_softmax(1);
  const Tensor loss =
      log_p.gather(1, of.labels.clamp_min(0).unsqueeze(1)).squeeze(1).mul(of.labels.ge(0)).sum().neg();
  loss.backward();
  return {loss.detach(), hidden.grad(), weight.grad()};
}

int64_t products = 0;

// Products of this thread while it lives.
class CountedProducts {
 public:
  CountedProducts() {
    products = 0;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          const std::string name = function.name();
          products += name == "aten::mm" || name == "aten::addmm_" || name == "aten::addmm" ? 1 : 0;
          return nullptr;
        }));
  }
  ~CountedProducts() { at::removeCallback(handle_); }
  int64_t so_far() const { return products; }

 private:
  at::CallbackHandle handle_{};
};

TEST(Vocabulary, PartsGiveTheLossAndGradientsOfTheWhole) {
  const Whole of;
  const auto [loss, d_hidden, d_weight] = by_autograd(of);
  comm::run_ranks(3, [&](comm::Communicator& rank) {
    const int64_t rows = kWords / 3, first = rank.rank() * rows;
    const Tensor weight = of.weight.narrow(0, first, rows).clone().requires_grad_(),
                 hidden = of.hidden.clone().requires_grad_();
    const Tensor buffer = at::zeros({rows, kChannels}, at::kDouble);
    const Tensor own = vocabulary_loss(
        rank, hidden, {.weights = {.weight = weight, .sinks = {.weight = buffer}}, .first_row = first},
        of.labels);
    own.backward();
    EXPECT_LT((own.detach() - loss).abs().item<double>(), 1e-13);
    const Tensor sum = hidden.grad().clone();
    rank.all_reduce(sum, comm::Reduction::kSum, {"gradients of hidden"}).wait();
    EXPECT_LT((sum - d_hidden).abs().max().item<double>(), 1e-13);
    EXPECT_LT((buffer - d_weight.narrow(0, first, rows)).abs().max().item<double>(), 1e-13);
  });
}

// The logits, again in the backward pass, and a product with them for each gradient. Postponed, the weight's
// makes the logits once more.
TEST(Vocabulary, MakesItsLogitsOncePerPass) {
  const Whole of;
  for (const bool postponed : {false, true}) {
    comm::Single alone;
    const Tensor weight = of.weight.clone().requires_grad_(), hidden = of.hidden.clone().requires_grad_();
    const Tensor buffer = at::zeros_like(of.weight);
    const auto queue = postponed ? std::make_shared<kernels::Postponed>() : nullptr;
    const CountedProducts counted;
    const Tensor loss = vocabulary_loss(
        alone, hidden,
        {.weights = {.weight = weight, .sinks = {.weight = kernels::GradientSink(buffer).into(queue)}}},
        of.labels);
    EXPECT_EQ(counted.so_far(), 1);
    loss.backward();
    EXPECT_EQ(counted.so_far(), postponed ? 3 : 4);
    EXPECT_EQ(buffer.abs().max().item<double>() > 0, !postponed);
    if (!postponed) continue;
    for (const auto& product : *queue) product();
    EXPECT_EQ(counted.so_far(), 5);
    EXPECT_GT(buffer.abs().max().item<double>(), 0);
  }
}

// Rows that no number divides, at a temperature, with a gradient of its own for every token and result;
// tokens without a label are left out first.
TEST(Vocabulary, PartsGiveTheLogProbabilitiesOfTheWhole) {
  const Whole of;
  const kernels::LogProbabilityOptions options{
      .temperature = 0.7, .entropy = true, .logsumexp = true, .chunk = 2};
  const Tensor d = at::linspace(-1, 2, 3 * kRowTokens, at::kDouble).view({3, kRowTokens}),
               labelled = of.labels.ge(0);
  const auto weighed = [&](const kernels::TokenLogProbabilities& each) {
    return (each.log_probability_t * d[0] + each.entropy_t * d[1] + each.logsumexp_t.square() * d[2]).sum();
  };
  const Tensor leaf = of.hidden.clone().requires_grad_(), whole = of.weight.clone().requires_grad_();
  const Tensor z = at::mm(leaf, whole.t()).div(0.7), log_p = z.log_softmax(1);
  const kernels::TokenLogProbabilities expected{
      log_p.gather(1, of.labels.clamp_min(0).unsqueeze(1)).squeeze(1).mul(labelled),
      log_p.exp().mul(log_p).sum(1).neg().mul(labelled), z.logsumexp(1).mul(labelled)};
  weighed(expected).backward();
  const int64_t begins[] = {0, 5, 6, kWords};
  comm::run_ranks(3, [&](comm::Communicator& rank) {
    const int64_t first = begins[rank.rank()], rows = begins[rank.rank() + 1] - first;
    const Tensor weight = of.weight.narrow(0, first, rows).clone().requires_grad_(),
                 hidden = of.hidden.clone().requires_grad_();
    const Tensor buffer = at::zeros({rows, kChannels}, at::kDouble);
    const auto own = vocabulary_log_probabilities(
        rank, hidden, {.weights = {.weight = weight, .sinks = {.weight = buffer}}, .first_row = first},
        of.labels, options);
    weighed(own).backward();
    EXPECT_LT((own.log_probability_t - expected.log_probability_t).abs().max().item<double>(), 1e-13);
    EXPECT_LT((own.entropy_t - expected.entropy_t).abs().max().item<double>(), 1e-13);
    EXPECT_LT((own.logsumexp_t - expected.logsumexp_t).abs().max().item<double>(), 1e-13);
    const Tensor sum = hidden.grad().clone();
    rank.all_reduce(sum, comm::Reduction::kSum, {"gradients of hidden"}).wait();
    EXPECT_LT((sum - leaf.grad()).abs().max().item<double>(), 1e-12);
    EXPECT_LT((buffer - whole.grad().narrow(0, first, rows)).abs().max().item<double>(), 1e-12);
  });
}

}  // namespace
}  // namespace longhaul::parallel::vocabulary_test
