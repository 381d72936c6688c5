#include "checkpoint/save.h"

#include <algorithm>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/memory_purpose.h"
#include "checkpoint/naming.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {

Saver::Saver(storage::FileSystem& files, SaverOptions options, std::unique_ptr<comm::Communicator> group)
    : files_(files), options_(std::move(options)), writers_(std::move(group)) {}

Saver::~Saver() {
  try {
    wait();
  } catch (const std::exception& error) {
    log_error("the last checkpoint was not finished: {}", error.what());
  }
}

void Saver::copy(std::vector<StateEntry> entries) {
  const MemoryPurposeScope scope(MemoryPurpose::kCheckpoint);
  std::erase_if(entries, [](const StateEntry& entry) { return !entry.to_write(); });
  for (size_t i = 0; i < entries.size(); ++i) {
    // Contiguous even where the view is a part of a fused value, and allocated once where the list stays as it was.
    const Tensor view = std::exchange(entries[i].view, {});
    const bool fits = i < buffers_.size() && buffers_[i].view.sizes() == view.sizes() && buffers_[i].view.dtype() == view.dtype();
    entries[i].view = fits ? buffers_[i].view : empty_host_tensor(entries[i].held.length, view.scalar_type(), view.device());
    entries[i].view.copy_(view, /*non_blocking=*/true);
    if (i + 1 == entries.size()) copied_.emplace(view.device()).record(Stream::current(view.device()));
  }
  buffers_ = std::move(entries);
}

nlohmann::json Saver::write_files(const std::filesystem::path& folder) {
  fault_point("checkpoint.write", under_way_->step);
  std::vector<std::string> kinds;  // in the order of their first tensors
  for (const StateEntry& entry : buffers_) {
    if (std::ranges::find(kinds, entry.file) == kinds.end()) kinds.push_back(entry.file);
  }
  nlohmann::json reports = nlohmann::json::array();
  for (const std::string& kind : kinds) {
    std::vector<storage::ShardSource> shards;
    for (const StateEntry& entry : buffers_) {
      if (entry.file != kind) continue;
      const auto bytes = std::span(static_cast<const std::byte*>(entry.view.const_data_ptr()), entry.view.nbytes());
      shards.push_back(
          {entry.name, entry.shape, storage_dtype(entry.view.scalar_type()), entry.role, entry.held.offset, entry.held.length, bytes});
    }
    reports.push_back(to_json(storage::write_checkpoint_file(files_, folder, file_name(kind, writers_.rank(), writers_.size()), shards)));
  }
  return reports;
}

void Saver::write(SaveResult& result, storage::Manifest manifest) {
  std::optional<storage::CheckpointWriter> writer;  // rank 0's
  // Names travel, paths do not: another rank may reach the folder by another one.
  const std::string folder = writers_.first("open", [&] {
    writer.emplace(files_, options_.folder, result.step, options_.generation);
    return writer->folder().filename().string();
  });
  const auto reports = writers_.each("write", [&] { return write_files(options_.folder / folder); });
  const std::string committed = writers_.first("commit", [&] {
    for (size_t from = 0; from < reports.size(); ++from) {
      for (const auto& report : reports[from])
        writer->add(storage::file_report_from_json(report, fmt::format("the report of rank {}", from)));
    }
    manifest.world = writers_.size();
    return writer->commit(std::move(manifest)).filename().string();
  });
  result.path = options_.folder / committed;
  if (options_.self_test) {
    writers_.first("self-test", [&] {
      storage::Checkpoint::open(files_, result.path).verify();
      return nullptr;
    });
    verified_.insert(result.path);
  }
  if (writer) keep_house(result, *writer);
}

void Saver::keep_house(SaveResult& result, storage::CheckpointWriter& writer) {
  const auto attempt = [&](const char* what, const std::function<void()>& chore) {
    try {
      chore();
    } catch (const std::exception& thrown) {
      ErrorFields fields = error_of(thrown).fields();
      fields.what = fmt::format("{}: {}", what, fields.what);
      result.afterwards.emplace_back(std::move(fields));
    }
  };
  attempt("the file `latest` is not up to date", [&] { writer.point_latest_here(); });
  attempt("old checkpoints were not removed",
          [&] { storage::prune(files_, options_.folder, options_.retention, options_.generation, wall_time_s(), verified_); });
}

void Saver::save(int64_t step, Providers state, storage::Manifest manifest) {
  const Stopwatch watch;
  wait();
  copy(tensors_of(state));
  fault_point("checkpoint.copied", step);
  manifest.state = facts_of(state);
  under_way_ = std::make_unique<SaveResult>();
  under_way_->step = step;
  under_way_->blocking_milliseconds = watch.milliseconds();
  worker_.post([this, manifest = std::move(manifest)]() mutable {
    try {
      if (copied_) copied_->synchronize();
      write(*under_way_, std::move(manifest));
    } catch (const std::exception& thrown) {
      under_way_->failure = error_of(thrown);
    }
  });
}

void Saver::poll() {
  if (under_way_ != nullptr && worker_.idle()) wait();
}

void Saver::wait() {
  worker_.wait();
  if (under_way_ == nullptr) return;
  const auto result = std::move(under_way_);
  last_failure_ = result->failure;
  if (options_.on_result) options_.on_result(*result);
}

}  // namespace longhaul::checkpoint
