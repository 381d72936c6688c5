#include "train/newest_checkpoint.h"

#include <fmt/format.h>

#include "base/log.h"
#include "storage/catalog.h"

namespace longhaul::train {
namespace {

using nlohmann::json;
using storage::SavedMoment;

// A run whose checkpoints are all damaged does not begin anew by itself: a person may save them, or say so.
[[noreturn]] void refuse_to_begin_anew(const std::vector<storage::Search::Rejected>& rejected, const std::filesystem::path& folder) {
  std::string found;
  for (const auto& each : rejected) found += fmt::format("{}{}: {}", found.empty() ? "" : "\n", each.path.filename().string(), each.reason);
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "the run cannot go on: none of its checkpoints can be used",
               .expected = "at least one that is whole",
               .found = found,
               .where = folder.string(),
               .hint = "bring one back from a copy, or begin anew with --fresh: the folder is moved aside, not deleted"});
}

SavedMoment moment_from(const json& pair) { return pair.is_null() ? SavedMoment() : SavedMoment{pair[0], pair[1]}; }

// By manifests alone.
SavedMoment newest_on_disk(const storage::FileSystem& files, const std::filesystem::path& folder, const checkpoint::Writers& together) {
  return moment_from(together.first("newest on the disk", [&]() -> json {
    const auto all = storage::list_checkpoints(files, folder);
    if (all.empty() || !all.front().usable()) return nullptr;
    return {all.front().generation, all.front().name.step};
  }));
}

}  // namespace

NewestCheckpoint newest_checkpoint(storage::FileSystem& files, const std::filesystem::path& run_folder, const checkpoint::Writers& together,
                                   MemoryCheckpoints& memory, checkpoint::Providers state) {
  const std::filesystem::path folder = run_folder / "checkpoints";
  SavedMoment on_disk;
  if (memory.on()) {
    on_disk = newest_on_disk(files, folder, together);
    if (auto found = memory.newest(together, state, on_disk)) return {std::move(found), true, on_disk.step};
  }
  // Rank 0 reads every byte of it; the others are told its name.
  storage::Search search;
  const json name = together.first("newest checkpoint", [&]() -> json {
    search = storage::find_newest_valid(files, folder);
    if (!search.newest) return nullptr;
    for (const auto& rejected : search.rejected) log_warning("passed over {}: {}", rejected.path.string(), rejected.reason);
    return search.newest->folder().filename().string();
  });
  NewestCheckpoint newest{.checkpoint = std::move(search.newest)};
  if (!newest.checkpoint && !name.is_null()) newest.checkpoint = storage::Checkpoint::open(files, folder / name.get<std::string>());
  SavedMoment valid;
  if (newest.checkpoint) valid = {newest.checkpoint->manifest().generation, newest.checkpoint->manifest().step};
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

}  // namespace longhaul::train
