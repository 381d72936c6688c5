// CheckpointLease: says that a process is reading a checkpoint, so that no other one removes it meanwhile. A
// lease is a small file beside the checkpoint, step-000000012.g3.lease-HOST-PROCESS-N, with the reader's
// identity and the time until which it counts. Retention (retention.h) keeps a checkpoint with a lease that
// counts. A lease counts no more when its reader has removed it, when its process is gone (as far as that can
// be seen from the machine that removes checkpoints), or when its time is over.
//
//   Leased leased = open_leased(files, "runs/a", Depth::kSizes, kAllRoles);
//   … read leased.checkpoint …
//   leased.lease.release();                 // or when it is destroyed
//
// A reader takes its lease first and then looks whether the checkpoint is still there; a remover first
// renames the checkpoint and then looks for leases, and renames it back where it finds one. Whatever the
// order of the two, either the reader sees that the checkpoint is gone, or the remover sees the lease.
//
// A folder that cannot be written gives a lease that is not held: reading goes on without it, and the log
// says so. One thread.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process/process_identity.h"
#include "storage/catalog.h"

namespace longhaul::storage {

// A reader on another machine that dies without a word holds its checkpoint for this long. Reading a terabyte
// from a slow disk takes less.
inline constexpr double kLeaseSeconds = 7200;

class CheckpointLease {
 public:
  CheckpointLease() = default;  // not held
  CheckpointLease(FileSystem& files, const std::filesystem::path& checkpoint, double seconds = kLeaseSeconds);
  ~CheckpointLease() { release(); }
  CheckpointLease(CheckpointLease&& other) noexcept { *this = std::move(other); }
  CheckpointLease& operator=(CheckpointLease&& other) noexcept;

  bool held() const { return !path_.empty(); }
  void release() noexcept;

 private:
  FileSystem* files_ = nullptr;
  std::filesystem::path path_;  // empty: not held
};

// As open_checkpoint(), with a lease from the moment at which the checkpoint is chosen. A checkpoint that was
// removed just then is not returned: the search begins anew.
struct Leased {
  Checkpoint checkpoint;
  CheckpointLease lease;
};
Leased open_leased(FileSystem& files, const std::filesystem::path& path, Depth depth = Depth::kSizes,
                   std::string_view role = kAllRoles);

// The leases in a folder of checkpoints at this time.
struct Leases {
  std::map<std::string, std::string> readers;  // by the checkpoint's name: who reads it, for people
  std::vector<std::filesystem::path> spent;    // files of leases that count no more
};
Leases leases_in(const FileSystem& files, const std::filesystem::path& checkpoints, double now_s);

}  // namespace longhaul::storage
