// Small checkpoints for the tests of storage: two writers, fused pieces, scalars and several dtypes, in a few
// hundred bytes.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "storage/catalog.h"
#include "storage/commit.h"
#include "storage/retention.h"

namespace longhaul::storage {

inline std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  const RandomStream stream(seed, "test/bytes");
  std::vector<std::byte> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<std::byte>(stream.bits(i) & 0xff);
  return data;
}

// A logical tensor cut along its first dimension into two files (rank-00000, rank-00001), one stored whole,
// one scalar.
inline std::vector<FileReport> write_test_files(FileSystem& files, const std::filesystem::path& folder,
                                                uint64_t seed, int64_t alignment = 8) {
  const auto weight = random_bytes(6 * 4 * 4, seed), norm = random_bytes(4 * 2, seed + 1),
             count = random_bytes(8, seed + 2);
  const std::span<const std::byte> all(weight);
  const std::vector<ShardSource> first = {{.tensor = "layers.0.weight",
                                           .shape = {6, 4},
                                           .dtype = DType::kF32,
                                           .role = "weight",
                                           .offset = {0, 0},
                                           .length = {4, 4},
                                           .data = all.first(64)},
                                          {.tensor = "norm",
                                           .shape = {4},
                                           .dtype = DType::kBF16,
                                           .role = "weight",
                                           .offset = {0},
                                           .length = {4},
                                           .data = norm}};
  const std::vector<ShardSource> second = {
      {.tensor = "layers.0.weight",
       .shape = {6, 4},
       .dtype = DType::kF32,
       .role = "weight",
       .offset = {4, 0},
       .length = {2, 4},
       .data = all.subspan(64)},
      {.tensor = "optimizer.count", .shape = {}, .dtype = DType::kI64, .role = "optimizer", .data = count}};
  return {write_checkpoint_file(files, folder, "rank-00000.safetensors", first, alignment),
          write_checkpoint_file(files, folder, "rank-00001.safetensors", second, alignment)};
}

inline std::filesystem::path save_test_checkpoint(FileSystem& files, const std::filesystem::path& checkpoints,
                                                  int64_t step, int64_t generation, uint64_t seed) {
  CheckpointWriter writer(files, checkpoints, step, generation);
  for (FileReport& report : write_test_files(files, writer.folder(), seed)) writer.add(std::move(report));
  Manifest manifest{.run_id = "test", .world = 2, .wall_time = "2026-01-01T00:00:00Z"};
  manifest.data_position = {{"first_sample", step * 8}};
  manifest.state = {{"seed_of_contents", seed}};
  const auto path = writer.commit(std::move(manifest));
  writer.point_latest_here();
  return path;
}

// "step-000000012.g3"; of generation 1 "step-000000012"
inline std::string name_of_save(int64_t step, int64_t generation, int64_t attempt = 1) {
  return CheckpointName{CheckpointName::Kind::kCommitted, step, generation, attempt}.text();
}

inline PruneReport prune_unread(FileSystem& files, const std::filesystem::path& checkpoints,
                                const RetentionPolicy& policy, int64_t generation, double now_s,
                                Prune mode = Prune::kRemove) {
  ReadBack known;
  return prune(files, checkpoints, policy, generation, now_s, known, mode);
}

template <class Function>
Error error_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  return Error({.code = ExitCode::kDone, .what = "no error was thrown"});
}

}  // namespace longhaul::storage
