#include "kernels/embedding/op.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::embedding_test {
namespace {

using namespace longhaul::testing;

Tensor ids_of(std::vector<int64_t> ids) { return at::tensor(at::ArrayRef<int64_t>(ids), at::kLong); }
at::ScalarType embedding_wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

EmbeddingTable random_table(int64_t rows, int64_t hidden, uint64_t seed, at::ScalarType type = at::kDouble) {
  return {random_tensor({rows, hidden}, seed, type).requires_grad_(true),
          at::zeros({rows, hidden}, at::TensorOptions().dtype(embedding_wide(type)))};
}

// Repeated ids add up in the sink's precision: fp32 for bf16 rows, so bf16 gradients lose nothing.
TEST(Embedding, EqualsPlainEmbedding) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    const Tensor ids = ids_of({3, 0, 3, 9, 3, 1});
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      for (const int64_t hidden : {1, 6, 16, 37}) {
        const EmbeddingTable table = random_table(10, hidden, 1, type);
        const Tensor dy = random_tensor({6, hidden}, 2, type), y = embedding(ids, table);
        EXPECT_TRUE(y.equal(table.value_vd.index_select(0, ids))) << type;
        y.backward(dy);
        EXPECT_FALSE(table.value_vd.grad().defined());
        const Tensor expected = at::zeros({10, hidden}, at::kDouble).index_add(0, ids, dy.to(at::kDouble));
        EXPECT_LT(relative_error(table.sink.buffer(), expected), type == at::kDouble ? 1e-15 : 1e-6) << type;
      }
    }
  });
}

// With positions: the sum is rounded once (half a unit: 2^-8 of the largest), both tables get the whole
// gradient.
TEST(Embedding, AddsPositions) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    const Tensor ids = ids_of({3, 0, 3, 9, 3, 1}), positions = ids_of({0, 1, 2, 0, 1, 3});
    const std::pair<at::ScalarType, double> types[] = {
        {at::kDouble, 1e-15}, {at::kFloat, 1e-7}, {at::kBFloat16, 3.95e-3}};
    for (const auto& [type, tolerance] : types) {
      const EmbeddingTable table = random_table(10, 19, 1, type), position = random_table(4, 19, 3, type);
      const Tensor dy = random_tensor({6, 19}, 2, type), y = embedding(ids, table, positions, position);
      const Tensor expected = table.value_vd.to(at::kDouble).index_select(0, ids) +
                              position.value_vd.to(at::kDouble).index_select(0, positions);
      EXPECT_LT(relative_error(y, expected), tolerance) << type;
      y.backward(dy);
      const double sum_tolerance = type == at::kDouble ? 1e-15 : 1e-6;
      EXPECT_LT(relative_error(table.sink.buffer(),
                               at::zeros({10, 19}, at::kDouble).index_add(0, ids, dy.to(at::kDouble))),
                sum_tolerance)
          << type;
      EXPECT_LT(relative_error(position.sink.buffer(),
                               at::zeros({4, 19}, at::kDouble).index_add(0, positions, dy.to(at::kDouble))),
                sum_tolerance)
          << type;
    }
  });
}

TEST(Embedding, AddsToWhatTheSinkHolds) {
  const EmbeddingTable table{random_tensor({4, 3}, 1).requires_grad_(true),
                             at::full({4, 3}, 2.0, at::kDouble)};
  for (int i = 0; i < 2; ++i) embedding(ids_of({1}), table).sum().backward();
  EXPECT_TRUE(table.sink.buffer()[1].eq(4).all().item<bool>());
  EXPECT_TRUE(table.sink.buffer()[0].eq(2).all().item<bool>());
}

TEST(Embedding, AFrozenTableIsLeftAlone) {
  const EmbeddingTable frozen{random_tensor({4, 3}, 1), Tensor()}, position = random_table(2, 3, 2);
  EXPECT_FALSE(embedding(ids_of({1, 2}), frozen).requires_grad());
  embedding(ids_of({1, 2}), frozen, ids_of({0, 1}), position).sum().backward();
  EXPECT_TRUE(position.sink.buffer().eq(1).all().item<bool>());
}

TEST(Embedding, RefusesForeignIdsAndPositions) {
  const EmbeddingTable table = random_table(4, 3, 1), position = random_table(2, 3, 2);
  EXPECT_EQ(embedding(ids_of({}), table).sizes(), at::IntArrayRef({0, 3}));
  const auto expect_error = [](ExitCode code, int64_t found, const auto& call) {
    try {
      call();
      ADD_FAILURE() << found;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.fields().found, ::testing::EndsWith(std::to_string(found)));
    }
  };
  for (const int64_t id : {-1, 4})
    expect_error(ExitCode::kData, id, [&] { embedding(ids_of({0, id}), table); });
  expect_error(ExitCode::kUsage, 2, [&] { embedding(ids_of({0, 1}), table, ids_of({0, 2}), position); });
  EXPECT_THROW(embedding(at::zeros({2}, at::kInt), table), Error);
  EXPECT_THROW(embedding(ids_of({0, 1}), table, ids_of({0}), position), Error);
  EXPECT_THROW(embedding(ids_of({0}), {table.value_vd, at::zeros({4, 3})}), Error)
      << "the sink of fp64 is fp64";
}

// Many tokens of one id in a row cross the borders of the threads' shares.
TEST(Embedding, SameForEveryNumberOfThreads) {
  auto generator = at::detail::createCPUGenerator(1);
  const Tensor some = at::randint(50, {3000}, generator, at::TensorOptions().dtype(at::kLong)),
               one = at::full({3000}, 7, at::kLong);
  for (const Tensor& ids : {some, one}) {
    const EmbeddingTable table = random_table(50, 80, 1, at::kFloat);
    const Tensor dy = random_tensor({3000, 80}, 2, at::kFloat);
    const Tensor expected = at::zeros({50, 80}, at::kDouble).index_add(0, ids, dy.to(at::kDouble));
    expect_same_for_all_threads([&] {
      table.sink.buffer().zero_();
      embedding(ids, table).backward(dy);
      EXPECT_LT(relative_error(table.sink.buffer(), expected), 1e-5);
      return std::vector<Tensor>{table.sink.buffer().clone()};
    });
  }
}

}  // namespace
}  // namespace longhaul::kernels::embedding_test
