#include "parallel/checked_sums.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace longhaul::parallel {
namespace {

thread_local CheckedSums* checks = nullptr;

// Half of the distance from one to the next number.
double rounding_of(ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 0x1p-53;
    case at::kFloat:
      return 0x1p-24;
    case at::kHalf:
      return 0x1p-11;
    default:
      return 0x1p-8;
  }
}

constexpr int64_t kInBlock[] = {1};  // the dimension

int64_t blocks_of(int64_t length) { return (length + kSumBlock - 1) / kSumBlock; }

void block_sums_of_run(const Tensor& run, const Tensor& sums) {
  const int64_t whole = run.numel() / kSumBlock;
  const auto into = [&](const Tensor& rows, int64_t first) {
    sums[0].narrow(0, first, rows.size(0)).copy_(rows.sum(at::IntArrayRef(kInBlock), false, at::kDouble));
    sums[1]
        .narrow(0, first, rows.size(0))
        .copy_(at::linalg_vector_norm(rows, 1, at::IntArrayRef(kInBlock), false, at::kDouble));
  };
  if (whole > 0) into(run.narrow(0, 0, whole * kSumBlock).view({whole, kSumBlock}), 0);
  if (const int64_t rest = run.numel() - whole * kSumBlock; rest > 0)
    into(run.narrow(0, whole * kSumBlock, rest).view({1, rest}), whole);
}

}  // namespace

Tensor block_sums(const Tensor& numbers, std::span<const int64_t> rows) {
  const Tensor flat = numbers.contiguous().view(-1);
  const std::vector<int64_t> runs =
      rows.empty() ? std::vector{flat.numel()} : std::vector<int64_t>(rows.begin(), rows.end());
  int64_t blocks = 0;
  for (const int64_t run : runs) blocks += blocks_of(run);
  const Tensor sums = at::zeros({2, blocks}, flat.options().dtype(at::kDouble));
  int64_t at = 0, block = 0;
  for (const int64_t run : runs) {
    block_sums_of_run(flat.narrow(0, at, run), sums.narrow(1, block, blocks_of(run)));
    at += run;
    block += blocks_of(run);
  }
  LONGHAUL_ASSERT(at == flat.numel(), "runs of {} of {} numbers", at, flat.numel());
  return sums;
}

double excess_of_sums(const Tensor& numbers, const Tensor& sums, int64_t ranks) {
  if (numbers.numel() == 0) return 0;
  const Tensor off = (block_sums(numbers)[0] - sums[0]).abs();
  const Tensor allowed = sums[1] * (rounding_of(numbers.scalar_type()) * static_cast<double>(ranks)) +
                         std::numeric_limits<float>::min();
  const double worst = (off / allowed).max().item<double>();
  return std::isfinite(worst) ? worst : std::numeric_limits<double>::infinity();
}

CheckedSums::CheckedSums() : before_(std::exchange(checks, this)) {}
CheckedSums::~CheckedSums() { checks = before_; }

comm::Work started_sum(comm::Communicator& group, const Tensor& from, const Tensor& into,
                       std::span<const int64_t> rows, const comm::CallOptions& options) {
  const auto start = [&] {
    return rows.empty()
               ? group.all_reduce(from, comm::Reduction::kSum, options)
               : group.reduce_scatter(from, into, comm::Reduction::kSum, options, {rows.begin(), rows.end()});
  };
  CheckedSums* const check = checks;
  if (check == nullptr) return start();

  class Both final : public comm::Work::State {
   public:
    Both(CheckedSums& check, comm::Work sum, comm::Work small, Tensor numbers, Tensor sums, int64_t ranks,
         std::string name)
        : check_(check),
          sum_(std::move(sum)),
          small_(std::move(small)),
          numbers_(std::move(numbers)),
          sums_(std::move(sums)),
          ranks_(ranks),
          name_(std::move(name)) {}
    void wait() override {
      sum_.wait();
      small_.wait();
      if (std::exchange(looked_, true)) return;
      ++check_.checked_;
      const double excess = excess_of_sums(numbers_, sums_, ranks_);
      if (excess <= 1 || check_.wrong_) return;
      check_.wrong_ = fmt::format("'{}' over {} ranks is off by {:.3g} times what rounding may leave", name_,
                                  ranks_, excess);
    }
    bool done() override { return sum_.done() && small_.done(); }

   private:
    CheckedSums& check_;
    comm::Work sum_, small_;
    Tensor numbers_, sums_;
    int64_t ranks_;
    std::string name_;
    bool looked_ = false;
  };
  // Before the sum begins, which may write where it reads; the small one behind it, in this order on all
  // ranks.
  const Tensor own = block_sums(from, rows);
  comm::Work sum = start();
  comm::CallOptions behind = options;
  behind.name = "check of " + options.name;
  comm::Work small = group.all_reduce(own, comm::Reduction::kSum, behind);
  Tensor of_all = own;
  if (!rows.empty()) {
    int64_t first = 0;
    for (int64_t rank = 0; rank < group.rank(); ++rank) first += blocks_of(rows[static_cast<size_t>(rank)]);
    of_all = own.narrow(1, first, blocks_of(rows[static_cast<size_t>(group.rank())]));
  }
  return comm::Work(std::make_shared<Both>(*check, std::move(sum), std::move(small), into, of_all,
                                           group.size(), options.name));
}

}  // namespace longhaul::parallel
