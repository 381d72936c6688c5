#include "comm/wrappers/traffic.h"

namespace longhaul::comm {
namespace {

int64_t bytes_in(const Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

// Elements of a sum that are this rank's to add up: as even as possible, the first ranks one more.
int64_t share_of_sum(int64_t elements, int64_t rank, int64_t size) {
  return elements / size + (rank < elements % size ? 1 : 0);
}

// Bytes of one of the rows along dimension 0.
int64_t row_bytes(const Tensor& tensor) {
  return tensor.size(0) == 0 ? 0 : bytes_in(tensor) / tensor.size(0);
}

// Between this rank and one other.
Traffic with_peer(const Call& call, int64_t rank, int64_t size, int64_t peer) {
  const auto at = static_cast<size_t>(peer);
  switch (call.kind) {
    case CallKind::kAllReduce: {
      const auto width = static_cast<int64_t>(call.input.element_size());
      // The peer's share goes there to be added up, this rank's share goes there when it is; and likewise
      // back.
      const int64_t both =
          (share_of_sum(call.input.numel(), rank, size) + share_of_sum(call.input.numel(), peer, size)) *
          width;
      return {both, both};
    }
    case CallKind::kReduceScatter:
      return {call.input_rows[at] * row_bytes(call.input), bytes_in(call.output)};
    case CallKind::kAllGather:
      return {bytes_in(call.input), call.output_rows[at] * row_bytes(call.output)};
    case CallKind::kAllToAll:
      return {call.input_rows[at] * row_bytes(call.input), call.output_rows[at] * row_bytes(call.output)};
    case CallKind::kBroadcast:
      return {rank == call.root ? bytes_in(call.input) : 0, peer == call.root ? bytes_in(call.input) : 0};
    case CallKind::kExchange: {
      Traffic traffic;
      for (const Transfer& each : call.transfers) {
        if (each.peer != peer) continue;
        (each.direction == Direction::kSend ? traffic.sent : traffic.received) += bytes_in(each.tensor);
      }
      return traffic;
    }
    case CallKind::kBarrier:
    case CallKind::kSplit:
      return {};
  }
  return {};
}

}  // namespace

Traffic traffic_with(const Call& call, int64_t rank, int64_t size,
                     const std::function<bool(int64_t peer)>& counts) {
  Traffic traffic;
  for (int64_t peer = 0; peer < size; ++peer) {
    if (peer == rank || !counts(peer)) continue;
    const Traffic more = with_peer(call, rank, size, peer);
    traffic.sent += more.sent;
    traffic.received += more.received;
  }
  return traffic;
}

Traffic traffic_of(const Call& call, int64_t rank, int64_t size) {
  return traffic_with(call, rank, size, [](int64_t) { return true; });
}

}  // namespace longhaul::comm
