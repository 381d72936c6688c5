// Collectives inside autograd against sums and pieces made by hand. Rank r holds x_r; the loss is Σ w_r · y_r
// with weights that differ by rank.
#include "parallel/collectives.h"

#include <gtest/gtest.h>

#include "comm/threads/run_ranks.h"

namespace longhaul::parallel {
namespace {

const std::vector<int64_t> kRows = {3, 0, 2};  // uneven, and one rank without any

Tensor numbers(int64_t rows, double first) {
  return at::arange(rows * 2, at::kDouble).add(first).mul(0.25).view({rows, 2});
}

TEST(Collectives, GatheredRowsGetTheGradientsOfAllRanks) {
  comm::run_ranks(3, [](comm::Communicator& group) {
    const int64_t rank = group.rank();
    std::vector<Tensor> parts;
    for (int64_t r = 0; r < 3; ++r)
      parts.push_back(numbers(kRows[static_cast<size_t>(r)], 10.0 * static_cast<double>(r)));
    const Tensor x = parts[static_cast<size_t>(rank)].clone().requires_grad_(true);
    const Tensor all = gather_rows(group, x, kRows, "rows");
    EXPECT_TRUE(all.detach().equal(at::cat(parts)));
    const auto weight = [](int64_t r) { return numbers(5, static_cast<double>(r + 1)); };
    all.mul(weight(rank)).sum().backward();
    const int64_t begin = rank == 0 ? 0 : 3;
    const Tensor expected =
        (weight(0) + weight(1) + weight(2)).narrow(0, begin, kRows[static_cast<size_t>(rank)]);
    EXPECT_TRUE(x.grad().equal(expected));
  });
}

TEST(Collectives, ScatteredSumsSendTheirGradientsToAllRanks) {
  comm::run_ranks(3, [](comm::Communicator& group) {
    const int64_t rank = group.rank(), begin = rank == 0 ? 0 : 3, rows = kRows[static_cast<size_t>(rank)];
    const auto part = [](int64_t r) { return numbers(5, static_cast<double>(r * r)); };
    const Tensor x = part(rank).clone().requires_grad_(true);
    const Tensor own = sum_scatter_rows(group, x, kRows, "sums");
    EXPECT_TRUE(own.detach().equal((part(0) + part(1) + part(2)).narrow(0, begin, rows)));
    own.mul(static_cast<double>(rank + 1)).sum().backward();
    EXPECT_TRUE(
        x.grad().equal(at::cat({at::full({3, 2}, 1.0, at::kDouble), at::full({2, 2}, 3.0, at::kDouble)})));
  });
}

TEST(Collectives, ASumThatAllUseGetsTheGradientsOfAll) {
  comm::run_ranks(3, [](comm::Communicator& group) {
    const auto r = static_cast<double>(group.rank());
    const Tensor x = at::full({2}, r + 1, at::kDouble).requires_grad_(true);
    const Tensor sum = sum_everywhere(group, x, "sum");
    EXPECT_TRUE(sum.detach().equal(at::full({2}, 6.0, at::kDouble)));
    sum.mul(r + 2).sum().backward();
    EXPECT_TRUE(x.grad().equal(at::full({2}, 9.0, at::kDouble)));
  });
}

TEST(Collectives, ExchangedRowsSendTheirGradientsBack) {
  // From rank r to rank s go (r + 2 s) % 3 rows.
  const auto count = [](int64_t r, int64_t s) { return (r + 2 * s) % 3; };
  comm::run_ranks(3, [&](comm::Communicator& group) {
    const int64_t rank = group.rank();
    std::vector<int64_t> send, receive;
    for (int64_t s = 0; s < 3; ++s) send.push_back(count(rank, s)), receive.push_back(count(s, rank));
    const auto rows_of = [&](int64_t r) {
      return numbers(count(r, 0) + count(r, 1) + count(r, 2), 100.0 * static_cast<double>(r));
    };
    const Tensor x = rows_of(rank).clone().requires_grad_(true);
    const Tensor y = exchange_rows(group, x, send, receive, "rows");
    std::vector<Tensor> expected, gradient;
    for (int64_t r = 0; r < 3; ++r) {
      int64_t begin = 0;
      for (int64_t s = 0; s < rank; ++s) begin += count(r, s);
      expected.push_back(rows_of(r).narrow(0, begin, count(r, rank)));
      gradient.push_back(at::full({count(rank, r), 2}, static_cast<double>(r + 1), at::kDouble));
    }
    EXPECT_TRUE(y.detach().equal(at::cat(expected)));
    y.mul(static_cast<double>(rank + 1)).sum().backward();
    EXPECT_TRUE(x.grad().equal(at::cat(gradient)));
  });
}

}  // namespace
}  // namespace longhaul::parallel
