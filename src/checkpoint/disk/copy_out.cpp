#include "checkpoint/disk/copy_out.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "base/threads/background_work.h"
#include "checkpoint/published/naming.h"
#include "storage/commit.h"

namespace longhaul::checkpoint {
namespace {

// The innermost dimensions that lie dense are one run; the others are walked.
void copy_strided(const std::byte* from, std::byte*& to, at::IntArrayRef sizes, at::IntArrayRef strides,
                  size_t bytes) {
  int64_t dense = 1;
  size_t walked = sizes.size();
  while (walked > 0 && (sizes[walked - 1] == 1 || strides[walked - 1] == dense)) dense *= sizes[--walked];
  if (walked == 0) {
    std::memcpy(to, from, static_cast<size_t>(dense) * bytes);
    to += static_cast<size_t>(dense) * bytes;
    return;
  }
  for (int64_t i = 0; i < sizes[0]; ++i)
    copy_strided(from + i * strides[0] * static_cast<int64_t>(bytes), to, sizes.slice(1), strides.slice(1),
                 bytes);
}

struct Copy {
  Tensor from, to;
};

nlohmann::json write_dense(storage::FileSystem& files, const std::vector<StateEntry>& entries,
                           const std::filesystem::path& folder, const std::string& prefix, int64_t rank,
                           int64_t ranks) {
  std::vector<std::string> kinds;  // in the order of their first tensors
  for (const StateEntry& entry : entries) {
    if (std::ranges::find(kinds, entry.file) == kinds.end()) kinds.push_back(entry.file);
  }
  nlohmann::json reports = nlohmann::json::array();
  for (const std::string& kind : kinds) {
    std::vector<storage::ShardSource> shards;
    for (const StateEntry& entry : entries) {
      if (entry.file != kind) continue;
      const auto bytes =
          std::span(static_cast<const std::byte*>(entry.view.const_data_ptr()), entry.view.nbytes());
      shards.push_back({entry.name, entry.shape, storage_dtype(entry.view.scalar_type()), entry.role,
                        entry.held.offset, entry.held.length, bytes});
    }
    reports.push_back(to_json(
        storage::write_checkpoint_file(files, folder, file_name(prefix + kind, rank, ranks), shards)));
  }
  return reports;
}

}  // namespace

void copy_dense(const Tensor& from, const Tensor& to) {
  LONGHAUL_ASSERT(to.is_contiguous() && from.sizes() == to.sizes() && from.dtype() == to.dtype(),
                  "{} into {}", layout::shape_text(from.sizes().vec()), layout::shape_text(to.sizes().vec()));
  if (from.numel() == 0) return;
  auto* at = static_cast<std::byte*>(to.mutable_data_ptr());
  copy_strided(static_cast<const std::byte*>(from.const_data_ptr()), at, from.sizes(), from.strides(),
               from.element_size());
}

void Snapshot::wait() const {
  copied_.wait(false);
  if (queued_) queued_->synchronize();
}

int64_t Snapshot::bytes() const {
  int64_t sum = 0;
  for (const StateEntry& entry : entries_) sum += static_cast<int64_t>(entry.view.nbytes());
  return sum;
}

// Whoever writes from a set of buffers holds on to it.
std::shared_ptr<Snapshot> CopyOut::free_buffers() {
  for (auto& buffers : buffers_) {
    if (!buffers) buffers = std::make_shared<Snapshot>();
    if (buffers.use_count() == 1) return buffers;
  }
  LONGHAUL_ASSERT(false, "two checkpoints are still being written, and a third is taken");
}

std::shared_ptr<const Snapshot> CopyOut::take(std::vector<StateEntry> entries, Changes changes) {
  const Stopwatch watch;
  settle();
  worker_.wait();  // it lets go of the buffers behind the last copy
  const auto snapshot = free_buffers();
  const MemoryPurposeScope scope(MemoryPurpose::kCheckpoint);
  std::erase_if(entries, [](const StateEntry& entry) { return !entry.to_write(); });
  std::vector<Copy> later;
  std::optional<at::Device> gpu;
  for (size_t i = 0; i < entries.size(); ++i) {
    // Contiguous even where the view is a part of a fused value, and allocated once where the list stays as
    // it was.
    const Tensor view = std::exchange(entries[i].view, {});
    const bool fits = i < snapshot->entries_.size() && snapshot->entries_[i].view.sizes() == view.sizes() &&
                      snapshot->entries_[i].view.dtype() == view.dtype();
    entries[i].view = fits ? snapshot->entries_[i].view
                           : empty_host_tensor(entries[i].held.length, view.scalar_type(), view.device());
    if (changes == Changes::kInUpdates && view.device().is_cpu() && entries[i].file != kTaskFiles)
      later.push_back({view, entries[i].view});
    else
      entries[i].view.copy_(view, /*non_blocking=*/true);
    if (!view.device().is_cpu()) gpu = view.device();
  }
  snapshot->queued_.reset();
  if (gpu) snapshot->queued_.emplace(*gpu).record(Stream::current(*gpu));
  snapshot->entries_ = std::move(entries);
  if (!later.empty()) {
    snapshot->copied_ = false;
    newest_ = snapshot;
    worker_.post([snapshot, later = std::move(later)] {
      const BackgroundTask task("copy out", seconds_to_move(snapshot->bytes()));
      for (const Copy& copy : later) copy_dense(copy.from, copy.to);
      snapshot->copied_ = true;
      snapshot->copied_.notify_all();
    });
  }
  snapshot->pause_milliseconds_ = watch.milliseconds();
  return snapshot;
}

void CopyOut::settle() {
  if (!newest_) return;
  const Stopwatch watch;
  newest_->copied_.wait(false);
  newest_->pause_milliseconds_ += watch.milliseconds();
  newest_.reset();
}

nlohmann::json write_snapshot(storage::FileSystem& files, const Snapshot& snapshot,
                              const std::filesystem::path& folder, int64_t rank, int64_t ranks) {
  return write_dense(files, snapshot.entries(), folder, "", rank, ranks);
}

nlohmann::json write_entries(storage::FileSystem& files, const std::vector<StateEntry>& entries,
                             const std::filesystem::path& folder, const std::string& prefix, int64_t rank,
                             int64_t ranks) {
  std::vector<StateEntry> dense;
  for (const StateEntry& entry : entries) {
    if (entry.held.empty()) continue;
    StateEntry& copy = dense.emplace_back(entry);
    const Tensor host = entry.view.cpu();
    if (host.is_contiguous()) {
      copy.view = host;
    } else {
      copy.view = at::empty(host.sizes(), host.scalar_type());
      copy_dense(host, copy.view);
    }
  }
  return write_dense(files, dense, folder, prefix, rank, ranks);
}

}  // namespace longhaul::checkpoint
