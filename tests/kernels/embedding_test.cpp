#include "kernels/embedding/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/threads.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

Tensor ids_of(std::vector<int64_t> ids) { return at::tensor(at::ArrayRef<int64_t>(ids), at::kLong); }

// Repeated ids add up in the sink's precision: fp32 for bf16 rows, so two bf16 gradients lose nothing.
TEST(Embedding, EqualsPlainEmbedding) {
  const Tensor ids = ids_of({3, 0, 3, 9, 3, 1});
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Tensor table = random_tensor({10, 6}, 1, type).requires_grad_(true), dy = random_tensor({6, 6}, 2, type);
    const Tensor sink = at::zeros({10, 6}, at::TensorOptions().dtype(type == at::kDouble ? at::kDouble : at::kFloat));
    const Tensor y = embedding(ids, table, sink);
    EXPECT_TRUE(y.equal(table.index_select(0, ids))) << type;
    y.backward(dy);
    EXPECT_FALSE(table.grad().defined());
    const Tensor expected = at::zeros({10, 6}, at::kDouble).index_add(0, ids, dy.to(at::kDouble));
    EXPECT_LT(relative_error(sink, expected), type == at::kDouble ? 1e-15 : 1e-6) << type;
  }
}

TEST(Embedding, AddsToWhatTheSinkHolds) {
  const Tensor table = random_tensor({4, 3}, 1).requires_grad_(true), sink = at::full({4, 3}, 2.0, at::kDouble);
  for (int i = 0; i < 2; ++i) embedding(ids_of({1}), table, sink).sum().backward();
  EXPECT_TRUE(sink[1].eq(4).all().item<bool>());
  EXPECT_TRUE(sink[0].eq(2).all().item<bool>());
}

TEST(Embedding, RefusesForeignIds) {
  const Tensor table = random_tensor({4, 3}, 1);
  EXPECT_EQ(embedding(ids_of({}), table, table).sizes(), at::IntArrayRef({0, 3}));
  for (const int64_t id : {-1, 4}) {
    try {
      embedding(ids_of({0, id}), table, table);
      ADD_FAILURE() << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_EQ(error.fields().found, std::to_string(id));
    }
  }
  EXPECT_THROW(embedding(at::zeros({2}, at::kInt), table, table), Error);
}

TEST(Embedding, SameForEveryNumberOfThreads) {
  auto generator = at::detail::createCPUGenerator(1);
  const Tensor ids = at::randint(50, {3000}, generator, at::TensorOptions().dtype(at::kLong));
  const Tensor table = random_tensor({50, 80}, 1, at::kFloat).requires_grad_(true), dy = random_tensor({3000, 80}, 2, at::kFloat);
  expect_same_for_all_threads([&] {
    const Tensor sink = at::zeros({50, 80});
    embedding(ids, table, sink).backward(dy);
    return std::vector<Tensor>{sink};
  });
}

}  // namespace
}  // namespace longhaul::kernels
