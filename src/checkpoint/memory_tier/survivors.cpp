#include "checkpoint/memory_tier/survivors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/log.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "checkpoint/disk/copy_out.h"
#include "storage/commit.h"

namespace longhaul::checkpoint {
namespace {

using nlohmann::json;
using storage::Manifest;
using storage::NodeTier;
using storage::SavedMoment;

constexpr std::string_view kLeft = "left-", kWritten = "written-";

bool tells_of_files(std::string_view name) {
  return (name.starts_with(kLeft) || name.starts_with(kWritten)) && name.ends_with(".json");
}

// Whole or not there.
void put(storage::FileSystem& files, const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path draft = path.parent_path() / ("." + path.filename().string() + ".tmp");
  storage::write_synced(files, draft, text);
  files.rename(draft, path);
}

// What is told of one moment by all nodes: {"generation", "step", "committed", "texts": […]} of each that a
// node has anything of.
json told_by(storage::FileSystem& files, const NodeTier& tier) {
  json all = json::array();
  for (const auto& held : tier.held()) {
    json texts = json::array();
    for (const auto& [name, bytes] : held.files) {
      if (!tells_of_files(name)) continue;
      try {
        texts.push_back(storage::read_small_file(files, tier.folder_of(held.moment) / name,
                                                 ExitCode::kCheckpoint, storage::kManifestLimitBytes));
      } catch (const Error&) {
        continue;
      }
    }
    all.push_back({{"generation", held.moment.generation},
                   {"step", held.moment.step},
                   {"committed", !held.manifest.empty()},
                   {"texts", std::move(texts)}});
  }
  return all;
}

struct OfMoment {
  bool committed = false;
  std::vector<std::string> texts;
};

}  // namespace

bool leave_state(storage::FileSystem& files, const NodeTier& tier, const SavedMoment& moment, int64_t rank,
                 int64_t ranks, const std::vector<StateEntry>& entries, Manifest manifest,
                 const LeavingRoom& room) {
  int64_t bytes = 0;
  for (const StateEntry& entry : entries)
    bytes += entry.held.empty() ? 0 : entry.view.numel() * entry.view.element_size();
  const int64_t needed = bytes * room.ranks_of_node, free = std::min(tier.free_bytes(), room.available_bytes);
  if (needed > free) {
    log_warning("rank {} leaves nothing in its node's memory: its {} ranks need {}, and {} are free", rank,
                room.ranks_of_node, bytes_text(needed), bytes_text(free));
    return false;
  }
  if (tier.newest_generation() > moment.generation ||
      files.exists(tier.folder_of(moment) / storage::kManifestName))
    return false;
  const std::filesystem::path folder = NodeTier(tier).begin(moment);
  const json reports = write_entries(files, entries, folder, "left-", rank, ranks);
  manifest.step = moment.step;
  manifest.generation = moment.generation;
  manifest.world = ranks;
  put(files, folder / fmt::format("{}{:05}.json", kLeft, rank),
      json{{"manifest", to_text(manifest)}, {"reports", reports}}.dump());
  return true;
}

void tell_written(storage::FileSystem& files, const NodeTier& tier, const SavedMoment& moment, int64_t rank,
                  const json& reports, Manifest manifest) {
  manifest.step = moment.step;
  manifest.generation = moment.generation;
  put(files, tier.folder_of(moment) / fmt::format("{}{:05}.json", kWritten, rank),
      json{{"manifest", to_text(manifest)}, {"reports", reports}}.dump());
}

std::optional<Manifest> put_together(const std::vector<std::string>& texts) {
  std::optional<Manifest> manifest;
  std::vector<storage::FileReport> wanted;
  std::set<std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>> have;  // tensor and rectangle
  try {
    for (const std::string& text : texts) {
      const json one = json::parse(text);
      if (!manifest)
        manifest = storage::parse_manifest(one.at("manifest").get<std::string>(), "what a rank has left");
      for (const json& of_file : one.at("reports")) {
        storage::FileReport report = storage::file_report_from_json(of_file, "what a rank has left");
        std::erase_if(report.shards, [&](const storage::ReportedShard& shard) {
          return !have.emplace(shard.tensor, shard.shard.offset, shard.shard.length).second;
        });
        if (!report.shards.empty()) wanted.push_back(std::move(report));
      }
    }
    if (!manifest || wanted.empty()) return std::nullopt;
    // every tensor is tiled exactly, or this throws
    storage::add_reports(*manifest, wanted, "what survivors have left");
    return manifest;
  } catch (const Error& error) {
    log_info("what survivors have left is not the whole state, an earlier checkpoint is: {}",
             error.fields().what);
  } catch (const json::exception& error) {
    log_warning("what a rank has left cannot be read: {}", error.what());
  }
  return std::nullopt;
}

void take_what_survivors_left(storage::FileSystem& files, const Writers& ranks, const TierNodes& nodes,
                              const std::string& run) {
  const bool speaks = nodes.is_first(ranks.rank());  // for its node
  NodeTier tier(files, nodes.tier_of(nodes.node_of(ranks.rank())), run);
  const std::vector<json> told = ranks.each(
      "what survivors left", [&]() -> json { return speaks ? told_by(files, tier) : json::array(); });
  const json found = ranks.first("what survivors left, together", [&]() -> json {
    std::map<SavedMoment, OfMoment, std::greater<>> moments;
    for (const json& of_node : told) {
      for (const json& one : of_node) {
        OfMoment& moment = moments[SavedMoment{one.at("generation"), one.at("step")}];
        moment.committed = moment.committed || one.at("committed").get<bool>();
        for (const json& text : one.at("texts")) moment.texts.push_back(text.get<std::string>());
      }
    }
    for (const auto& [moment, of] : moments) {
      if (of.committed) return nullptr;  // nothing newer was left whole
      if (of.texts.empty()) continue;
      const auto manifest = put_together(of.texts);
      if (!manifest || manifest->run_id != run || manifest->step != moment.step ||
          manifest->generation != moment.generation)
        continue;
      log_info("step {} is taken over from what the ranks of generation {} had in memory when they ended",
               moment.step, moment.generation);
      return {{"generation", moment.generation}, {"step", moment.step}, {"manifest", to_text(*manifest)}};
    }
    return nullptr;
  });
  if (found.is_null()) return;
  ranks.each("what survivors left, taken over", [&]() -> json {
    if (speaks)
      tier.put_manifest({found.at("generation"), found.at("step")}, found.at("manifest").get<std::string>());
    return nullptr;
  });
}

}  // namespace longhaul::checkpoint
