#include "checkpoint/memory_tier/memory_saver.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine/processor_time.h"
#include "base/process/fault_point.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "base/threads/background_work.h"
#include "checkpoint/memory_tier/survivors.h"
#include "layout/replicas.h"
#include "storage/commit.h"

namespace longhaul::checkpoint {

using nlohmann::json;
using storage::SavedMoment;

MemorySaver::MemorySaver(storage::FileSystem& files, const TierNodes& nodes, MemorySaverOptions options,
                         std::unique_ptr<comm::Communicator> group)
    : files_(files),
      nodes_(nodes),
      options_(std::move(options)),
      ranks_(std::move(group)),
      tier_(tier_of(nodes.node_of(ranks_.rank()))),
      holders_(layout::replica_holders(options_.mesh, nodes.node_of_rank(), options_.replicas)) {}

MemorySaver::~MemorySaver() {
  try {
    worker_.wait();
  } catch (const std::exception& error) {
    log_error("the last checkpoint in memory was not finished: {}", error.what());
  }
}

void MemorySaver::require_ours() const {
  const int64_t newest = tier_.newest_generation();
  if (newest <= options_.generation) return;
  throw Error(
      {.code = ExitCode::kFenced,
       .what = "a later start of this run keeps checkpoints in this node's memory: this process must not",
       .expected = fmt::format("no generation above {}", options_.generation),
       .found = fmt::format("generation {}", newest),
       .where = nodes_.tier_of(nodes_.node_of(ranks_.rank())).string()});
}

// All ranks of the node write at once, each about as much, while the checkpoint before still stands there.
// What they write is memory of the machine: if that runs out, the kernel ends some process.
void MemorySaver::require_room(const Snapshot& snapshot) const {
  const int64_t ranks = std::ssize(nodes_.ranks_of(nodes_.node_of(ranks_.rank())));
  const int64_t needed = ranks * (snapshot.bytes() * (1 + options_.replicas) + (int64_t{1} << 20)),
                free = std::min(tier_.free_bytes(), options_.available_bytes());
  if (free >= needed) return;
  throw Error({.code = ExitCode::kDisk,
               .what = "the node's memory tier has no room for a checkpoint",
               .expected = fmt::format("{} for the node's {} and the replicas that they keep",
                                       bytes_text(needed), counted(ranks, "rank")),
               .found = fmt::format("{} free", bytes_text(free)),
               .where = tier_.folder_of({options_.generation, 0}).parent_path().string(),
               .hint = "make room there, or train.checkpoint_replicas=0, or none in memory: "
                       "train.checkpoint_memory_every=0"});
}

json MemorySaver::moves_of(const std::vector<json>& reports) const {
  json moves = json::array();
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    for (const json& report : reports[rank]) {
      for (const int64_t holder : holders_[rank]) {
        moves.push_back({report.at("file").at("name"), report.at("file").at("bytes"),
                         static_cast<int64_t>(rank), holder});
      }
    }
  }
  return moves;
}

void MemorySaver::write(const SavedMoment& moment, const Snapshot& snapshot, storage::Manifest manifest) {
  const auto reports = ranks_.each("write to memory", [&] {
    fault_point("memory.write", moment.step);
    require_ours();
    require_room(snapshot);
    json own = write_snapshot(files_, snapshot, tier_.begin(moment), ranks_.rank(), ranks_.size());
    tell_written(files_, tier_, moment, ranks_.rank(), own, manifest);
    return own;
  });
  const json list = ranks_.first("replicas", [&] { return moves_of(reports); });
  std::vector<FileMove> moves;
  for (const json& move : list) moves.push_back({move[0], move[1], move[2], move[3]});
  ranks_.each("replicate", [&]() -> json {
    fault_point("memory.replicate", moment.step);
    move_files(
        files_, ranks_, nodes_, [&](int64_t node) { return tier_of(node).folder_of(moment); }, moves,
        options_.replica_bytes_per_second);
    return nullptr;
  });
  const std::string text = ranks_.first("manifest", [&] {
    std::vector<storage::FileReport> files;
    for (const json& of_rank : reports) {
      for (const json& report : of_rank)
        files.push_back(storage::file_report_from_json(report, "a report of a rank"));
    }
    manifest.step = moment.step;
    manifest.generation = moment.generation;
    manifest.world = ranks_.size();
    storage::add_reports(manifest, files, "the checkpoint in memory");
    return to_text(manifest);
  });
  const bool first = nodes_.is_first(ranks_.rank());
  fault_point("memory.before_commit", moment.step);
  ranks_.each("commit in memory", [&]() -> json {
    if (first) tier_.put_manifest(moment, text);
    return nullptr;
  });
  fault_point("memory.after_commit", moment.step);
  if (!first) return;
  if (options_.disk != nullptr) options_.disk->offer(moment);
  const auto read = options_.disk != nullptr ? options_.disk->reading() : std::nullopt;
  try {
    tier_.remove_before(read ? std::min(*read, moment) : moment);
  } catch (const Error& error) {
    log_warning("older checkpoints were not removed from memory: {}", error.what());
  }
}

// Nobody writes there any more: a phase ends on all ranks before it fails on one.
void MemorySaver::give_up(const SavedMoment& moment) {
  if (!nodes_.is_first(ranks_.rank())) return;
  try {
    tier_.remove_unfinished(moment);
  } catch (const Error& error) {
    log_warning("a checkpoint that was not finished stays in memory for now: {}", error.what());
  }
}

void MemorySaver::save(int64_t step, std::shared_ptr<const Snapshot> snapshot, storage::Manifest manifest) {
  LONGHAUL_ASSERT(under_way_ == nullptr, "the save of step {} has not been fetched", under_way_->step);
  written_ = std::move(snapshot);
  under_way_ = std::make_unique<MemorySaveResult>();
  under_way_->step = step;
  under_way_->bytes = written_->bytes();
  worker_.post([this, manifest = std::move(manifest)]() mutable {
    const auto copies = static_cast<double>(written_->bytes() * options_.replicas);
    const double slowed_s =
        options_.replica_bytes_per_second > 0 ? copies / options_.replica_bytes_per_second : 0;
    const BackgroundTask task("write to memory",
                              seconds_to_move(written_->bytes() * (1 + options_.replicas)) + 2 * slowed_s);
    const Stopwatch watch;
    const int64_t before = thread_processor_ns();
    try {
      written_->wait();
      write({options_.generation, under_way_->step}, *written_, std::move(manifest));
    } catch (const std::exception& thrown) {
      under_way_->failure = error_of(thrown);
      // Where another rank is gone the run ends, and what was written may be what its next start needs
      // (survivors.h).
      if (under_way_->failure->code() != ExitCode::kCommunication)
        give_up({options_.generation, under_way_->step});
    }
    under_way_->processor_seconds = static_cast<double>(thread_processor_ns() - before) * 1e-9;
    under_way_->seconds = watch.seconds();
  });
}

std::optional<MemorySaveResult> MemorySaver::poll() {
  if (under_way_ == nullptr || !worker_.idle()) return std::nullopt;
  return wait();
}

std::optional<MemorySaveResult> MemorySaver::wait() {
  worker_.wait();
  if (under_way_ == nullptr) return std::nullopt;
  MemorySaveResult result = std::move(*std::exchange(under_way_, nullptr));
  result.pause_milliseconds = written_->pause_milliseconds();
  written_.reset();
  return result;
}

void MemorySaver::forget() {
  worker_.wait();
  ranks_.each("forget", []() -> json { return nullptr; });  // no rank still writes replicas here
  if (nodes_.is_first(ranks_.rank())) tier_.remove_run();
}

}  // namespace longhaul::checkpoint
