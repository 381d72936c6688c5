// Manifest: the description of a checkpoint's contents: one JSON file, manifest.json, written last; a folder
// without a valid one is no checkpoint. It lists every file with size and sha256, every logical tensor as
// rectangles (shards) of a global shape with their crc32c, and four free sections that the trainer fills. Its
// last member is the sha256 of everything before it, so that a change of any byte is detected.
// docs/formats/checkpoint.md is the specification and states the version policy.
//
// parse_manifest accepts nothing inconsistent: shards must tile their tensor exactly, file names must be
// plain, keys must be unique. It is a pure function of a string (fuzzed). Errors have exit code 66 and name
// file and tensor.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "layout/rectangle.h"
#include "storage/dtype.h"

namespace longhaul::storage {

inline constexpr int kManifestVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr int64_t kManifestLimitBytes = int64_t{1} << 30;

struct ManifestFile {
  std::string name;  // within the checkpoint's folder: letters, digits, '.', '-', '_'
  int64_t bytes = 0;
  std::string sha256;
};

struct ManifestShard {
  std::string file, key;                // key: the tensor's name inside the safetensors file
  std::vector<int64_t> offset, length;  // the rectangle of the logical tensor; [] for a scalar
  uint32_t crc32c = 0;                  // of the stored bytes
};

layout::Rectangle rectangle_of(const ManifestShard& shard);  // [1] for a scalar

struct ManifestTensor {
  std::vector<int64_t> shape;  // global
  DType dtype = DType::kF32;
  std::string role;  // meaning for the trainer: "weight", "optimizer.m", …; may be empty
  std::vector<ManifestShard> shards;
};

struct Manifest {
  std::string run_id;
  int64_t generation = 0;  // counts the starts of a run; a later one supersedes earlier ones
  int64_t step = 0;
  int64_t world = 1;         // number of ranks that wrote it
  int64_t parent_step = -1;  // step of the checkpoint from which the run continued; -1: none
  std::string wall_time;     // for people
  std::vector<ManifestFile> files;
  std::map<std::string, ManifestTensor> tensors;
  nlohmann::json data_position = nlohmann::json::object();
  nlohmann::json recipe = nlohmann::json::object();       // resolved
  nlohmann::json environment = nlohmann::json::object();  // commit, versions, CPU features, threads, seed
  nlohmann::json state = nlohmann::json::object();        // optimizer step, counters

  int64_t bytes() const;  // of all files
};

std::string to_text(const Manifest& manifest);  // sealed with its checksum
Manifest parse_manifest(std::string_view text, const std::string& where);
// The checks that parse_manifest and commit share.
void check_consistent(const Manifest& manifest, const std::string& where);

// FileReport: a writer's report to the coordinator about one file that it has written and synced. It is sent
// as JSON.
struct ReportedShard {
  std::string tensor;
  std::vector<int64_t> shape;  // global
  DType dtype = DType::kF32;
  std::string role;
  ManifestShard shard;
};
struct FileReport {
  ManifestFile file;
  std::vector<ReportedShard> shards;
};
nlohmann::json to_json(const FileReport& report);
FileReport file_report_from_json(const nlohmann::json& json, const std::string& where);

bool is_plain_file_name(std::string_view name);

}  // namespace longhaul::storage
