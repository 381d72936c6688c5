// Products of gathered rows and sums of products against whole matrices in one process; in parts against
// unparted, to the bit; how long a pass takes where links and products take known times; and what a decoder's
// layers call.
#include "parallel/tensor_parts.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "comm/threads/run_ranks.h"
#include "comm/wrappers/traced.h"
#include "kernels/differentiable.h"
#include "kernels/linear/op.h"
#include "model/context.h"
#include "model/decoder.h"
#include "parallel/mesh_ops.h"
#include "parallel/watched_communicator.h"
#include "support/models.h"

namespace longhaul::parallel {
namespace {

using longhaul::testing::random_tensor;
using model::BlockInput;
using model::Summand;
using testing::Watch;
using testing::WatchedCommunicator;

constexpr int64_t kRanks = 3, kWide = 7, kInner = 5;
const std::vector<int64_t> kOwnRows = {5, 3, 4};

Tensor matrix(int64_t rank, int64_t rows, int64_t columns, uint64_t seed) {
  return random_tensor({rows, columns}, seed + static_cast<uint64_t>(rank)).to(at::kDouble);
}
Tensor first(int64_t rank) { return matrix(rank, kInner, kWide, 10); }  // [inner, wide]
Tensor gate(int64_t rank) { return matrix(rank, kInner, kWide, 20); }
Tensor last(int64_t rank) { return matrix(rank, kWide, kInner, 30); }
Tensor direct(int64_t rank) { return matrix(rank, kWide, kWide, 40); }  // of the block's input
const Tensor kBias = random_tensor({kWide}, 50).to(at::kDouble),
             kBeside = random_tensor({12, kWide}, 51).to(at::kDouble),
             kLoss = random_tensor({12, kWide}, 52).to(at::kDouble);

// One process has all rows: Σ_r (tanh(x firstᵀ) · (x gateᵀ)) lastᵀ + tanh(x directᵀ), + bias + beside.
Tensor whole(const Tensor& x) {
  Tensor sum = kBias + kBeside;
  for (int64_t r = 0; r < kRanks; ++r) {
    const Tensor inner = x.matmul(first(r).t()).tanh() * x.matmul(gate(r).t());
    sum = sum + inner.matmul(last(r).t()) + x.matmul(direct(r).t()).tanh();
  }
  return sum;
}

TEST(TensorParts, EqualOneProcessInAnyNumberOfParts) {
  const Tensor x = random_tensor({12, kWide}, 7).to(at::kDouble).requires_grad_(true);
  const Tensor expected = whole(x);
  expected.mul(kLoss).sum().backward();
  for (const int64_t chunks : {1, 2, 3, 64}) {
    comm::run_ranks(kRanks, [&](comm::Communicator& group) {
      const int64_t rank = group.rank(),
                    begin = rank == 0   ? 0
                            : rank == 1 ? 5
                                        : 8,
                    rows = kOwnRows[static_cast<size_t>(rank)];
      const Tensor own = x.detach().narrow(0, begin, rows).clone().requires_grad_(true);
      const TensorParts parts(group, kOwnRows, chunks);
      BlockInput input{own};
      const std::vector<Tensor> made = parts.of_gathered(input, [&](const Tensor& each) {
        return std::vector<Tensor>{each.matmul(first(rank).t()), each.matmul(gate(rank).t())};
      });
      EXPECT_EQ(input.parts.size(), static_cast<size_t>(std::min<int64_t>(chunks, 3)))
          << "no part is empty anywhere";
      const std::vector<Summand> summands = {
          {.product = [&](const Tensor& each) { return each.matmul(last(rank).t()); },
           .x_ti = made[0].tanh() * made[1],
           .bias_d = kBias},
          {.product = [&](const Tensor& each) { return each.matmul(direct(rank).t()).tanh(); }},
          {.own_td = kBeside.narrow(0, begin, rows)}};
      const Tensor sum = parts.summed(input, summands);
      EXPECT_LE((sum - expected.narrow(0, begin, rows)).abs().max().item<double>(), 1e-13)
          << "at most 40 products of numbers near 1";
      sum.mul(kLoss.narrow(0, begin, rows)).sum().backward();
      EXPECT_LE((own.grad() - x.grad().narrow(0, begin, rows)).abs().max().item<double>(), 1e-12);
    });
  }
}

// A block's first and last product with the kernels and dtypes of training: its result and the gradient of
// its input.
struct Passed {
  Tensor y, dx, dw;
};
Passed linear_block(comm::Communicator& group, int64_t chunks, ScalarType dtype) {
  constexpr int64_t kHidden = 64, kOwn = 24;
  const auto drawn = [&](std::vector<int64_t> sizes, uint64_t seed) {
    return random_tensor(sizes, seed + static_cast<uint64_t>(group.rank())).mul(0.2).to(dtype);
  };
  kernels::PackedWeight packed_up, packed_down;
  const Tensor up = drawn({2 * kHidden, kHidden}, 60), down = drawn({kHidden, 2 * kHidden}, 70),
               dw = at::zeros_like(up, at::kFloat);
  packed_up.written(1), packed_down.written(1);
  const Tensor x = drawn({kOwn, kHidden}, 80).requires_grad_(true);
  const TensorParts parts(group, {kOwn, kOwn}, chunks);
  BlockInput input{x};
  const Tensor inner = parts.of_gathered(input, [&](const Tensor& rows) {
    return std::vector<Tensor>{
        kernels::linear(rows, up, Tensor(), {.weight = dw}, {.copies = &packed_up, .version = 1})};
  })[0];
  const Tensor y = parts.summed(input, {{.product =
                                             [&](const Tensor& rows) {
                                               return kernels::linear(rows, down, Tensor(), {},
                                                                      {.copies = &packed_down, .version = 1});
                                             },
                                         .x_ti = inner}});
  y.backward(drawn({kOwn, kHidden}, 90));
  return {y.detach(), x.grad(), dw};
}

TEST(TensorParts, ChangeNoBitOfARow) {
  for (const ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    comm::run_ranks(2, [&](comm::Communicator& group) {
      const Passed plain = linear_block(group, 1, dtype);
      for (const int64_t chunks : {2, 3, 5}) {
        const Passed parted = linear_block(group, chunks, dtype);
        EXPECT_TRUE(parted.y.equal(plain.y)) << chunks;
        EXPECT_TRUE(parted.dx.equal(plain.dx)) << chunks;
        // 48 rows are summed in parts: fp32 roundings of sums near 1 differ.
        EXPECT_LE((parted.dw - plain.dw).abs().max().item<double>(), 2e-5) << chunks;
      }
    });
  }
}

// A channel mixer of two ranks, 4 rows each: gathering 4, its product 4 forward and 4 backward, adding 4.
struct Times {
  double forward = 0, backward = 0;
};
Times timed(int64_t chunks) {
  Times times;
  comm::run_ranks(2, [&](comm::Communicator& thread) {
    Watch watch;
    WatchedCommunicator group(thread, watch);
    BlockInput input{at::ones({4, 1}).requires_grad_(true)};
    const auto product = [&](const Tensor& rows) {
      const double cost = 0.5 * static_cast<double>(rows.size(0));
      return kernels::differentiable("product in time", {rows}, [&]() -> kernels::Recorded {
        watch.now += cost;
        return {.results = {rows.clone()}, .backward = [&watch, cost](const kernels::BackwardCall& call) {
                  watch.now += cost;
                  return std::vector<Tensor>{call.gradients[0]};
                }};
      })[0];
    };
    const Tensor y = TensorParts(group, {4, 4}, chunks).summed(input, {{.product = product}});
    const double forward = std::exchange(watch.now, 1000);  // the link is idle again
    y.sum().backward();
    if (thread.rank() == 0) times = {forward, watch.now - 1000};
  });
  return times;
}

TEST(TensorParts, HideExchangesBehindProductsForwardAndBackward) {
  EXPECT_EQ(timed(1).forward, 4 + 4 + 4);
  EXPECT_EQ(timed(1).backward, 4 + 4 + 4);
  // The link is never idle: the second part is gathered during the first one's product, whose sum goes on
  // during the second's.
  EXPECT_EQ(timed(2).forward, 8);
  EXPECT_EQ(timed(2).backward, 8);
  EXPECT_EQ(timed(4).forward, 8);
  EXPECT_EQ(timed(4).backward, 8);
}

// Calls of tensor ranks in a forward and a backward pass, by their names.
std::map<std::string, int64_t> calls_of(const recipe::ModelConfig& config, int64_t chunks) {
  std::map<std::string, int64_t> calls;
  comm::run_ranks(2, [&](comm::Communicator& thread) {
    const auto log = std::make_shared<comm::CallLog>(thread.rank());
    comm::Traced world(comm::borrowed(thread), log);
    const MeshGroups groups(world, layout::Mesh(2, {.tp = 2}));
    MeshOps ops(groups, {}, {}, chunks);
    model::Decoder decoder(config, Precision::named("fp64"), at::kCPU, model::Use::kTraining, groups.place());
    decoder.parameters().initialise(3);
    model::Context context(ops, decoder.precision());
    const layout::SequenceView view{layout::make_packed(std::vector<int64_t>{5, 4}),
                                    {.tensor_ranks = 2, .tensor_rank = thread.rank()}};
    const Tensor ids = longhaul::testing::id_tensor(longhaul::testing::random_ids(9, config.vocabulary, 31));
    decoder.loss(context, decoder.hidden(context, ids, view), ids, view).backward();
    if (thread.rank() > 0) return;
    for (const comm::CallRecord& call : log->records().calls) {
      if (call.name.starts_with(kTensorTokens) || call.name.starts_with(kTensorProducts)) ++calls[call.name];
    }
  });
  return calls;
}

TEST(TensorParts, ParallelBlocksGatherAndSumOnce) {
  const auto expected = [](int64_t gathered, int64_t summed) {
    const std::string tokens = kTensorTokens, products = kTensorProducts, back = " (gradient)";
    return std::map<std::string, int64_t>{
        {tokens, gathered}, {tokens + back, gathered}, {products, summed}, {products + back, summed}};
  };
  recipe::ModelConfig config = longhaul::testing::parallel_blocks();
  // One more gathers for the loss, and one sums the embedding.
  EXPECT_EQ(calls_of(config, 1), expected(3 + 1, 3 + 1));
  EXPECT_EQ(calls_of(config, 2), expected(2 * 3 + 1, 2 * 3 + 1));
  config.wiring = recipe::Wiring::kPreNorm;
  EXPECT_EQ(calls_of(config, 1), expected(2 * 3 + 1, 2 * 3 + 1));
}

}  // namespace
}  // namespace longhaul::parallel
