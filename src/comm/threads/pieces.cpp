#include "comm/threads/pieces.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace longhaul::comm {
namespace {

// large beside the cost of handing a piece out, small beside a bucket of gradients
constexpr int64_t kPieceBytes = 256 << 10;

// Part of a tensor's memory: from an element on.
struct Place {
  const Tensor& tensor;
  int64_t element = 0;
  const std::byte* source() const {
    return static_cast<const std::byte*>(tensor.const_data_ptr()) +
           element * static_cast<int64_t>(tensor.itemsize());
  }
  std::byte* target() const {
    return static_cast<std::byte*>(tensor.mutable_data_ptr()) +
           element * static_cast<int64_t>(tensor.itemsize());
  }
};

void add_pieces(std::vector<Piece>& pieces, const std::vector<Place>& sources,
                const std::vector<Place>& targets, int64_t elements, Reduction reduction = Reduction::kSum) {
  if (elements == 0) return;
  const Tensor& any = sources.front().tensor;
  const int64_t itemsize = static_cast<int64_t>(any.itemsize());
  const int64_t step = kPieceBytes / itemsize;
  for (int64_t begin = 0; begin < elements; begin += step) {
    Piece piece{
        .elements = std::min(step, elements - begin), .type = any.scalar_type(), .reduction = reduction};
    for (const Place& place : sources) piece.sources.push_back(place.source() + begin * itemsize);
    for (const Place& place : targets) {
      std::byte* target = place.target() + begin * itemsize;
      if (sources.size() > 1 || target != piece.sources.front()) piece.targets.push_back(target);
    }
    if (!piece.targets.empty()) pieces.push_back(std::move(piece));
  }
}

int64_t row_elements(const Tensor& tensor) {
  const at::IntArrayRef sizes = tensor.sizes().slice(1);
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Where each rank's rows begin, in rows.
std::vector<int64_t> starts(const std::vector<int64_t>& rows) {
  std::vector<int64_t> first(rows.size());
  std::exclusive_scan(rows.begin(), rows.end(), first.begin(), int64_t{0});
  return first;
}

void add_reduce_scatter(std::vector<Piece>& pieces, const std::vector<Call>& calls) {
  const std::vector<int64_t>& rows = calls.front().input_rows;
  const std::vector<int64_t> first = starts(rows);
  const int64_t width = row_elements(calls.front().input);
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    std::vector<Place> sources;
    for (const Call& call : calls) sources.push_back({call.input, first[rank] * width});
    add_pieces(pieces, sources, {{calls[rank].output}}, rows[rank] * width, calls.front().reduction);
  }
}

void add_all_gather(std::vector<Piece>& pieces, const std::vector<Call>& calls) {
  const std::vector<int64_t>& rows = calls.front().output_rows;
  const std::vector<int64_t> first = starts(rows);
  const int64_t width = row_elements(calls.front().output);
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    std::vector<Place> targets;
    for (const Call& call : calls) targets.push_back({call.output, first[rank] * width});
    add_pieces(pieces, {{calls[rank].input}}, targets, rows[rank] * width);
  }
}

void add_all_to_all(std::vector<Piece>& pieces, const std::vector<Call>& calls) {
  const int64_t width = row_elements(calls.front().input);
  std::vector<std::vector<int64_t>> from, to;
  for (const Call& call : calls) {
    from.push_back(starts(call.input_rows));
    to.push_back(starts(call.output_rows));
  }
  for (size_t a = 0; a < calls.size(); ++a) {
    for (size_t b = 0; b < calls.size(); ++b) {
      add_pieces(pieces, {{calls[a].input, from[a][b] * width}}, {{calls[b].output, to[b][a] * width}},
                 calls[a].input_rows[b] * width);
    }
  }
}

// A tensor of one rank's call, and whether the call writes to it.
struct Use {
  size_t rank;
  const Tensor* tensor;
  bool written;
};

std::vector<Use> uses_of(const std::vector<Call>& calls) {
  std::vector<Use> uses;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Call& call = calls[rank];
    if (call.input.defined()) uses.push_back({rank, &call.input, false});
    if (!written_by(call, static_cast<int64_t>(rank)).empty()) uses.push_back({rank, &call.output, true});
  }
  return uses;
}

std::optional<Contradiction> shared_memory(const std::vector<Call>& calls) {
  const std::vector<Use> uses = uses_of(calls);
  for (const Use& a : uses) {
    if (!a.written) continue;
    for (const Use& b : uses) {
      if (a.rank == b.rank || !overlap(*a.tensor, *b.tensor)) continue;
      return Contradiction{"each rank's tensors in memory of its own",
                           fmt::format("rank {} writes {} where {} of rank {} lies", a.rank,
                                       describe(*a.tensor), describe(*b.tensor), b.rank)};
    }
  }
  return std::nullopt;
}

std::optional<Contradiction> unequal_counts(const std::vector<Call>& calls) {
  for (size_t a = 0; a < calls.size(); ++a) {
    for (size_t b = 0; b < calls.size(); ++b) {
      const int64_t sent = calls[a].input_rows[b], received = calls[b].output_rows[a];
      if (sent == received) continue;
      return Contradiction{
          "as many rows received as were sent",
          fmt::format("rank {} sends {} rows to rank {}, which receives {}", a, sent, b, received)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Contradiction> contradiction(const std::vector<Call>& calls) {
  if (calls.front().kind == CallKind::kAllToAll) {
    if (auto found = unequal_counts(calls)) return found;
  }
  return shared_memory(calls);
}

std::vector<Piece> pieces_of(const std::vector<Call>& calls) {
  const Call& first = calls.front();
  std::vector<Piece> pieces;
  switch (first.kind) {
    case CallKind::kAllReduce: {
      std::vector<Place> all;
      for (const Call& call : calls) all.push_back({call.input});
      add_pieces(pieces, all, all, first.input.numel(), first.reduction);
      break;
    }
    case CallKind::kReduceScatter:
      add_reduce_scatter(pieces, calls);
      break;
    case CallKind::kAllGather:
      add_all_gather(pieces, calls);
      break;
    case CallKind::kAllToAll:
      add_all_to_all(pieces, calls);
      break;
    case CallKind::kBroadcast: {
      std::vector<Place> all;
      for (const Call& call : calls) all.push_back({call.output});
      add_pieces(pieces, {{calls[static_cast<size_t>(first.root)].input}}, all, first.input.numel());
      break;
    }
    case CallKind::kBarrier:
    case CallKind::kSplit:
      break;
    case CallKind::kExchange:
      LONGHAUL_ASSERT(false, "an exchange is no call of all ranks");
  }
  return pieces;
}

std::vector<Piece> pieces_of_copy(const Tensor& source, const Tensor& target) {
  std::vector<Piece> pieces;
  add_pieces(pieces, {{source}}, {{target}}, source.numel());
  return pieces;
}

}  // namespace longhaul::comm
