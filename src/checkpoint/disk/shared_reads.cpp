#include "checkpoint/disk/shared_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/checksum.h"
#include "base/memory/memory_purpose.h"

namespace longhaul::checkpoint {
namespace {

using RankSet = std::vector<int64_t>;  // ascending

int64_t key_of(const StateEntry& entry) {
  return static_cast<int64_t>(xxh3(entry.name + " " + entry.held.text()));
}

// Of every rank, in their order.
std::vector<std::vector<int64_t>> keys_of_all(comm::Communicator& group, const std::vector<int64_t>& own) {
  const Tensor count = at::full({1}, static_cast<int64_t>(own.size()), at::kLong),
               counts = at::empty({group.size()}, at::kLong);
  group.all_gather(count, counts, {.name = "numbers of tensors to read"}).wait();
  const std::vector<int64_t> rows(counts.const_data_ptr<int64_t>(),
                                  counts.const_data_ptr<int64_t>() + group.size());
  const Tensor mine = at::tensor(own, at::kLong), all = at::empty({counts.sum().item<int64_t>()}, at::kLong);
  group.all_gather(mine, all, {.name = "tensors to read"}, rows).wait();
  std::vector<std::vector<int64_t>> keys;
  const int64_t* at = all.const_data_ptr<int64_t>();
  for (const int64_t number : rows) {
    keys.emplace_back(at, at + number);
    at += number;
  }
  return keys;
}

// Sets that have no rank in common make one kind of group.
std::vector<layout::GroupKind> kinds_of(const std::set<RankSet>& sets) {
  std::vector<layout::GroupKind> kinds;
  std::vector<std::set<int64_t>> taken;
  for (const RankSet& ranks : sets) {
    size_t kind = 0;
    while (kind < kinds.size() &&
           std::ranges::any_of(ranks, [&](int64_t rank) { return taken[kind].contains(rank); }))
      ++kind;
    if (kind == kinds.size()) {
      kinds.push_back({.name = fmt::format("readers {}", kind), .groups = {}});
      taken.emplace_back();
    }
    kinds[kind].groups.push_back(ranks);
    taken[kind].insert(ranks.begin(), ranks.end());
  }
  return kinds;
}

}  // namespace

SharedReads::SharedReads(comm::Communicator* group, const std::vector<StateEntry>& entries)
    : group_(group), entries_(entries) {
  std::unordered_map<int64_t, size_t> entry_of;
  std::vector<int64_t> own;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].held.empty()) continue;
    own.push_back(key_of(entries[i]));
    entry_of[own.back()] = i;
  }
  std::unordered_map<int64_t, RankSet> ranks_of;
  std::vector<int64_t> order;  // of keys, as they are met
  if (group_ != nullptr) {
    const auto all = keys_of_all(*group_, own);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      for (const int64_t key : all[rank]) {
        RankSet& ranks = ranks_of[key];
        if (ranks.empty()) order.push_back(key);
        if (ranks.empty() || ranks.back() != static_cast<int64_t>(rank))
          ranks.push_back(static_cast<int64_t>(rank));
      }
    }
  }
  std::set<RankSet> sets;
  for (const auto& [key, ranks] : ranks_of) {
    if (ranks.size() > 1) sets.insert(ranks);
  }
  std::map<RankSet, comm::Communicator*> group_of;
  if (!sets.empty()) {
    const auto kinds = kinds_of(sets);
    groups_ = group_->split(kinds, {.name = "readers of a checkpoint"});
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      for (const RankSet& ranks : kinds[kind].groups) {
        if (std::ranges::find(ranks, group_->rank()) != ranks.end()) group_of[ranks] = groups_[kind].get();
      }
    }
  }
  for (const int64_t key : order) {
    const auto entry = entry_of.find(key);
    const RankSet& ranks = ranks_of.at(key);
    if (entry == entry_of.end() || ranks.size() == 1) continue;
    const auto reader = static_cast<int64_t>(static_cast<uint64_t>(key) % ranks.size());
    shared_.push_back({entry->second, group_of.at(ranks), reader});
  }
  for (const int64_t key : own) {
    if (group_ == nullptr || ranks_of.at(key).size() == 1) alone_.push_back(entry_of.at(key));
  }
}

int64_t SharedReads::read_here() const {
  return static_cast<int64_t>(alone_.size()) + std::ranges::count_if(shared_, [](const Shared& shared) {
           return shared.reader == shared.ranks->rank();
         });
}

void SharedReads::run(const std::function<void(const StateEntry&)>& read) const {
  std::optional<Error> failure;
  try {
    for (const size_t entry : alone_) read(entries_[entry]);
    for (const Shared& shared : shared_) {
      if (shared.reader == shared.ranks->rank()) read(entries_[shared.entry]);
    }
  } catch (const Error& error) {
    failure = error;
  }
  if (group_ != nullptr) {
    const Tensor failed = at::full({1}, failure ? 1 : 0, at::kLong);
    group_->all_reduce(failed, comm::Reduction::kMax, {.name = "reading a checkpoint"}).wait();
    if (!failure && failed.item<int64_t>() != 0) {
      failure = Error({.code = ExitCode::kCheckpoint,
                       .what = "another rank could not read its part of the checkpoint",
                       .where = fmt::format("rank {} of {}", group_->rank(), group_->size()),
                       .hint = "its own message says why"});
    }
  }
  if (failure) throw *failure;
  const MemoryPurposeScope scope(MemoryPurpose::kCheckpoint);
  for (const Shared& shared : shared_) {
    const Tensor& view = entries_[shared.entry].view;
    const bool reader = shared.reader == shared.ranks->rank();
    const Tensor whole =
        reader || view.is_contiguous() ? view.contiguous() : at::empty(view.sizes(), view.options());
    shared.ranks->broadcast(whole, shared.reader, {.name = "a tensor of the checkpoint"}).wait();
    if (!reader && !view.is_contiguous()) Tensor(view).copy_(whole);
  }
  // before anyone leaves the groups
  if (!groups_.empty()) group_->barrier({.name = "a checkpoint was read"}).wait();
}

}  // namespace longhaul::checkpoint
