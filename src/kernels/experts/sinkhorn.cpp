#include "kernels/experts/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/documents.h"
#include "kernels/vector/row_blocks.h"
#include "tensor/device.h"

namespace longhaul::kernels {
namespace {

constexpr double kLeastSum = 1e-8, kTolerance = 1e-4;
constexpr int kMostRounds = 100;

// exp(logit − the row's largest), in place.
void exponentiate(std::span<double> row) {
  const double most = std::ranges::max(row);
  for (double& x : row) x = std::exp(x - most);
}

class SinkhornRounds {
 public:
  SinkhornRounds(double* cost_te, int64_t tokens, int64_t experts)
      : cost_(cost_te),
        experts_(experts),
        blocks_(row_blocks(tokens)),
        d0_(static_cast<size_t>(tokens), 0),
        d1_(static_cast<size_t>(experts), 1),
        sums_(static_cast<size_t>(blocks_.count * experts)) {}

  void run() {
    for (int round = 0; round < kMostRounds; ++round) {
      if (next() < kTolerance) break;
    }
    parallel_for(0, blocks_.rows, 64, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t e = 0; e < experts_; ++e)
          row(t)[e] *= d0_[static_cast<size_t>(t)] * d1_[static_cast<size_t>(e)];
      }
    });
  }

 private:
  double* row(int64_t t) const { return cost_ + t * experts_; }

  // Of the tokens of one block: d0, and their part of the columns' sums.
  void block(int64_t b) {
    double* const sum = sums_.data() + b * experts_;
    std::fill(sum, sum + experts_, 0.0);
    for (int64_t t = blocks_.begin(b); t < blocks_.end(b); ++t) {
      double of_row = 0;
      for (int64_t e = 0; e < experts_; ++e) of_row += d1_[static_cast<size_t>(e)] * row(t)[e];
      const double d0 = d0_[static_cast<size_t>(t)] =
          1 / (static_cast<double>(blocks_.rows) * (of_row + kLeastSum));
      for (int64_t e = 0; e < experts_; ++e) sum[e] += d0 * row(t)[e];
    }
  }

  // One round; how far d1 moved.
  double next() {
    parallel_for(0, blocks_.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) block(b);
    });
    double moved = 0;
    for (int64_t e = 0; e < experts_; ++e) {
      double sum = 0;
      for (int64_t b = 0; b < blocks_.count; ++b) sum += sums_[static_cast<size_t>(b * experts_ + e)];
      double& d1 = d1_[static_cast<size_t>(e)];
      const double scaled = 1 / (static_cast<double>(experts_) * (sum + kLeastSum));
      moved += std::abs(scaled - d1);
      d1 = scaled;
    }
    return moved / static_cast<double>(experts_);
  }

  double* cost_;
  int64_t experts_;
  RowBlocks blocks_;
  std::vector<double> d0_, d1_, sums_;  // sums: of the columns, by block
};

}  // namespace

Tensor sinkhorn(const Tensor& logits) {
  if (logits.dim() != 2 || logits.size(1) < 1 || !at::isFloatingType(logits.scalar_type()))
    refuse_argument("sinkhorn", "logits", "[tokens, experts] of floating type", shape_text(logits));
  if (logits.is_meta())
    return at::empty(logits.sizes(), logits.options().dtype(at::kDouble).requires_grad(false));
  const Tensor cost =
      logits.detach().to(at::kCPU, at::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();
  const int64_t tokens = cost.size(0), experts = cost.size(1);
  double* const of = cost.mutable_data_ptr<double>();
  parallel_for(0, tokens, 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) exponentiate({of + t * experts, static_cast<size_t>(experts)});
  });
  if (tokens > 0) SinkhornRounds(of, tokens, experts).run();
  return to_device(cost, logits.device());
}

}  // namespace longhaul::kernels
