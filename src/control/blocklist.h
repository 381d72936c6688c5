// Blocklist: the hosts on which no rank is started, and until when (docs/sources/reliability.md §5.5). An
// entry names the boot in which it was made: a machine that has been rebooted since is not trusted at once,
// but it may pass the self-check (self_check.h) and come back. A run's list is the file
// RUN/control/blocked.json.
//
//   Blocklist list = Blocklist::read(path);                    // an empty list where there is no file
//   list.block({.host = "n7", .boot_id = boot, .reason = "device: Xid 79", .generation = 3, .since_s = now,
//               .until_s = now + 86400});
//   list.write(path);
//   if (list.standing("n7", boot_of_n7, now) == Standing::kBlocked) …
//
// Times are Unix seconds. The class is not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace longhaul::control {

inline constexpr double kUntilLifted = std::numeric_limits<double>::infinity();

struct BlockedHost {
  std::string host;
  // machine().boot of the host when it was blocked; empty: unknown, so a reboot changes nothing
  std::string boot_id;
  std::string node;  // the node's name in the run
  std::string reason;
  int64_t generation = 0;  // generation of the run in which it was blocked
  double since_s = 0, until_s = kUntilLifted;
  bool operator==(const BlockedHost&) const = default;
};

enum class Standing { kFree, kCheckFirst /*the host was rebooted since it was blocked*/, kBlocked };

class Blocklist {
 public:
  // read() fails with kDisk where the file cannot be read, and with kUsage where it is no block list, because
  // a person may have written it.
  static Blocklist read(const std::filesystem::path& path);
  static Blocklist from_json(const nlohmann::json& json, const std::string& where);
  nlohmann::ordered_json to_json() const;
  void write(const std::filesystem::path& path) const;  // atomically

  // if a host has two entries, the one that lasts longer counts
  void block(BlockedHost entry);
  // false: the host was not in the list
  bool lift(const std::string& host);
  const BlockedHost* find(const std::string& host, double now_s) const;  // null: the host is free
  Standing standing(const std::string& host, const std::string& boot_id, double now_s) const;
  std::vector<BlockedHost> entries(double now_s) const;  // the entries that hold now, sorted by host
  std::vector<std::string> hosts(double now_s) const;

 private:
  std::map<std::string, BlockedHost> by_host_;
};

}  // namespace longhaul::control
