#include "train/saving/newest_checkpoint.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "checkpoint/disk/verify_together.h"
#include "observe/events/event_log.h"
#include "storage/catalog.h"

namespace longhaul::train {
namespace {

using nlohmann::json;
using storage::SavedMoment;

// A run whose checkpoints are all damaged does not begin anew by itself: a person may save them, or say so.
[[noreturn]] void refuse_to_begin_anew(const std::vector<storage::Search::Rejected>& rejected,
                                       const std::filesystem::path& folder) {
  std::string found;
  for (const auto& each : rejected)
    found += fmt::format("{}{}: {}", found.empty() ? "" : "\n", each.path.filename().string(), each.reason);
  throw Error(
      {.code = ExitCode::kCheckpoint,
       .what = "the run cannot go on: none of its checkpoints can be used",
       .expected = "at least one that is whole",
       .found = found,
       .where = folder.string(),
       .hint =
           "bring one back from a copy, or begin anew with --fresh: the folder is moved aside, not deleted"});
}

struct DiskSearch {
  std::optional<storage::Checkpoint> newest;
  storage::CheckpointLease lease{};                 // on rank 0, of the newest
  std::vector<storage::Search::Rejected> rejected;  // on rank 0: newer ones, and why they were passed over
};

// One pass over what is there now, newest first: all ranks read each, until one is whole.
DiskSearch search_once(const storage::FileSystem& files, const std::filesystem::path& folder,
                       const checkpoint::Writers& together) {
  DiskSearch search;
  const json names = together.first("checkpoints on the disk", [&]() -> json {
    json usable = json::array();
    for (const storage::CheckpointSummary& each : storage::list_checkpoints(files, folder)) {
      if (each.usable())
        usable.push_back(each.path.filename().string());
      else
        search.rejected.push_back({each.path, each.defect});
    }
    return usable;
  });
  for (const std::string name : names) {
    const std::string damage = checkpoint::damage_of(files, folder, name, together);
    if (damage.empty()) {
      search.newest = storage::Checkpoint::open_unchecked(files, folder / name);
      break;
    }
    search.rejected.push_back({folder / name, damage});
  }
  return search;
}

// As storage::find_newest_valid, by all ranks: what was there may have been pruned while it was read, and
// something newer is there then.
DiskSearch newest_whole(storage::FileSystem& files, const std::filesystem::path& folder,
                        const checkpoint::Writers& together) {
  const auto names_now = [&] {
    return together.rank() == 0 ? storage::committed_names(files, folder) : std::vector<std::string>();
  };
  std::vector<std::string> names = names_now();
  for (;;) {
    DiskSearch search = search_once(files, folder, together);
    const bool settled = together.first("settled", [&]() -> json {
      const std::vector<std::string> before = std::exchange(names, names_now());
      if (!search.newest) return names == before;
      search.lease = storage::CheckpointLease(files, search.newest->folder());
      return files.exists(search.newest->folder() / storage::kManifestName);
    });
    if (!settled) continue;
    if (search.newest && together.rank() == 0) {
      for (const auto& rejected : search.rejected)
        log_warning("passed over {}: {}", rejected.path.string(), rejected.reason);
    }
    return search;
  }
}

SavedMoment moment_from(const json& pair) {
  return pair.is_null() ? SavedMoment() : SavedMoment{pair[0], pair[1]};
}

// By manifests alone.
SavedMoment newest_on_disk(const storage::FileSystem& files, const std::filesystem::path& folder,
                           const checkpoint::Writers& together) {
  return moment_from(together.first("newest on the disk", [&]() -> json {
    const auto all = storage::list_checkpoints(files, folder);
    if (all.empty() || !all.front().usable()) return nullptr;
    return {all.front().generation, all.front().name.step};
  }));
}

}  // namespace

NewestCheckpoint newest_checkpoint(storage::FileSystem& files, const std::filesystem::path& run_folder,
                                   const checkpoint::Writers& together, MemoryCheckpoints& memory,
                                   checkpoint::Providers state) {
  const std::filesystem::path folder = run_folder / "checkpoints";
  SavedMoment on_disk;
  if (memory.on()) {
    on_disk = newest_on_disk(files, folder, together);
    if (auto found = memory.newest(together, state, on_disk)) return {std::move(found), true, on_disk.step};
  }
  DiskSearch search = newest_whole(files, folder, together);
  NewestCheckpoint newest{.checkpoint = std::move(search.newest), .lease = std::move(search.lease)};
  SavedMoment valid;
  if (newest.checkpoint)
    valid = {newest.checkpoint->manifest().generation, newest.checkpoint->manifest().step};
  newest.disk_step = valid.step;
  if (valid < on_disk) {  // what seemed to be the newest is damaged: memory may have the newer one by now
    if (auto found = memory.newest(together, state, valid)) return {std::move(found), true, valid.step};
  }
  if (!newest.checkpoint) {
    together.first("damaged checkpoints", [&]() -> json {
      if (!search.rejected.empty()) refuse_to_begin_anew(search.rejected, folder);
      return nullptr;
    });
  }
  return newest;
}

void refuse_lost_checkpoints(const std::filesystem::path& events, const std::filesystem::path& checkpoints) {
  std::optional<observe::CheckpointSaved> saved;
  observe::for_each_event(events, [&](const observe::Event& event) {
    if (const auto* checkpoint = std::get_if<observe::CheckpointSaved>(&event.body)) saved = *checkpoint;
  });
  if (!saved) return;
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "the run cannot go on: its checkpoints are gone",
               .expected = fmt::format("{}, which was saved behind step {}", saved->path, saved->step),
               .found = "no checkpoint",
               .where = checkpoints.string(),
               .hint = "bring them back (is the disk mounted?), or begin anew with --fresh: the folder is "
                       "moved aside, not deleted"});
}

bool ended_at(const std::filesystem::path& events, int64_t step) {
  bool ended = false;
  observe::for_each_event(events, [&](const observe::Event& event) {
    if (std::holds_alternative<observe::StepReport>(event.body)) ended = false;
    const auto* end = std::get_if<observe::End>(&event.body);
    if (end != nullptr && end->reason == "finished" && end->step == step) ended = true;
  });
  return ended;
}

}  // namespace longhaul::train
