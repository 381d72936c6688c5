// How tensors move between processes once all ranks have met.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/memory/memory_purpose.h"
#include "base/process/fault_point.h"
#include "comm/gloo/gloo_group.h"
#include "comm/threads/combine.h"

namespace longhaul::comm {
namespace {

std::byte* bytes_of(const Tensor& tensor) {
  return static_cast<std::byte*>(const_cast<void*>(tensor.const_data_ptr()));
}

size_t row_bytes(const Tensor& tensor) {
  const at::IntArrayRef sizes = tensor.sizes().slice(1);
  return static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>())) *
         tensor.element_size();
}

// Where each rank's rows begin, in bytes.
std::vector<size_t> offsets_of(const std::vector<int64_t>& rows, size_t width) {
  std::vector<size_t> offsets = {0};
  for (const int64_t count : rows) offsets.push_back(offsets.back() + static_cast<size_t>(count) * width);
  return offsets;
}

// Counted as every tensor's memory is (base/memory/memory_purpose.h), and kept for the next call.
Tensor scratch_of(int64_t bytes) {
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  return at::empty({bytes}, at::kByte);
}

void copy_bytes(const std::byte* from, std::byte* to, size_t count) {
  if (count > 0 && from != to) std::memcpy(to, from, count);
}

}  // namespace

bool GlooGroup::move_tensors(GlooCall& call) {
  if (size() == 1) {
    if (call.call.input.defined())
      copy_bytes(bytes_of(call.call.input), bytes_of(call.call.output), call.call.input.nbytes());
    return true;
  }
  switch (call.call.kind) {
    case CallKind::kAllReduce:
      return all_reduce(call);
    case CallKind::kReduceScatter:
      return reduce_scatter(call);
    case CallKind::kAllGather:
      return all_gather(call);
    case CallKind::kAllToAll:
      return all_to_all(call);
    case CallKind::kBroadcast:
      return broadcast(call);
    case CallKind::kBarrier:
    case CallKind::kSplit:
      return true;
    case CallKind::kExchange:
      break;
  }
  LONGHAUL_ASSERT(false, "an exchange is no call of all ranks");
}

bool GlooGroup::transmit(const std::vector<Part>& sends, const std::vector<Part>& receives,
                         const GlooCall& call) {
  struct Going {
    std::unique_ptr<Transmission> transmission;
    int64_t peer;
  };
  fault_point("call.move");
  const int64_t tensors = tag(kTensors + lane_of(call.call));
  std::vector<Going> all;
  for (const Part& part : receives) {
    if (part.count == 0 || part.rank == rank_) continue;
    all.push_back(
        {world_->wire().receive(world_rank(part.rank), tensors, part.bytes, part.count), part.rank});
  }
  for (const Part& part : sends) {
    if (part.count == 0 || part.rank == rank_) continue;
    all.push_back({world_->wire().send(world_rank(part.rank), tensors, part.bytes, part.count), part.rank});
  }
  bool well = true;
  for (const Going& one : all) {
    well = well && moved(*one.transmission, call, one.peer);
  }
  return well;
}

bool GlooGroup::all_reduce(GlooCall& call) {
  const Tensor& values = call.call.input;
  if (values.nbytes() <= kCarried) {
    if (values.numel() == 0) return true;
    Piece piece{.targets = {bytes_of(values)},
                .elements = values.numel(),
                .type = values.scalar_type(),
                .reduction = call.call.reduction};
    for (const Notice& notice : call.heard) piece.sources.push_back(notice.carried.data());
    combine(piece);
    return true;
  }
  const auto width = static_cast<int64_t>(values.element_size());
  const int64_t round = kGlooRoundBytes / width,
                most = (std::min(round, values.numel()) + size() - 1) / size();
  const Tensor scratch = scratch_of(most * width * size());
  for (int64_t first = 0; first < values.numel(); first += round) {
    if (!sum_up(bytes_of(values) + first * width, std::min(round, values.numel() - first), call,
                bytes_of(scratch)))
      return false;
  }
  return true;
}

// Each rank adds its share of the elements, in the order of ranks, and gives the sums to all.
bool GlooGroup::sum_up(std::byte* values, int64_t elements, const GlooCall& call, std::byte* scratch) {
  const ScalarType type = call.call.input.scalar_type();
  const size_t width = c10::elementSize(type);
  std::vector<int64_t> shares;
  for (int64_t rank = 0; rank < size(); ++rank)
    shares.push_back(elements * (rank + 1) / size() - elements * rank / size());
  const std::vector<size_t> offsets = offsets_of(shares, width);
  const auto self = static_cast<size_t>(rank_);
  const size_t own = static_cast<size_t>(shares[self]) * width;
  Piece piece{.targets = {values + offsets[self]},
              .elements = shares[self],
              .type = type,
              .reduction = call.call.reduction};
  std::vector<Part> sends, receives, gives, takes;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const auto number = static_cast<int64_t>(rank);
    const size_t its = static_cast<size_t>(shares[rank]) * width;
    sends.push_back({number, values + offsets[rank], its});
    receives.push_back({number, scratch + rank * own, own});
    gives.push_back({number, values + offsets[self], own});
    takes.push_back({number, values + offsets[rank], its});
    piece.sources.push_back(rank == self ? values + offsets[self] : scratch + rank * own);
  }
  if (!transmit(sends, receives, call)) return false;
  if (piece.elements > 0) combine(piece);
  return transmit(gives, takes, call);
}

// In rounds, of which each takes as large a part of every rank's run: all ranks cut all runs alike. A round's
// parts of this rank's run, one of each rank, are what lies beside the tensors.
bool GlooGroup::reduce_scatter(GlooCall& call) {
  const Tensor &input = call.call.input, &output = call.call.output;
  const std::vector<size_t> offsets = offsets_of(call.call.input_rows, row_bytes(input));
  const size_t width = input.element_size();
  const auto elements_of = [&](int64_t rank) {
    const auto index = static_cast<size_t>(rank);
    return static_cast<int64_t>((offsets[index + 1] - offsets[index]) / width);
  };
  int64_t most = 0;
  for (int64_t rank = 0; rank < size(); ++rank) most = std::max(most, elements_of(rank));
  const int64_t at_once = std::max<int64_t>(1, kGlooRoundBytes / (size() * static_cast<int64_t>(width)));
  const int64_t rounds = (most + at_once - 1) / at_once;
  const auto begin_of = [&](int64_t rank, int64_t round) {
    return static_cast<size_t>(elements_of(rank) * round / rounds);
  };
  const int64_t own = rounds == 0 ? 0 : (elements_of(rank_) + rounds - 1) / rounds;  // at most, in a round
  const size_t slot = static_cast<size_t>(own) * width;
  const Tensor scratch = scratch_of(static_cast<int64_t>(slot) * size());

  for (int64_t round = 0; round < rounds; ++round) {
    const size_t first = begin_of(rank_, round), end = begin_of(rank_, round + 1);
    Piece piece{.targets = {bytes_of(output) + first * width},
                .elements = static_cast<int64_t>(end - first),
                .type = input.scalar_type(),
                .reduction = call.call.reduction};
    std::vector<Part> sends, receives;
    for (int64_t rank = 0; rank < size(); ++rank) {
      const auto index = static_cast<size_t>(rank);
      const size_t its = begin_of(rank, round);
      sends.push_back(
          {rank, bytes_of(input) + offsets[index] + its * width, (begin_of(rank, round + 1) - its) * width});
      receives.push_back({rank, bytes_of(scratch) + index * slot, (end - first) * width});
      piece.sources.push_back(rank == rank_ ? bytes_of(input) + offsets[index] + first * width
                                            : receives.back().bytes);
    }
    if (!transmit(sends, receives, call)) return false;
    if (piece.elements > 0) combine(piece);
  }
  return true;
}

bool GlooGroup::all_gather(GlooCall& call) {
  const Tensor &input = call.call.input, &output = call.call.output;
  const std::vector<size_t> offsets = offsets_of(call.call.output_rows, row_bytes(output));
  std::vector<Part> sends, receives;
  for (size_t rank = 0; rank + 1 < offsets.size(); ++rank) {
    sends.push_back({static_cast<int64_t>(rank), bytes_of(input), input.nbytes()});
    receives.push_back(
        {static_cast<int64_t>(rank), bytes_of(output) + offsets[rank], offsets[rank + 1] - offsets[rank]});
  }
  copy_bytes(bytes_of(input), bytes_of(output) + offsets[static_cast<size_t>(rank_)], input.nbytes());
  return transmit(sends, receives, call);
}

bool GlooGroup::all_to_all(GlooCall& call) {
  const Tensor &input = call.call.input, &output = call.call.output;
  const std::vector<size_t> from = offsets_of(call.call.input_rows, row_bytes(input));
  const std::vector<size_t> to = offsets_of(call.call.output_rows, row_bytes(output));
  const auto self = static_cast<size_t>(rank_);
  std::vector<Part> sends, receives;
  for (size_t rank = 0; rank + 1 < from.size(); ++rank) {
    sends.push_back({static_cast<int64_t>(rank), bytes_of(input) + from[rank], from[rank + 1] - from[rank]});
    receives.push_back({static_cast<int64_t>(rank), bytes_of(output) + to[rank], to[rank + 1] - to[rank]});
  }
  copy_bytes(bytes_of(input) + from[self], bytes_of(output) + to[self], from[self + 1] - from[self]);
  return transmit(sends, receives, call);
}

bool GlooGroup::broadcast(GlooCall& call) {
  const Tensor& values = call.call.input;
  std::vector<Part> sends, receives;
  if (call.call.root != rank_) {
    receives.push_back({call.call.root, bytes_of(values), values.nbytes()});
  } else {
    for (int64_t rank = 0; rank < size(); ++rank) sends.push_back({rank, bytes_of(values), values.nbytes()});
  }
  return transmit(sends, receives, call);
}

}  // namespace longhaul::comm
