#include "control/blocklist.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/json.h"

namespace longhaul::control {
namespace {

constexpr JsonRules kBlocklistRules{.code = ExitCode::kUsage,
                                    .what = "malformed list of blocked hosts",
                                    .hint = "mend the file, or remove it to block none"};

double time_in(const JsonView& object, const std::string& key, double otherwise) {
  if (!object.has(key)) return otherwise;
  const double seconds = object.at(key).number();
  object.at(key).require(std::isfinite(seconds), "Unix seconds");
  return seconds;
}

}  // namespace

Blocklist Blocklist::read(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_text(path, ExitCode::kDisk, 64 << 20);
  return from_json(parse_json(text, path.string(), kBlocklistRules), path.string());
}

Blocklist Blocklist::from_json(const nlohmann::json& json, const std::string& where) {
  Blocklist list;
  const JsonView root(json, where + ":", kBlocklistRules);
  const JsonView blocked = root.at("blocked");
  for (size_t i = 0; i < blocked.array_size(); ++i) {
    const JsonView entry = blocked.at(i);
    BlockedHost host{.host = entry.at("host").string(),
                     .boot_id = entry.has("boot_id") ? entry.at("boot_id").string() : "",
                     .node = entry.has("node") ? entry.at("node").string() : "",
                     .reason = entry.at("reason").string(),
                     .generation = entry.has("generation") ? entry.at("generation").integer(0) : 0,
                     .since_s = time_in(entry, "since", 0),
                     .until_s = time_in(entry, "until", kUntilLifted)};
    entry.at("host").require(!host.host.empty(), "the name of a host");
    list.block(std::move(host));
  }
  return list;
}

nlohmann::ordered_json Blocklist::to_json() const {
  auto blocked = nlohmann::ordered_json::array();
  for (const auto& [name, entry] : by_host_) {
    nlohmann::ordered_json json = {
        {"host", entry.host},     {"boot_id", entry.boot_id},       {"node", entry.node},
        {"reason", entry.reason}, {"generation", entry.generation}, {"since", entry.since_s},
        {"until", nullptr}};
    if (std::isfinite(entry.until_s)) json["until"] = entry.until_s;
    blocked.push_back(std::move(json));
  }
  return {{"blocked", blocked}};
}

void Blocklist::write(const std::filesystem::path& path) const {
  make_folders(path.parent_path());
  write_text_atomically(path, to_json().dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void Blocklist::block(BlockedHost entry) {
  const auto [place, fresh] = by_host_.try_emplace(entry.host, entry);
  if (!fresh && entry.until_s >= place->second.until_s) place->second = std::move(entry);
}

bool Blocklist::lift(const std::string& host) { return by_host_.erase(host) > 0; }

const BlockedHost* Blocklist::find(const std::string& host, double now_s) const {
  const auto found = by_host_.find(host);
  return found == by_host_.end() || found->second.until_s <= now_s ? nullptr : &found->second;
}

Standing Blocklist::standing(const std::string& host, const std::string& boot_id, double now_s) const {
  const BlockedHost* entry = find(host, now_s);
  if (!entry) return Standing::kFree;
  const bool started_anew = !entry->boot_id.empty() && !boot_id.empty() && entry->boot_id != boot_id;
  return started_anew ? Standing::kCheckFirst : Standing::kBlocked;
}

std::vector<BlockedHost> Blocklist::entries(double now_s) const {
  std::vector<BlockedHost> holding;
  for (const auto& [name, entry] : by_host_) {
    if (entry.until_s > now_s) holding.push_back(entry);
  }
  return holding;
}

std::vector<std::string> Blocklist::hosts(double now_s) const {
  std::vector<std::string> names;
  for (const BlockedHost& entry : entries(now_s)) names.push_back(entry.host);
  return names;
}

}  // namespace longhaul::control
