// Names in the checkpoints folder, and the generations in them. A generation is one start of a run; a later
// one supersedes the earlier ones.
//
//   step-000000012            a checkpoint of a run's first generation; older versions used this form for all
//                             generations: the manifest says which
//   step-000000012.g3         a checkpoint of generation 3          step-000000012.tmp-3   being written by
//                                                                   generation 3
//   step-000000012.g3-2       the second one that it committed for this step: the first could not be made
//                             durable
//   .deleted-…                being removed           .generations/3   claimed: no other start gets this
//                                                                      number
//   step-000000012.replaced-3 being removed too, displaced by generation 3's save of the same step
//
// Two starts of one run may write here at once, on machines that share no lock. These rules keep the files of
// the earlier start from replacing those of the later one, whatever the order of their operations: a
// generation belongs to one process (claim_generation); a name carries the generation of its maker and is
// never used twice; and no process renames to, moves or removes anything with a later generation.
// tests/storage/interleaving_test.cpp runs every order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "storage/file_system.h"

namespace longhaul::storage {

inline constexpr const char* kLatestName = "latest";
inline constexpr std::string_view kDeletedPrefix = ".deleted-";

struct CheckpointName {
  enum class Kind { kCommitted, kReplaced, kTemporary };
  Kind kind = Kind::kCommitted;
  int64_t step = 0;
  std::optional<int64_t> generation;  // none: not part of the name; read_manifest() tells
  int64_t attempt = 1;                // for kCommitted: a later attempt supersedes earlier ones

  std::string text() const;
  bool operator==(const CheckpointName&) const = default;
};

// none: `name` is not exactly such a name as text() makes.
std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

// The highest generation that has committed a checkpoint here; 0: none.
int64_t newest_committed_generation(const FileSystem& files, const std::filesystem::path& checkpoints);

// Claims a generation above `above` and above any that was claimed or committed here. It belongs to this
// caller only, even if other processes ask at the same time from any machine. The claim is durable on return.
// Claims are never removed, because a returned number could be given out twice.
int64_t claim_generation(FileSystem& files, const std::filesystem::path& checkpoints, int64_t above);

}  // namespace longhaul::storage
