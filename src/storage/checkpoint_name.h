// Names inside the folder of checkpoints, and the generations they carry. A generation is one start of a run; a later one supersedes.
//
//   step-000000012            a checkpoint of a run's first generation; older versions named those of all so: the manifest says which
//   step-000000012.g3         a checkpoint of generation 3          step-000000012.tmp-3   being written by generation 3
//   step-000000012.g3-2       the second one that it committed for this step: the first could not be made durable
//   .deleted-…                being removed                         .generations/3         taken: no other start gets this number
//   step-000000012.replaced-3 likewise, displaced by generation 3's save of the same step
//
// Two starts of one run may write here at once, from machines between which no lock holds. Then this is what keeps the earlier one's
// files from taking the place of the later one's, whatever the order of their operations: a generation belongs to one process
// (claim_generation), a name carries the generation of who made it and is never used twice, and nobody renames to, moves or removes
// what carries a later generation. tests/storage/interleaving_test.cpp runs every order.
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
  std::optional<int64_t> generation;  // none: the name does not say; read_manifest() does
  int64_t attempt = 1;                // of kCommitted: a later one supersedes

  std::string text() const;
  bool operator==(const CheckpointName&) const = default;
};

std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);  // none: not such a name, spelled as text() does

// The highest generation that has committed a checkpoint here; 0: none.
int64_t newest_committed_generation(const FileSystem& files, const std::filesystem::path& checkpoints);

// A generation above `above` and above any that has claimed or committed here, and this caller's alone, whoever else asks at the same
// time from whatever machine. Durable when it returns. Claims are never removed: a number given back could be given out twice.
int64_t claim_generation(FileSystem& files, const std::filesystem::path& checkpoints, int64_t above);

}  // namespace longhaul::storage
