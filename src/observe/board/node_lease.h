// NodeLease: until when the ranks of a node may go on. Its daemon puts the time off again and again; ranks look at it each second (observe/board/rank_board.h)
// and end themselves when it is over: a daemon that hangs can end nobody, and its driver has long begun another generation without this node. One
// file in the node's folder in /dev/shm, that holds a time of the machine's monotonic clock.
//
//   NodeLease lease(folder / "lease");  lease.renew(30);                          // the daemon
//   const std::optional<LeaseWatch> watch = LeaseWatch::from_environment();       // a rank: LONGHAUL_LEASE; empty: nobody gave it one
//   if (watch->over_s() > 0) …                                                    // seconds since it ended
#pragma once

#include <filesystem>
#include <optional>

#include "base/files/shared_file.h"

namespace longhaul::observe {

class NodeLease {
 public:
  explicit NodeLease(const std::filesystem::path& path);
  void renew(double seconds);
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  SharedFile file_;
};

class LeaseWatch {
 public:
  static std::optional<LeaseWatch> open(const std::filesystem::path& path);
  static std::optional<LeaseWatch> from_environment();  // kUsage where it names no lease
  double over_s() const;

 private:
  explicit LeaseWatch(SharedFile file) : file_(std::move(file)) {}
  SharedFile file_;
};

}  // namespace longhaul::observe
