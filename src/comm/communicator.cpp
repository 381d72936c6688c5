#include "comm/communicator.h"

#include <utility>

namespace longhaul::comm {
namespace {

// Each rank's share where rows are spread evenly. What does not divide is left to check(), which says so.
std::vector<int64_t> even_rows(const Tensor& whole, int64_t size) {
  const int64_t rows = whole.defined() && whole.dim() > 0 ? whole.size(0) : 0;
  return std::vector<int64_t>(static_cast<size_t>(size), rows / size);
}

}  // namespace

Communicator::Communicator(std::string name, int64_t rank, int64_t size)
    : name_(std::move(name)), rank_(rank), size_(size) {
  LONGHAUL_ASSERT(rank >= 0 && rank < size, "rank {} of {}", rank, size);
}

void Communicator::prepare(Call& call) {
  check(call, rank_, size_, name_);
  call.sequence = call.kind == CallKind::kExchange ? exchanges_ : collectives_;
  for (const Tensor& tensor : written_by(call, rank_)) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

// A call that the back end refuses for itself takes no number: the group goes on.
Work Communicator::issue(Call call) {
  int64_t& calls = call.kind == CallKind::kExchange ? exchanges_ : collectives_;
  prepare(call);
  Work work = start(std::move(call));
  ++calls;
  return work;
}

Work Communicator::all_reduce(const Tensor& values, Reduction reduction, CallOptions options) {
  return issue({.kind = CallKind::kAllReduce,
                .options = std::move(options),
                .reduction = reduction,
                .input = values,
                .output = values});
}

Work Communicator::reduce_scatter(const Tensor& input, const Tensor& output, Reduction reduction,
                                  CallOptions options, std::vector<int64_t> rows) {
  if (rows.empty()) rows = even_rows(input, size_);
  return issue({.kind = CallKind::kReduceScatter,
                .options = std::move(options),
                .reduction = reduction,
                .input = input,
                .output = output,
                .input_rows = std::move(rows)});
}

Work Communicator::all_gather(const Tensor& input, const Tensor& output, CallOptions options,
                              std::vector<int64_t> rows) {
  if (rows.empty()) rows = even_rows(output, size_);
  return issue({.kind = CallKind::kAllGather,
                .options = std::move(options),
                .input = input,
                .output = output,
                .output_rows = std::move(rows)});
}

Work Communicator::all_to_all(const Tensor& input, const Tensor& output, std::vector<int64_t> send_rows,
                              std::vector<int64_t> receive_rows, CallOptions options) {
  return issue({.kind = CallKind::kAllToAll,
                .options = std::move(options),
                .input = input,
                .output = output,
                .input_rows = std::move(send_rows),
                .output_rows = std::move(receive_rows)});
}

Work Communicator::broadcast(const Tensor& values, int64_t root, CallOptions options) {
  return issue({.kind = CallKind::kBroadcast,
                .options = std::move(options),
                .root = root,
                .input = values,
                .output = values});
}

Work Communicator::exchange(std::vector<Transfer> transfers, CallOptions options) {
  return issue(
      {.kind = CallKind::kExchange, .options = std::move(options), .transfers = std::move(transfers)});
}

Work Communicator::barrier(CallOptions options) {
  return issue({.kind = CallKind::kBarrier, .options = std::move(options)});
}

std::vector<std::unique_ptr<Communicator>> Communicator::split(std::vector<layout::GroupKind> kinds,
                                                               CallOptions options) {
  Call call{.kind = CallKind::kSplit, .options = std::move(options), .kinds = std::move(kinds)};
  prepare(call);
  std::vector<std::unique_ptr<Communicator>> groups = start_split(std::move(call));
  ++collectives_;
  return groups;
}

}  // namespace longhaul::comm
