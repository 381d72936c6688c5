// NodeTier: the part of a run's newest checkpoints that a node holds in memory (/dev/shm, the folder that
// LONGHAUL_MEMORY_TIER names) or on a disk of its own:
//
//   TIER/run-a1b2…/                         one run, by a hash of its name
//     step-000000012.g3/                    like a checkpoint on disk (checkpoint_name.h), but with some of
//                                           its files only:
//       model-00001-of-00004.safetensors    those of this node's ranks, and copies of those of others
//       manifest.json                       of the whole checkpoint: it exists once all ranks of all nodes
//                                           have written
//
// Nothing is renamed and nothing is trusted: readers compare every byte with the checksums of the manifest,
// so a file that is torn, damaged or of another attempt counts as missing. The folder outlives the ranks that
// write it. Several ranks of the node write at once; one of them (its first) writes manifests and removes
// folders. A name carries its generation, and nothing of a later generation is removed. Plain object without
// thread rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "storage/checkpoint_name.h"
#include "storage/file_system.h"

namespace longhaul::storage {

// SavedMoment: a later generation of the run is newer; within a generation, the later step is.
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
    std::string manifest;                  // text of the manifest; empty: there is none
    std::map<std::string, int64_t> files;  // bytes of each
  };
  std::vector<Held> held() const;  // newest first

  int64_t newest_generation() const;  // of complete and incomplete checkpoints here; 0: there are none

  std::filesystem::path folder_of(const SavedMoment& moment) const;
  std::filesystem::path begin(const SavedMoment& moment);  // makes its folder; several ranks may call it
  void put_manifest(const SavedMoment& moment, const std::string& text);
  void copy(const SavedMoment& moment,
            // syncs the files there, then the manifest; kDisk; kCheckpoint: it is gone
            NodeTier& to) const;
  void remove_unfinished(const SavedMoment& moment);  // removes its files unless its manifest is here
  void remove_before(const SavedMoment& moment);      // removes everything older, complete or not
  void remove_run();                                  // removes everything of this run
  void remove_other_runs();
  int64_t free_bytes() const { return files_.free_bytes(tier_); }

 private:
  FileSystem& files_;
  std::filesystem::path tier_, run_;
};

}  // namespace longhaul::storage
