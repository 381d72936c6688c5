// NodeTier: what a node holds of a run's newest checkpoints in memory (/dev/shm, the folder that LONGHAUL_MEMORY_TIER names) or on a disk
// of its own:
//
//   TIER/run-a1b2…/                         of one run, by a hash of its name
//     step-000000012.g3/                    as a checkpoint on disk (checkpoint_name.h), but only some of its files:
//       model-00001-of-00004.safetensors    those of this node's ranks, and copies of those of others
//       manifest.json                       of the whole checkpoint: there once all ranks of all nodes had written
//
// Nothing is renamed and nothing is believed: whoever reads compares every byte with the checksums of the manifest, so a file that is torn,
// damaged or of another attempt is one that is not there. The folder outlives the ranks that write it; several ranks of the node write at
// once, one of them (its first) puts manifests and removes. A name carries its generation, and nothing of a later one is removed. Plain
// object: no thread rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "storage/checkpoint_name.h"
#include "storage/file_system.h"

namespace longhaul::storage {

// Newer is what a later start of the run saved; of one start, the later step.
struct SavedMoment {
  int64_t generation = 0, step = -1;
  auto operator<=>(const SavedMoment&) const = default;
};
SavedMoment moment_of(const CheckpointName& name);

class NodeTier {
 public:
  NodeTier(FileSystem& files, std::filesystem::path tier, const std::string& run);

  struct Held {
    SavedMoment moment;
    std::string manifest;                  // its text; empty: there is none
    std::map<std::string, int64_t> files;  // bytes of each
  };
  std::vector<Held> held() const;  // newest first

  int64_t newest_generation() const;  // of what lies here, whole or not; 0: nothing does

  std::filesystem::path folder_of(const SavedMoment& moment) const;
  std::filesystem::path begin(const SavedMoment& moment);  // makes its folder; several may
  void put_manifest(const SavedMoment& moment, const std::string& text);
  void copy(const SavedMoment& moment,
            NodeTier& to) const;                      // its files, synced there, then its manifest. kDisk, or kCheckpoint: it is gone
  void remove_unfinished(const SavedMoment& moment);  // what was written of it, unless its manifest is here
  void remove_before(const SavedMoment& moment);      // what is older goes, whole or not
  void remove_run();                                  // all of this run
  void remove_other_runs();
  int64_t free_bytes() const { return files_.free_bytes(tier_); }

 private:
  FileSystem& files_;
  std::filesystem::path tier_, run_;
};

}  // namespace longhaul::storage
