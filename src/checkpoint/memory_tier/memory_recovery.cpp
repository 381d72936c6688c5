#include "checkpoint/memory_tier/memory_recovery.h"

#include <fmt/format.h>

#include <map>

#include "base/log.h"
#include "base/process/fault_point.h"

namespace longhaul::checkpoint {
namespace {

using nlohmann::json;
using storage::SavedMoment;

// Of one node's tier: what whole manifests are there.
json inventory_of(const storage::NodeTier& tier, const std::string& run) {
  json moments = json::array();
  for (const auto& held : tier.held()) {
    try {
      if (held.manifest.empty() || storage::parse_manifest(held.manifest, "").run_id != run) continue;
      moments.push_back({held.moment.generation, held.moment.step});
    } catch (const Error&) {
      continue;  // torn or damaged: other nodes have it too
    }
  }
  return moments;
}

class Recovery {
 public:
  Recovery(storage::FileSystem& files, const Writers& ranks, const TierNodes& nodes, const std::string& run,
           Providers state)
      : files_(files),
        ranks_(ranks),
        nodes_(nodes),
        run_(run),
        state_(state),
        tier_(tier_of(nodes.node_of(ranks.rank()))) {}

  std::optional<storage::Checkpoint> newest(const SavedMoment& at_least);

 private:
  // newest first → a node that has its manifest
  using Candidates = std::map<SavedMoment, int64_t, std::greater<>>;
  storage::NodeTier tier_of(int64_t node) const { return {files_, nodes_.tier_of(node), run_}; }
  bool speaks() const { return nodes_.is_first(ranks_.rank()); }  // for its node
  Candidates candidates(const SavedMoment& at_least) const;       // on rank 0
  storage::Manifest manifest_of(const SavedMoment& moment, int64_t node) const;
  json holdings(const SavedMoment& moment, const storage::Manifest& manifest) const;
  json plan(const storage::Manifest& manifest, const std::vector<json>& holdings) const;
  storage::Checkpoint put_together(const SavedMoment& moment, int64_t node) const;

  storage::FileSystem& files_;
  const Writers& ranks_;
  const TierNodes& nodes_;
  const std::string& run_;
  Providers state_;
  storage::NodeTier tier_;
};

Recovery::Candidates Recovery::candidates(const SavedMoment& at_least) const {
  const auto inventories = ranks_.each("inventory", [&]() -> json {
    fault_point("start.inventory");
    return speaks() ? inventory_of(tier_, run_) : json::array();
  });
  Candidates found;
  for (size_t rank = 0; rank < inventories.size(); ++rank) {
    for (const json& moment : inventories[rank]) {
      const SavedMoment saved{moment[0], moment[1]};
      if (saved >= at_least) found.emplace(saved, nodes_.node_of(static_cast<int64_t>(rank)));
    }
  }
  return found;
}

storage::Manifest Recovery::manifest_of(const SavedMoment& moment, int64_t node) const {
  const bool has_it = nodes_.ranks_of(node).front() == ranks_.rank();
  const auto texts = ranks_.each("manifest", [&]() -> json {
    if (!has_it) return nullptr;
    return storage::read_small_file(files_, tier_.folder_of(moment) / storage::kManifestName,
                                    ExitCode::kCheckpoint, storage::kManifestLimitBytes);
  });
  const std::string text = ranks_.first(
      "manifest, told", [&]() -> json { return texts[static_cast<size_t>(nodes_.ranks_of(node).front())]; });
  return storage::parse_manifest(text, fmt::format("the manifest of step {} in memory", moment.step));
}

// What this rank has verified of its node's files, each rank of it some, and what it needs.
json Recovery::holdings(const SavedMoment& moment, const storage::Manifest& manifest) const {
  const auto here = storage::Checkpoint::open_some(files_, tier_.folder_of(moment), manifest);
  const auto sharers = static_cast<int64_t>(nodes_.ranks_of(nodes_.node_of(ranks_.rank())).size());
  json good = json::array(), bad = json::object();
  for (int64_t i = nodes_.place_of(ranks_.rank()); i < static_cast<int64_t>(manifest.files.size());
       i += sharers) {
    const std::string& name = manifest.files[static_cast<size_t>(i)].name;
    if (!files_.exists(tier_.folder_of(moment) / name)) continue;
    try {
      here.verify_file(name);
      good.push_back(name);
    } catch (const Error& error) {
      bad[name] = error.fields().what;
    }
  }
  return {{"good", good}, {"bad", bad}, {"needs", files_with(manifest, tensors_of(state_))}};
}

// Which files go where, on rank 0. kCheckpoint when one that is needed is whole on no node.
json Recovery::plan(const storage::Manifest& manifest, const std::vector<json>& holdings) const {
  std::map<std::string, int64_t> bytes;
  for (const auto& file : manifest.files) bytes[file.name] = file.bytes;
  std::vector<std::set<std::string>> good(static_cast<size_t>(nodes_.nodes())), needs(good.size());
  for (int64_t rank = 0; rank < ranks_.size(); ++rank) {
    const json& of_rank = holdings[static_cast<size_t>(rank)];
    const auto node = static_cast<size_t>(nodes_.node_of(rank));
    for (const json& name : of_rank.at("good")) good[node].insert(name.get<std::string>());
    for (const json& name : of_rank.at("needs")) needs[node].insert(name.get<std::string>());
    for (const auto& [name, what] : of_rank.at("bad").items())
      log_warning("step {}: {} in the memory of node {}: {}", manifest.step, name,
                  nodes_.name_of(static_cast<int64_t>(node)), what.get<std::string>());
  }
  json moves = json::array();
  for (size_t node = 0; node < needs.size(); ++node) {
    size_t number = 0;
    for (const std::string& name : needs[node]) {
      if (good[node].contains(name)) continue;
      std::vector<int64_t> sources;
      for (size_t other = 0; other < good.size(); ++other) {
        if (good[other].contains(name)) sources.push_back(static_cast<int64_t>(other));
      }
      if (sources.empty()) {
        throw Error({.code = ExitCode::kCheckpoint,
                     .what = "a file of a checkpoint in memory is whole on no node that is left",
                     .expected = name,
                     .where = fmt::format("step {} of generation {}", manifest.step, manifest.generation)});
      }
      // Several that need the same, and several files, are dealt out over who has them.
      const auto& senders = nodes_.ranks_of(sources[node % sources.size()]);
      const auto& receivers = nodes_.ranks_of(static_cast<int64_t>(node));
      moves.push_back(
          {name, bytes.at(name), senders[number % senders.size()], receivers[number % receivers.size()]});
      ++number;
    }
  }
  return moves;
}

storage::Checkpoint Recovery::put_together(const SavedMoment& moment, int64_t node) const {
  const storage::Manifest manifest = manifest_of(moment, node);
  const auto holdings = ranks_.each("verify", [&] { return this->holdings(moment, manifest); });
  const json list = ranks_.first("plan", [&] { return plan(manifest, holdings); });
  std::vector<FileMove> moves;
  for (const json& move : list) moves.push_back({move[0], move[1], move[2], move[3]});
  ranks_.each("make room", [&]() -> json {
    if (speaks()) tier_of(nodes_.node_of(ranks_.rank())).put_manifest(moment, to_text(manifest));
    return nullptr;
  });
  ranks_.each("fetch", [&]() -> json {
    fault_point("start.fetch");
    move_files(
        files_, ranks_, nodes_, [&](int64_t of) { return tier_of(of).folder_of(moment); }, moves);
    const auto here = storage::Checkpoint::open_some(files_, tier_.folder_of(moment), manifest);
    for (const FileMove& move : moves) {
      if (move.to == ranks_.rank()) here.verify_file(move.name);
    }
    return nullptr;
  });
  if (ranks_.rank() == 0 && !moves.empty())
    log_info("step {}: {} files came from other nodes' memory", moment.step, moves.size());
  return storage::Checkpoint::open_some(files_, tier_.folder_of(moment), manifest);
}

std::optional<storage::Checkpoint> Recovery::newest(const SavedMoment& at_least) {
  Candidates left = candidates(at_least);
  for (;;) {
    const json next = ranks_.first("candidate", [&]() -> json {
      if (left.empty()) return nullptr;
      const auto& [moment, node] = *left.begin();
      return {moment.generation, moment.step, node};
    });
    if (next.is_null()) return std::nullopt;
    try {
      return put_together({next[0], next[1]}, next[2]);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kCheckpoint && error.code() != ExitCode::kDisk) throw;
      if (ranks_.rank() == 0) {
        log_warning("step {} in the memory of nodes is passed over: {}", next[1].get<int64_t>(),
                    error.what());
        left.erase(left.begin());
      }
    }
  }
}

}  // namespace

std::set<std::string> files_with(const storage::Manifest& manifest, const std::vector<StateEntry>& entries) {
  std::set<std::string> files;
  for (const StateEntry& entry : entries) {
    const auto tensor = manifest.tensors.find(entry.name);
    if (entry.held.empty() || tensor == manifest.tensors.end()) continue;
    // else all of it: whoever reads says what is wrong
    const bool same_shape = tensor->second.shape == entry.shape;
    for (const storage::ManifestShard& shard : tensor->second.shards) {
      if (!same_shape || !layout::intersection(storage::rectangle_of(shard), entry.held).empty())
        files.insert(shard.file);
    }
  }
  return files;
}

std::optional<storage::Checkpoint> newest_in_memory(storage::FileSystem& files, const Writers& ranks,
                                                    const TierNodes& nodes, const std::string& run,
                                                    Providers state, const storage::SavedMoment& at_least) {
  return Recovery(files, ranks, nodes, run, state).newest(at_least);
}

}  // namespace longhaul::checkpoint
