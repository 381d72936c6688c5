#include "checkpoint/published/weights_folder.h"

#include "base/clock.h"
#include "checkpoint/published/naming.h"
#include "recipe/write.h"
#include "storage/commit.h"

namespace longhaul::checkpoint {
namespace {

constexpr int64_t kFileBytes = int64_t{8} << 30;  // of one file of the checkpoint, about

int64_t bytes_of(const storage::ShardSource& shard) {
  return storage::tensor_bytes(shard.dtype, shard.length, shard.tensor);
}

std::vector<storage::ShardSource> shards_of(const WeightsFolder& weights) {
  std::vector<storage::ShardSource> shards;
  for (const layout::ParameterSpec& spec : weights.specs) {
    const layout::LogicalTensor& tensor = spec.tensor;
    shards.push_back({.tensor = tensor.name,
                      .shape = tensor.global_shape,
                      .dtype = storage_dtype(weights.dtype_of(tensor.name)),
                      .role = kWeightRole,
                      .offset = std::vector<int64_t>(tensor.global_shape.size(), 0),
                      .length = tensor.global_shape,
                      .data = {}});
  }
  return shards;
}

// Runs of tensors, each about as large as a file should be.
std::vector<std::vector<storage::ShardSource>> files_of(const std::vector<storage::ShardSource>& shards) {
  std::vector<std::vector<storage::ShardSource>> files(1);
  int64_t bytes = 0;
  for (const storage::ShardSource& shard : shards) {
    if (bytes > 0 && bytes + bytes_of(shard) > kFileBytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += bytes_of(shard);
    files.back().push_back(shard);
  }
  return files;
}

}  // namespace

int64_t WeightsFolder::bytes() const {
  int64_t bytes = 0;
  for (const auto& shard : shards_of(*this)) bytes += bytes_of(shard);
  return bytes;
}

void write_weights_folder(storage::FileSystem& files, const std::filesystem::path& folder,
                          const WeightsFolder& weights,
                          const std::function<void(int64_t, int64_t)>& progress) {
  const int64_t total = weights.bytes();
  storage::CheckpointWriter writer(files, folder / "checkpoints", weights.step, /*generation=*/1);
  const auto groups = files_of(shards_of(weights));
  Tensor now;  // being written
  const storage::ShardData data_of = [&](const storage::ShardSource& shard) {
    now = weights.read(shard.tensor);
    if (progress) progress(bytes_of(shard), total);
    return std::span(static_cast<const std::byte*>(now.const_data_ptr()), now.nbytes());
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string name =
        file_name(kModelFiles, static_cast<int64_t>(i), static_cast<int64_t>(groups.size()));
    writer.add(storage::write_checkpoint_file(files, writer.folder(), name, groups[i], data_of));
  }
  storage::Manifest manifest = weights.manifest;
  manifest.wall_time = wall_time_text(wall_time_s());
  manifest.recipe = {{"toml", recipe::to_toml(weights.recipe)}};
  writer.commit(std::move(manifest));
  writer.point_latest_here();
  storage::write_synced(files, folder / "recipe.toml", recipe::to_toml(weights.recipe));
}

}  // namespace longhaul::checkpoint
