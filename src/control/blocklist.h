// Blocklist: hosts on which nothing is started, and until when (docs/sources/reliability.md §5.5). An entry names the boot it was made in: a machine
// that was started anew since is not trusted, but may pass the self-check (self_check.h) and come back. A run's list is RUN/control/blocked.json.
//
//   Blocklist list = Blocklist::read(path);                    // no file: an empty one
//   list.block({.host = "n7", .boot_id = boot, .reason = "device: Xid 79", .generation = 3, .since_s = now, .until_s = now + 86400});
//   list.write(path);
//   if (list.standing("n7", boot_of_n7, now) == Standing::kBlocked) …
//
// Times are Unix seconds. Not for several threads at once.
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
  std::string boot_id;  // machine().boot there, when it was blocked; empty: not known, so a new start changes nothing
  std::string node;     // its name in the run
  std::string reason;
  int64_t generation = 0;  // of the run, when it was blocked
  double since_s = 0, until_s = kUntilLifted;
  bool operator==(const BlockedHost&) const = default;
};

enum class Standing { kFree, kCheckFirst /*it was started anew since it was blocked*/, kBlocked };

class Blocklist {
 public:
  // kDisk where it cannot be read, kUsage where it is no block list: a person may have written it.
  static Blocklist read(const std::filesystem::path& path);
  static Blocklist from_json(const nlohmann::json& json, const std::string& where);
  nlohmann::ordered_json to_json() const;
  void write(const std::filesystem::path& path) const;  // atomically

  void block(BlockedHost entry);                                         // of two entries for a host the one that holds longer counts
  bool lift(const std::string& host);                                    // false: it was not there
  const BlockedHost* find(const std::string& host, double now_s) const;  // null: free
  Standing standing(const std::string& host, const std::string& boot_id, double now_s) const;
  std::vector<BlockedHost> entries(double now_s) const;  // those that hold, by host
  std::vector<std::string> hosts(double now_s) const;

 private:
  std::map<std::string, BlockedHost> by_host_;
};

}  // namespace longhaul::control
