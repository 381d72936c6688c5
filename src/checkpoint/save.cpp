#include "checkpoint/save.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/background_work.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {
namespace {

// Of the disk, or of this user's share of it.
bool is_want_of_room(const Error& error) {
  const auto says = [&](int number) { return error.fields().found.find(std::generic_category().message(number)) != std::string::npos; };
  return error.code() == ExitCode::kDisk && (says(ENOSPC) || says(EDQUOT));
}

}  // namespace

Saver::Saver(storage::FileSystem& files, SaverOptions options, std::unique_ptr<comm::Communicator> group)
    : files_(files), options_(std::move(options)), writers_(std::move(group)) {}

Saver::~Saver() {
  try {
    wait();
  } catch (const std::exception& error) {
    log_error("the last checkpoint was not finished: {}", error.what());
  }
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

void Saver::write_making_room(SaveResult& result, const Snapshot& snapshot, storage::Manifest manifest) {
  try {
    return write(result, snapshot, manifest);
  } catch (const Error& full) {
    if (!is_want_of_room(full)) throw;
    result.removed_for_room = writers_.first("make room", [&] {
      storage::RetentionPolicy least = options_.retention;
      least.keep_last = 1;
      return storage::prune(files_, options_.folder, least, options_.generation, wall_time_s(), verified_).removed.size();
    });
    if (result.removed_for_room == 0) throw;
  }
  write(result, snapshot, std::move(manifest));
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
      write_making_room(*under_way_, *written_, std::move(manifest));
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
