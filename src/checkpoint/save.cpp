#include "checkpoint/save.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_purpose.h"
#include "checkpoint/naming.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {
namespace {

Error error_of(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  return Error({.code = ExitCode::kInternal, .what = "saving a checkpoint failed", .found = thrown.what()});
}

}  // namespace

Saver::Saver(storage::FileSystem& files, SaverOptions options) : files_(files), options_(std::move(options)) {}

Saver::~Saver() {
  try {
    wait();
  } catch (const std::exception& error) {
    log_error("the last checkpoint was not finished: {}", error.what());
  }
}

void Saver::copy(const std::vector<optim::StateTensor>& state) {
  const MemoryPurposeScope scope(MemoryPurpose::kCheckpoint);
  if (buffers_.size() != state.size()) buffers_.assign(state.size(), {});
  for (size_t i = 0; i < state.size(); ++i) {
    Buffer& buffer = buffers_[i];
    buffer.name = stored_name(state[i]);
    buffer.role = state[i].kind == "master" ? "weight" : "optimizer." + state[i].kind;
    buffer.shape = state[i].global_shape;
    buffer.offset = state[i].held.offset;
    buffer.length = state[i].held.length;
    // Allocated once; contiguous even where the view is a part of a fused value.
    const at::Device device = state[i].view.device();
    if (!buffer.copy.defined()) buffer.copy = empty_host_tensor(state[i].held.length, state[i].view.scalar_type(), device);
    buffer.copy.copy_(state[i].view.detach(), /*non_blocking=*/true);
    if (i + 1 == state.size()) copied_.emplace(device).record(Stream::current(device));
  }
}

void Saver::write(SaveResult& result, storage::Manifest manifest) {
  storage::CheckpointWriter writer(files_, options_.folder, result.step, options_.generation);
  const auto write_file = [&](const char* name, bool weights) {
    std::vector<storage::ShardSource> shards;
    for (const Buffer& buffer : buffers_) {
      if ((buffer.role == "weight") != weights) continue;
      const auto bytes = std::span(static_cast<const std::byte*>(buffer.copy.const_data_ptr()), static_cast<size_t>(buffer.copy.nbytes()));
      shards.push_back(
          {buffer.name, buffer.shape, storage_dtype(buffer.copy.scalar_type()), buffer.role, buffer.offset, buffer.length, bytes});
    }
    if (!shards.empty()) writer.add(storage::write_checkpoint_file(files_, writer.folder(), name, shards));
  };
  write_file(kModelFile, true);
  write_file(kOptimizerFile, false);
  result.path = writer.commit(std::move(manifest));
  if (options_.self_test) {
    storage::Checkpoint::open(files_, result.path).verify();
    verified_.insert(result.path);
  }
  keep_house(result, writer);
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

void Saver::save(int64_t step, const std::vector<optim::StateTensor>& state, storage::Manifest manifest) {
  const Stopwatch watch;
  wait();
  copy(state);
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
