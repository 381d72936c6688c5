// NodeLease: the time until which the ranks of a node may go on. The node's daemon extends it again and
// again; the ranks check it every second (observe/board/rank_board.h) and end themselves when it is over.
// This is needed because a daemon that hangs can end nobody, while its driver has already begun another
// generation without this node. It is one file in the node's folder in /dev/shm, which holds a time of the
// machine's monotonic clock.
//
//   NodeLease lease(folder / "lease");  lease.renew(30);                          // the daemon
//   // a rank: LONGHAUL_LEASE; empty: no lease
//   const std::optional<LeaseWatch> watch = LeaseWatch::from_environment();
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
  static std::optional<LeaseWatch> from_environment();  // kUsage where the variable names no lease
  double over_s() const;

 private:
  explicit LeaseWatch(SharedFile file) : file_(std::move(file)) {}
  SharedFile file_;
};

}  // namespace longhaul::observe
