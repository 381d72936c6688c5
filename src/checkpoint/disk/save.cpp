#include "checkpoint/disk/save.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine/disk_errors.h"
#include "base/process/fault_point.h"
#include "base/threads/background_work.h"
#include "checkpoint/disk/verify_together.h"

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

// What a rank's failure was, all ranks know alike.
void Saver::write_with_room(SaveResult& result, const Snapshot& snapshot, storage::Manifest manifest) {
  try {
    return write(result, snapshot, manifest);
  } catch (const Error& error) {
    if (!says_disk_is_full(error) || !make_room(result)) throw;
  }
  write(result, snapshot, std::move(manifest));
}

void Saver::write(SaveResult& result, const Snapshot& snapshot, storage::Manifest manifest) {
  std::optional<storage::CheckpointWriter> writer;  // rank 0's
  // Names travel, paths do not: another rank may reach the folder by another one.
  const std::string folder = writers_.first("open", [&] {
    writer.emplace(files_, options_.folder, result.step, options_.generation);
    return writer->folder().filename().string();
  });
  const auto reports = writers_.each("write", [&] {
    fault_point("checkpoint.write", result.step);
    return write_snapshot(files_, snapshot, options_.folder / folder, writers_.rank(), writers_.size());
  });
  const std::string committed = writers_.first("commit", [&] {
    result.bytes = 0;  // of an earlier try that met a full disk
    for (size_t from = 0; from < reports.size(); ++from) {
      for (const auto& report : reports[from]) {
        storage::FileReport file =
            storage::file_report_from_json(report, fmt::format("the report of rank {}", from));
        result.bytes += file.file.bytes;
        writer->add(std::move(file));
      }
    }
    manifest.world = writers_.size();
    return writer->commit(std::move(manifest)).filename().string();
  });
  result.path = options_.folder / committed;
  // Behind a rollback a step is saved again under its name: what was known is of another one.
  read_back_.whole.erase(result.path);
  read_back_.damaged.erase(result.path);
  if (options_.self_test) {
    const std::string damage = damage_of(files_, options_.folder, committed, writers_);
    if (!damage.empty()) {
      throw Error({.code = ExitCode::kCheckpoint,
                   .what = "what was saved does not read back as it was written",
                   .found = damage,
                   .where = result.path.string()});
    }
    read_back_.whole.insert(result.path);
  }
  keep_house(result, writer ? &*writer : nullptr);
}

// All ranks read, each some files, what rank 0 must know to be whole before anything goes.
void Saver::read_back_before_pruning(const storage::RetentionPolicy& policy) {
  for (;;) {
    const std::string name = writers_.first("what to read back", [&]() -> nlohmann::json {
      const auto unread =
          storage::unread_before_pruning(files_, options_.folder, policy, options_.generation, read_back_);
      return unread ? unread->filename().string() : "";
    });
    if (name.empty()) return;
    const std::string damage = damage_of(files_, options_.folder, name, writers_);
    if (damage.empty())
      read_back_.whole.insert(options_.folder / name);
    else
      read_back_.damaged.emplace(options_.folder / name, damage);
  }
}

std::vector<std::filesystem::path> Saver::prune(const storage::RetentionPolicy& policy) {
  read_back_before_pruning(policy);
  if (writers_.rank() != 0) return {};
  return storage::prune(files_, options_.folder, policy, options_.generation, wall_time_s(), read_back_)
      .removed;
}

bool Saver::make_room(SaveResult& result) {
  if (options_.retention.keep_last == INT64_MAX) return false;  // all are to be kept
  storage::RetentionPolicy policy = options_.retention;
  policy.keep_last = 1;
  try {
    result.removed_for_room = prune(policy);
  } catch (const std::exception& thrown) {
    log_warning("the disk is full, and no older checkpoint could be removed: {}", thrown.what());
  }
  return writers_.first("room", [&]() -> nlohmann::json { return !result.removed_for_room.empty(); });
}

void Saver::keep_house(SaveResult& result, storage::CheckpointWriter* writer) {
  const auto attempt = [&](const char* what, const std::function<void()>& chore) {
    try {
      chore();
    } catch (const std::exception& thrown) {
      ErrorFields fields = error_of(thrown).fields();
      fields.what = fmt::format("{}: {}", what, fields.what);
      if (writers_.rank() == 0) result.afterwards.emplace_back(std::move(fields));
    }
  };
  if (writer != nullptr) attempt("the file `latest` is not up to date", [&] { writer->point_latest_here(); });
  attempt("old checkpoints were not removed", [&] { prune(options_.retention); });
}

void Saver::save(int64_t step, Providers state, storage::Manifest manifest) {
  wait();
  manifest.state = facts_of(state);
  save(step, copies_.take(tensors_of(state)), std::move(manifest));
}

void Saver::save(int64_t step, std::shared_ptr<const Snapshot> snapshot, storage::Manifest manifest) {
  const Stopwatch watch;
  wait();
  written_ = std::move(snapshot);
  under_way_ = std::make_unique<SaveResult>();
  under_way_->step = step;
  under_way_->blocking_milliseconds = watch.milliseconds();
  fault_point("checkpoint.copied", step);
  worker_.post([this, manifest = std::move(manifest)]() mutable {
    const BackgroundTask task("write checkpoint", seconds_to_move(written_->bytes()));
    const Stopwatch writing;
    under_way_->begin_ns = monotonic_ns();
    try {
      written_->wait();
      write_with_room(*under_way_, *written_, std::move(manifest));
    } catch (const std::exception& thrown) {
      under_way_->failure = error_of(thrown);
    }
    under_way_->writing_seconds = writing.seconds();
    under_way_->end_ns = monotonic_ns();
  });
}

void Saver::poll() {
  if (under_way_ != nullptr && worker_.idle()) wait();
}

void Saver::wait() {
  worker_.wait();
  if (under_way_ == nullptr) return;
  const auto result = std::move(under_way_);
  result->blocking_milliseconds += written_->pause_milliseconds();
  written_.reset();
  last_failure_ = result->failure;
  if (options_.on_result) options_.on_result(*result);
}

}  // namespace longhaul::checkpoint
