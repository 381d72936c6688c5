#include "comm/call.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "comm/threads/combine.h"

namespace longhaul::comm {
namespace {

using Rows = std::vector<int64_t>;

std::string sizes_text(at::IntArrayRef sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

std::string kinds_text(const std::vector<layout::GroupKind>& kinds) {
  constexpr size_t kEnough = 300;  // a mesh of many ranks has long lists
  std::string text;
  for (const layout::GroupKind& kind : kinds) {
    text += (text.empty() ? "" : "; ") + kind.name;
    for (const Rows& group : kind.groups) {
      if (text.size() > kEnough) return text + " …";
      text += fmt::format(" {{{}}}", fmt::join(group, " "));
    }
  }
  return text;
}

std::string transfers_text(const std::vector<Transfer>& transfers) {
  std::string text;
  for (const Transfer& transfer : transfers) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ",
                        transfer.direction == Direction::kSend ? "send" : "receive",
                        describe(transfer.tensor), transfer.direction == Direction::kSend ? "to " : "from ");
    text += std::to_string(transfer.peer);
  }
  return text;
}

// What check() has seen so far; `require` throws what it has not.
class Checker {
 public:
  Checker(const Call& call, int64_t rank, int64_t size, const std::string& group)
      : call_(call), rank_(rank), size_(size), group_(group) {}

  void require(bool holds, std::string expected, std::string found) const {
    if (holds) return;
    throw Error(
        {.code = ExitCode::kInternal,
         .what = fmt::format("{} '{}' cannot be carried out", name_of(call_.kind), call_.options.name),
         .expected = std::move(expected),
         .found = std::move(found),
         .where = fmt::format("rank {} of '{}'", rank_, group_)});
  }

  void tensor(const Tensor& tensor, const char* role) const {
    require(tensor.defined(), fmt::format("a tensor as {}", role), "none");
    require(tensor.layout() == at::kStrided && !tensor.is_quantized(), fmt::format("a dense {}", role),
            describe(tensor));
    require(tensor.is_contiguous(), fmt::format("a contiguous {}", role),
            fmt::format("{} with strides {}", describe(tensor), sizes_text(tensor.strides())));
    require(!tensor.is_conj() && !tensor.is_neg(), fmt::format("a resolved {}", role),
            "a tensor whose values are yet to be negated");
  }

  // Input and output of one dtype and device, cut along dimension 0.
  void pair(const Tensor& input, const Tensor& output) const {
    tensor(input, "input");
    tensor(output, "output");
    require(input.scalar_type() == output.scalar_type() && input.device() == output.device(),
            "input and output of one dtype and device",
            fmt::format("{} on {} and {} on {}", describe(input), input.device().str(), describe(output),
                        output.device().str()));
    require(input.dim() > 0 && output.dim() > 0 && input.sizes().slice(1) == output.sizes().slice(1),
            "input and output with rows of one shape", describe(input) + " and " + describe(output));
  }

  // `rows` cuts the dimension 0 of `whole` into a part for each rank.
  void cut(const Rows& rows, const Tensor& whole, const char* role) const {
    require(static_cast<int64_t>(rows.size()) == size_,
            fmt::format("a number of rows of the {} for each of {} ranks", role, size_),
            fmt::format("{} numbers", rows.size()));
    require(std::all_of(rows.begin(), rows.end(), [](int64_t count) { return count >= 0; }),
            "no negative number of rows", fmt::format("rows {}", fmt::join(rows, " ")));
    require(std::accumulate(rows.begin(), rows.end(), int64_t{0}) == whole.size(0),
            fmt::format("an {} of as many rows as its parts", role),
            fmt::format("{} cut as {}", describe(whole), fmt::join(rows, " ")));
  }

  // `part` is this rank's rows of `whole`, and either lies there or shares no memory with it.
  void own_rows(const Rows& rows, const Tensor& whole, const Tensor& part, const char* role) const {
    cut(rows, whole, role);
    const auto own = static_cast<size_t>(rank_);
    require(part.size(0) == rows[own], fmt::format("{} rows for rank {}", rows[own], rank_), describe(part));
    if (!overlap(whole, part)) return;
    const int64_t first = std::accumulate(rows.begin(), rows.begin() + rank_, int64_t{0});
    require(whole.narrow(0, first, rows[own]).const_data_ptr() == part.const_data_ptr(),
            "input and output apart, or the one at its place in the other", "they overlap elsewhere");
  }

  void peer(int64_t rank, const char* role) const {
    require(rank >= 0 && rank < size_, fmt::format("a rank from 0 to {} as {}", size_ - 1, role),
            std::to_string(rank));
  }

  void reduction(const Tensor& tensor) const {
    require(can_combine(tensor.scalar_type(), call_.reduction),
            fmt::format("a dtype that has a {}", name_of(call_.reduction)), describe(tensor));
  }

  void transfers() const {
    const std::vector<Transfer>& list = call_.transfers;
    for (size_t i = 0; i < list.size(); ++i) {
      peer(list[i].peer, "peer");
      tensor(list[i].tensor, "tensor");
      for (size_t j = 0; j < i; ++j) {
        if (list[i].direction == Direction::kSend && list[j].direction == Direction::kSend) continue;
        require(!overlap(list[i].tensor, list[j].tensor), "received tensors apart from all others",
                transfers_text({list[j], list[i]}));
      }
    }
  }

  // Of 10,000 ranks: what is said is only made where something is wrong.
  void kinds() const {
    for (const layout::GroupKind& kind : call_.kinds) {
      std::vector<bool> seen(static_cast<size_t>(size_));
      for (const Rows& group : kind.groups) {
        if (group.empty()) require(false, "groups of at least one rank", kinds_text({kind}));
        for (const int64_t rank : group) {
          if (rank < 0 || rank >= size_) peer(rank, "member");
          if (seen[static_cast<size_t>(rank)])
            require(false, "each rank in one group of a kind",
                    fmt::format("rank {} in several: {}", rank, kinds_text({kind})));
          seen[static_cast<size_t>(rank)] = true;
        }
      }
    }
  }

 private:
  const Call& call_;
  int64_t rank_, size_;
  const std::string& group_;
};

bool same_type_and_sizes(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

bool same_kinds(const std::vector<layout::GroupKind>& a, const std::vector<layout::GroupKind>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const layout::GroupKind& x, const layout::GroupKind& y) {
                      return x.name == y.name && x.groups == y.groups;
                    });
}

}  // namespace

std::string_view name_of(Reduction reduction) { return reduction == Reduction::kSum ? "sum" : "max"; }

Transfer send_to(int64_t peer, const Tensor& tensor) { return {Direction::kSend, peer, tensor}; }
Transfer receive_from(int64_t peer, const Tensor& tensor) { return {Direction::kReceive, peer, tensor}; }

std::string label(const Call& call) { return label(call.kind, call.options.name, call.sequence); }

std::string describe(const Tensor& tensor) {
  return tensor.defined() ? fmt::format("{} {}", name_of(tensor.scalar_type()), sizes_text(tensor.sizes()))
                          : "no tensor";
}

std::string describe(const Call& call) {
  const std::string head = fmt::format("{} '{}'", name_of(call.kind), call.options.name);
  switch (call.kind) {
    case CallKind::kAllReduce:
      return fmt::format("{} ({}, {})", head, name_of(call.reduction), describe(call.input));
    case CallKind::kReduceScatter:
      return fmt::format("{} ({}, {}, rows {})", head, name_of(call.reduction), describe(call.input),
                         fmt::join(call.input_rows, " "));
    case CallKind::kAllGather:
      return fmt::format("{} ({}, rows {})", head, describe(call.output), fmt::join(call.output_rows, " "));
    case CallKind::kAllToAll:
      return fmt::format("{} ({} rows of {})", head, name_of(call.input.scalar_type()),
                         sizes_text(call.input.sizes().slice(1)));
    case CallKind::kBroadcast:
      return fmt::format("{} ({} of rank {})", head, describe(call.input), call.root);
    case CallKind::kExchange:
      return fmt::format("{} ({})", head, transfers_text(call.transfers));
    case CallKind::kBarrier:
      return head;
    case CallKind::kSplit:
      return fmt::format("{} ({})", head, kinds_text(call.kinds));
  }
  LONGHAUL_ASSERT(false, "kind {}", static_cast<int>(call.kind));
}

bool agree(const Call& a, const Call& b) {
  if (a.kind != b.kind || a.options.name != b.options.name) return false;
  switch (a.kind) {
    case CallKind::kAllReduce:
      return a.reduction == b.reduction && same_type_and_sizes(a.input, b.input);
    case CallKind::kReduceScatter:
      return a.reduction == b.reduction && same_type_and_sizes(a.input, b.input) &&
             a.input_rows == b.input_rows;
    case CallKind::kAllGather:
      return same_type_and_sizes(a.output, b.output) && a.output_rows == b.output_rows;
    case CallKind::kAllToAll:
      return a.input.scalar_type() == b.input.scalar_type() &&
             a.input.sizes().slice(1) == b.input.sizes().slice(1);
    case CallKind::kBroadcast:
      return a.root == b.root && same_type_and_sizes(a.input, b.input);
    case CallKind::kBarrier:
      return true;
    case CallKind::kSplit:
      return same_kinds(a.kinds, b.kinds);
    case CallKind::kExchange:
      break;
  }
  LONGHAUL_ASSERT(false, "{} has no agreement of all ranks", name_of(a.kind));
}

void check(const Call& call, int64_t rank, int64_t size, const std::string& group) {
  const Checker checker(call, rank, size, group);
  const Timeout timeout = call.options.timeout.value_or(kNoTimeout);
  checker.require(timeout.count() > 0, "a positive timeout", fmt::format("{} ms", timeout.count()));
  switch (call.kind) {
    case CallKind::kAllReduce:
      checker.tensor(call.input, "tensor");
      return checker.reduction(call.input);
    case CallKind::kReduceScatter:
      checker.pair(call.input, call.output);
      checker.reduction(call.input);
      return checker.own_rows(call.input_rows, call.input, call.output, "input");
    case CallKind::kAllGather:
      checker.pair(call.input, call.output);
      return checker.own_rows(call.output_rows, call.output, call.input, "output");
    case CallKind::kAllToAll:
      checker.pair(call.input, call.output);
      checker.cut(call.input_rows, call.input, "input");
      checker.cut(call.output_rows, call.output, "output");
      return checker.require(!overlap(call.input, call.output), "input and output apart", "they overlap");
    case CallKind::kBroadcast:
      checker.tensor(call.input, "tensor");
      return checker.peer(call.root, "root");
    case CallKind::kExchange:
      return checker.transfers();
    case CallKind::kBarrier:
      return;
    case CallKind::kSplit:
      return checker.kinds();
  }
}

void check_on_cpu(const Call& call, int64_t rank, const std::string& group) {
  const Checker checker(call, rank, 0, group);
  const auto look_at = [&](const Tensor& tensor) {
    if (tensor.defined())
      checker.require(tensor.is_cpu(), "tensors on the CPU",
                      describe(tensor) + " on " + tensor.device().str());
  };
  look_at(call.input);
  look_at(call.output);
  for (const Transfer& transfer : call.transfers) look_at(transfer.tensor);
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || a.is_meta() || b.is_meta() || a.device() != b.device())
    return false;
  const auto* first = static_cast<const std::byte*>(a.const_data_ptr());
  const auto* second = static_cast<const std::byte*>(b.const_data_ptr());
  return std::less<>()(first, second + b.nbytes()) && std::less<>()(second, first + a.nbytes());
}

std::vector<Tensor> written_by(const Call& call, int64_t rank) {
  std::vector<Tensor> written;
  if (call.output.defined() && !(call.kind == CallKind::kBroadcast && call.root == rank))
    written.push_back(call.output);
  for (const Transfer& transfer : call.transfers) {
    if (transfer.direction == Direction::kReceive) written.push_back(transfer.tensor);
  }
  return written;
}

}  // namespace longhaul::comm
