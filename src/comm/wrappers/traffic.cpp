#include "comm/wrappers/traffic.h"

namespace longhaul::comm {
namespace {

int64_t bytes_in(const Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

// Elements of a sum that are this rank's to add up: as even as possible, the first ranks one more.
int64_t share_of_sum(int64_t elements, int64_t rank, int64_t size) {
  return elements / size + (rank < elements % size ? 1 : 0);
}

Traffic of_transfers(const Call& call, int64_t rank) {
  Traffic traffic;
  for (const Transfer& each : call.transfers) {
    if (each.peer == rank) continue;
    (each.direction == Direction::kSend ? traffic.sent : traffic.received) += bytes_in(each.tensor);
  }
  return traffic;
}

// Of rows that all_to_all moves: those to and from oneself do not travel.
int64_t travelling(const Tensor& tensor, const std::vector<int64_t>& rows, int64_t rank) {
  const int64_t all = tensor.size(0);
  return all == 0 ? 0 : bytes_in(tensor) / all * (all - rows[static_cast<size_t>(rank)]);
}

}  // namespace

Traffic traffic_of(const Call& call, int64_t rank, int64_t size) {
  const int64_t others = size - 1;
  switch (call.kind) {
    case CallKind::kAllReduce: {
      const auto width = static_cast<int64_t>(call.input.element_size());
      const int64_t own = share_of_sum(call.input.numel(), rank, size) * width,
                    foreign = bytes_in(call.input) - own;
      return {foreign + own * others, own * others + foreign};
    }
    case CallKind::kReduceScatter:
      return {bytes_in(call.input) - bytes_in(call.output), bytes_in(call.output) * others};
    case CallKind::kAllGather:
      return {bytes_in(call.input) * others, bytes_in(call.output) - bytes_in(call.input)};
    case CallKind::kAllToAll:
      return {travelling(call.input, call.input_rows, rank), travelling(call.output, call.output_rows, rank)};
    case CallKind::kBroadcast:
      return rank == call.root ? Traffic{bytes_in(call.input) * others, 0} : Traffic{0, bytes_in(call.input)};
    case CallKind::kExchange:
      return of_transfers(call, rank);
    case CallKind::kBarrier:
    case CallKind::kSplit:
      return {};
  }
  return {};
}

}  // namespace longhaul::comm
