#include "comm/fake.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

namespace longhaul::comm {
namespace {

// Rows [begin, begin + its own) of `part` into `into`, with zeros behind them where there are too few.
void fill_rows(const Tensor& into, const Tensor& part) {
  const int64_t rows = std::min(into.size(0), part.size(0));
  into.narrow(0, 0, rows).copy_(part.narrow(0, 0, rows));
  into.narrow(0, rows, into.size(0) - rows).zero_();
}

int64_t first_row(const std::vector<int64_t>& rows, int64_t rank) {
  return std::accumulate(rows.begin(), rows.begin() + rank, int64_t{0});
}

// Every part of the output ← the same rows.
void repeat_rows(const Call& call, const Tensor& rows) {
  int64_t begin = 0;
  for (const int64_t count : call.output_rows) {
    fill_rows(call.output.narrow(0, begin, count), rows);
    begin += count;
  }
}

void pretend(const Call& call, int64_t rank, int64_t size) {
  switch (call.kind) {
    case CallKind::kAllReduce:
      if (call.reduction == Reduction::kSum) Tensor(call.output).mul_(size);
      return;
    case CallKind::kReduceScatter: {
      const Tensor own =
          call.input.narrow(0, first_row(call.input_rows, rank), call.input_rows[static_cast<size_t>(rank)]);
      Tensor(call.output).copy_(own.mul(size));
      return;
    }
    case CallKind::kAllGather:
      return repeat_rows(call, call.input.clone());
    case CallKind::kAllToAll:  // what each of the others has for this rank
      return repeat_rows(call, call.input.narrow(0, first_row(call.input_rows, rank),
                                                 call.input_rows[static_cast<size_t>(rank)]));
    default:
      return;
  }
}

}  // namespace

Work Fake::start(Call call) {
  if (call.output.defined() && !call.output.is_meta()) {
    const at::NoGradGuard no_gradient;
    pretend(call, rank(), size());
  }
  return Work();
}

std::vector<std::unique_ptr<Communicator>> Fake::start_split(Call call) {
  std::vector<std::unique_ptr<Communicator>> groups;
  for (const layout::GroupKind& kind : call.kinds) {
    std::unique_ptr<Communicator>& mine = groups.emplace_back();
    for (size_t number = 0; number < kind.groups.size() && !mine; ++number) {
      const std::vector<int64_t>& members = kind.groups[number];
      const auto place = std::ranges::find(members, rank());
      if (place == members.end()) continue;
      mine = std::make_unique<Fake>(place - members.begin(), static_cast<int64_t>(members.size()),
                                    fmt::format("{} {}", kind.name, number));
    }
  }
  return groups;
}

}  // namespace longhaul::comm
