#include "comm/c10d/c10d_calls.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace longhaul::comm {
namespace {

using std::chrono::milliseconds;
using Rows = std::vector<int64_t>;

c10d::ReduceOp operation_of(Reduction reduction) {
  return reduction == Reduction::kMax ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
}

bool even(const Rows& rows) {
  return std::ranges::all_of(rows, [&](int64_t each) { return each == rows.front(); });
}

// Room for as many rows of every rank as the longest share has. Undefined: it would be too large.
Tensor padded_room(const Tensor& like, const Rows& rows) {
  const int64_t most = std::ranges::max(rows);
  std::vector<int64_t> sizes = like.sizes().vec();
  sizes[0] = most * std::ssize(rows);
  const int64_t elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  if (elements * static_cast<int64_t>(like.element_size()) > kMostPadded) return {};
  return at::empty(sizes, like.options().requires_grad(false));
}

// The part of `room` that belongs to a rank, and what of it is data.
Tensor part_of(const Tensor& room, const Rows& rows, size_t rank) {
  const int64_t most = std::ranges::max(rows);
  return room.narrow(0, static_cast<int64_t>(rank) * most, most);
}

void pad_into(const Tensor& part, const Tensor& values) {
  part.narrow(0, 0, values.size(0)).copy_(values);
  part.narrow(0, values.size(0), part.size(0) - values.size(0)).zero_();
}

StartedCalls reduce_scatter(c10d::Backend& backend, const Call& call, int64_t rank, milliseconds timeout) {
  if (call.input.numel() == 0) return {};
  const c10d::ReduceScatterOptions options{.reduceOp = operation_of(call.reduction), .timeout = timeout};
  const Rows& rows = call.input_rows;
  Tensor input = call.input, output = call.output;
  if (even(rows)) return {.works = {backend._reduce_scatter_base(output, input, options)}, .finish = {}};
  const std::vector<Tensor> pieces = call.input.split_with_sizes(rows);
  const Tensor room = padded_room(call.input, rows);
  if (!room.defined()) {
    std::vector<std::vector<Tensor>> list = {pieces};
    std::vector<Tensor> one = {output};
    return {.works = {backend.reduce_scatter(one, list, options)}, .finish = {}};
  }
  for (size_t r = 0; r < rows.size(); ++r) pad_into(part_of(room, rows, r), pieces[r]);
  Tensor all = room, own = at::empty_like(part_of(room, rows, static_cast<size_t>(rank)));
  return {.works = {backend._reduce_scatter_base(own, all, options)},
          .finish = [own, output] { output.copy_(own.narrow(0, 0, output.size(0))); }};
}

StartedCalls all_gather(c10d::Backend& backend, const Call& call, int64_t rank, milliseconds timeout) {
  if (call.output.numel() == 0) return {};
  const c10d::AllgatherOptions options{.timeout = timeout};
  const Rows& rows = call.output_rows;
  Tensor input = call.input, output = call.output;
  if (even(rows)) return {.works = {backend._allgather_base(output, input, options)}, .finish = {}};
  const std::vector<Tensor> pieces = call.output.split_with_sizes(rows);
  Tensor room = padded_room(call.output, rows);
  if (!room.defined()) {
    std::vector<std::vector<Tensor>> list = {pieces};
    std::vector<Tensor> one = {input};
    return {.works = {backend.allgather(list, one, options)}, .finish = {}};
  }
  Tensor own = at::empty_like(part_of(room, rows, static_cast<size_t>(rank)));
  pad_into(own, input);
  return {.works = {backend._allgather_base(room, own, options)}, .finish = [room, rows, pieces] {
            for (size_t r = 0; r < rows.size(); ++r)
              Tensor(pieces[r]).copy_(part_of(room, rows, r).narrow(0, 0, rows[r]));
          }};
}

// What goes from a rank to itself; the n-th sent is the n-th received.
void deliver_own(const Call& call, int64_t rank) {
  std::deque<Tensor> sent, received;
  for (const Transfer& transfer : call.transfers) {
    if (transfer.peer == rank)
      (transfer.direction == Direction::kSend ? sent : received).push_back(transfer.tensor);
  }
  LONGHAUL_ASSERT(sent.size() == received.size(), "{}: {} messages to the rank itself, {} from it",
                  label(call), sent.size(), received.size());
  for (size_t i = 0; i < sent.size(); ++i) received[i].copy_(sent[i]);
}

StartedCalls start_exchange(c10d::Backend& backend, const Call& call, int64_t rank) {
  deliver_own(call, rank);
  // else two ranks that both send first would wait for each other on a GPU's stream
  const bool together = backend.supportsCoalescing();
  StartedCalls started;
  bool any = false;
  for (const Transfer& transfer : call.transfers) {
    if (transfer.peer == rank) continue;
    if (together && !any) backend.startCoalescing();
    any = true;
    std::vector<Tensor> one = {transfer.tensor};
    const int peer = static_cast<int>(transfer.peer);
    auto work = transfer.direction == Direction::kSend ? backend.send(one, peer, /*tag=*/0)
                                                       : backend.recv(one, peer, /*tag=*/0);
    if (!together) started.works.push_back(std::move(work));
  }
  if (together && any) started.works.push_back(backend.endCoalescing());
  return started;
}

}  // namespace

StartedCalls start_call(c10d::Backend& backend, const Call& call, int64_t rank, milliseconds timeout) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> one = {call.output};
  switch (call.kind) {
    case CallKind::kAllReduce:
      if (call.output.numel() == 0) return {};
      return {
          .works = {backend.allreduce(one, {.reduceOp = operation_of(call.reduction), .timeout = timeout})},
          .finish = {}};
    case CallKind::kReduceScatter:
      return reduce_scatter(backend, call, rank, timeout);
    case CallKind::kAllGather:
      return all_gather(backend, call, rank, timeout);
    case CallKind::kAllToAll: {
      Tensor input = call.input, output = call.output;
      Rows sent = call.input_rows, received = call.output_rows;
      return {.works = {backend.alltoall_base(output, input, received, sent, {.timeout = timeout})},
              .finish = {}};
    }
    case CallKind::kBroadcast:
      if (call.output.numel() == 0) return {};
      return {.works = {backend.broadcast(one, {.rootRank = call.root, .timeout = timeout})}, .finish = {}};
    case CallKind::kExchange:
      return start_exchange(backend, call, rank);
    case CallKind::kBarrier:
      return {.works = {backend.barrier({.timeout = timeout})}, .finish = {}};
    case CallKind::kSplit:
      break;
  }
  LONGHAUL_ASSERT(false, "{} is no call that moves tensors", label(call));
}

}  // namespace longhaul::comm
