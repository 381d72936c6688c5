// The loss of a head whose vocabulary is dealt out: its value and gradients against LibTorch's autograd on
// whole logits, and how many products of the logits' size it takes.
#include "parallel/vocabulary.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "base/error.h"
#include "comm/single.h"
#include "comm/threads/run_ranks.h"
#include "kernels/embedding/op.h"
#include "kernels/gradient_sink.h"
#include "model/context.h"
#include "model/decoder.h"
#include "parallel/mesh_ops.h"
#include "support/models.h"

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
    const Tensor own = vocabulary_loss(rank, hidden,
                                       {.weights = {.weight = weight, .sinks = {.weight = buffer}},
                                        .first_row = first,
                                        .vocabulary = kWords},
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
        {.weights = {.weight = weight, .sinks = {.weight = kernels::GradientSink(buffer).into(queue)}},
         .vocabulary = kWords},
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
    const auto own = vocabulary_log_probabilities(rank, hidden,
                                                  {.weights = {.weight = weight, .sinks = {.weight = buffer}},
                                                   .first_row = first,
                                                   .vocabulary = kWords},
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

// What one process refuses, every rank does, whoever would have the row: the text is the same, and no rank is
// left in a sum that the others do not come to.
TEST(Vocabulary, IdsAndLabelsOutsideItAreRefusedOnEveryRank) {
  const auto refusal = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return fmt::format("{} {}", static_cast<int>(error.code()), error.what());
    }
    return "nothing";
  };
  const Whole of;
  for (const int64_t bad : {int64_t{-1}, kWords, int64_t{1} << 40}) {
    const Tensor ids = at::tensor({int64_t{0}, kWords - 1, bad}, at::kLong);
    const std::string expected = refusal([&] { kernels::embedding(ids, {of.weight, {}}); });
    EXPECT_NE(expected.find("outside the model's vocabulary"), std::string::npos);
    EXPECT_NE(expected.find("0 to 11"), std::string::npos) << expected;
    comm::run_ranks(2, [&](comm::Communicator& rank) {
      const int64_t rows = kWords / 2, first = rank.rank() * rows;
      const Tensor own = of.weight.narrow(0, first, rows).contiguous();
      EXPECT_EQ(refusal([&] {
                  kernels::embedding_of_share(ids, {own, {}}, first, kWords);
                }),
                expected)
          << "rank " << rank.rank();
      if (bad < 0) return;  // of a label, −1 says that there is none
      Tensor labels = of.labels.clone();
      labels[2] = bad;
      const auto told = refusal([&] {
        vocabulary_loss(rank, of.hidden,
                        {.weights = {.weight = own}, .first_row = first, .vocabulary = kWords}, labels);
      });
      EXPECT_NE(told.find(fmt::format("below {}", kWords)), std::string::npos) << told;
    });
  }
}

// The whole way: a decoder of two tensor ranks.
TEST(Vocabulary, ADecoderOfTensorRanksRefusesThem) {
  const recipe::ModelConfig config = longhaul::testing::parallel_blocks();
  comm::run_ranks(2, [&](comm::Communicator& thread) {
    const MeshGroups groups(thread, layout::Mesh(2, {.tp = 2}));
    MeshOps ops(groups, {}, {}, 1);
    model::Decoder decoder(config, Precision::named("fp32"), at::kCPU, model::Use::kTraining, groups.place());
    decoder.parameters().initialise(3);
    model::Context context(ops, decoder.precision());
    const layout::SequenceView view{layout::make_packed(std::vector<int64_t>{5, 4}),
                                    {.tensor_ranks = 2, .tensor_rank = thread.rank()}};
    Tensor ids = longhaul::testing::id_tensor(longhaul::testing::random_ids(9, config.vocabulary, 31));
    EXPECT_NO_THROW(decoder.hidden(context, ids, view));
    ids[7] = config.vocabulary;
    try {
      decoder.hidden(context, ids, view);
      ADD_FAILURE() << "rank " << thread.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_NE(std::string(error.what()).find(fmt::format("0 to {}", config.vocabulary - 1)),
                std::string::npos);
    }
  });
}

}  // namespace
}  // namespace longhaul::parallel::vocabulary_test
