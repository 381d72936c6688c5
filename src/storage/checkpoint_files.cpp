#include "storage/checkpoint_files.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "base/text/text.h"
#include "storage/commit.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kPieceBytes = 4 << 20;    // of verification
constexpr int64_t kGapBytes = 64 << 10;     // runs closer than this are read in one pread
constexpr int64_t kGatherBytes = 16 << 20;  // limit of a combined read

[[noreturn]] void damaged(const fs::path& file, const std::string& tensor, const std::string& what,
                          const std::string& expected, const std::string& found) {
  throw Error(
      {.code = ExitCode::kCheckpoint,
       .what = what,
       .expected = expected,
       .found = found,
       .where = tensor.empty() ? file.string() : fmt::format("{}, tensor '{}'", file.string(), brief(tensor)),
       .hint = "use another checkpoint: " + program_command("checkpoint verify RUN") +
               " reads them all and says which are whole"});
}

// Reads the runs of one stored piece. Short runs that lie close together (a column of a wide matrix) share a
// read.
void read_runs(const SafetensorsFile& file, const TensorInfo& stored, std::span<const layout::CopyRun> runs,
               std::span<std::byte> into) {
  std::vector<std::byte> gathered;
  for (size_t first = 0; first < runs.size();) {
    const int64_t begin = runs[first].source_offset;
    int64_t end = begin + runs[first].length;
    size_t last = first + 1;
    while (last < runs.size() && runs[last].source_offset - end <= kGapBytes &&
           runs[last].source_offset + runs[last].length - begin <= kGatherBytes) {
      end = runs[last].source_offset + runs[last].length;
      ++last;
    }
    if (last == first + 1) {
      file.read(
          stored, begin,
          into.subspan(static_cast<size_t>(runs[first].target_offset), static_cast<size_t>(end - begin)));
    } else {
      gathered.resize(static_cast<size_t>(end - begin));
      file.read(stored, begin, gathered);
      for (size_t i = first; i < last; ++i) {
        std::memcpy(into.data() + runs[i].target_offset, gathered.data() + (runs[i].source_offset - begin),
                    static_cast<size_t>(runs[i].length));
      }
    }
    first = last;
  }
}

}  // namespace

int64_t element_bytes(DType dtype) {
  LONGHAUL_ASSERT(bits_of(dtype) % 8 == 0, "{} elements have no whole bytes", name_of(dtype));
  return bits_of(dtype) / 8;
}

Checkpoint::Checkpoint(const FileSystem& files, const fs::path& folder, Manifest manifest)
    : folder_(folder),
      manifest_(std::move(manifest)),
      readers_(ReaderPool::make(files)),
      files_(std::make_unique<Files>()) {
  for (const ManifestFile& listed : manifest_.files) listed_.emplace(listed.name, &listed);
  for (const auto& [name, tensor] : manifest_.tensors) {
    for (const ManifestShard& shard : tensor.shards) pieces_[shard.file].emplace_back(&name, &shard);
  }
}

Checkpoint Checkpoint::open_unchecked(const FileSystem& files, const fs::path& folder) {
  Checkpoint checkpoint(files, folder, read_manifest(files, folder));
  checkpoint.needed_ = files_with_role(checkpoint.manifest_, kAllRoles);
  return checkpoint;
}

Checkpoint Checkpoint::open(const FileSystem& files, const fs::path& folder, std::string_view role) {
  Checkpoint checkpoint(files, folder, read_manifest(files, folder));
  checkpoint.needed_ = files_with_role(checkpoint.manifest_, role);
  for (const std::string& name : checkpoint.needed_) checkpoint.file(name);
  return checkpoint;
}

Checkpoint Checkpoint::open_some(const FileSystem& files, const fs::path& folder, Manifest manifest) {
  Checkpoint checkpoint(files, folder, std::move(manifest));
  checkpoint.needed_ = files_with_role(checkpoint.manifest_, kAllRoles);
  for (const std::string& name : checkpoint.needed_) {
    try {
      checkpoint.file(name);
    } catch (const Error& error) {
      checkpoint.unusable_.emplace(name, error);
    }
  }
  return checkpoint;
}

SafetensorsFile Checkpoint::checked_file(const ManifestFile& listed) const {
  const fs::path path = folder_ / listed.name;
  auto reader = readers_->open(path, ExitCode::kCheckpoint);
  const int64_t size = reader->size();
  if (size != listed.bytes) {
    damaged(path, "", "a file of the checkpoint has the wrong size", fmt::format("{} bytes", listed.bytes),
            fmt::format("{} bytes", size));
  }
  SafetensorsFile checked = SafetensorsFile::of(std::move(reader), path);
  const auto pieces = pieces_.find(listed.name);
  if (pieces == pieces_.end()) return checked;
  for (const auto& [name, shard] : pieces->second) {
    const ManifestTensor& tensor = manifest_.tensors.at(*name);
    const TensorInfo* stored = checked.find(shard->key);
    if (stored == nullptr)
      damaged(path, *name, "the file lacks a tensor of the manifest", shard->key, "no such tensor");
    if (stored->dtype != tensor.dtype || stored->shape != shard->length) {
      damaged(path, *name, "file and manifest disagree about a tensor",
              fmt::format("{} [{}]", name_of(tensor.dtype), fmt::join(shard->length, ", ")),
              fmt::format("{} [{}]", name_of(stored->dtype), fmt::join(stored->shape, ", ")));
    }
  }
  return checked;
}

const SafetensorsFile& Checkpoint::file(const std::string& name) const {
  const auto unusable = unusable_.find(name);
  if (unusable != unusable_.end()) throw unusable->second;
  const std::lock_guard hold(files_->mutex);
  const auto found = files_->checked.find(name);
  if (found != files_->checked.end()) return found->second;
  return files_->checked.emplace(name, checked_file(*listed_.at(name))).first->second;
}

std::set<std::string> files_with_role(const Manifest& manifest, std::string_view role) {
  std::set<std::string> names;
  if (role == kAllRoles) {
    for (const ManifestFile& listed : manifest.files) names.insert(listed.name);
    return names;
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    if (tensor.role != role) continue;
    for (const ManifestShard& shard : tensor.shards) names.insert(shard.file);
  }
  return names;
}

const ManifestTensor* Checkpoint::find(const std::string& name) const {
  const auto found = manifest_.tensors.find(name);
  return found == manifest_.tensors.end() ? nullptr : &found->second;
}

const ManifestTensor& Checkpoint::at(const std::string& name) const {
  const ManifestTensor* tensor = find(name);
  if (tensor == nullptr)
    damaged(folder_ / kManifestName, name, "the checkpoint lacks a tensor", "the tensor", "no such name");
  return *tensor;
}

void Checkpoint::read(const std::string& name, const layout::Rectangle& needed,
                      std::span<std::byte> into) const {
  const ManifestTensor& tensor = at(name);
  const layout::Shape shape = tensor.shape.empty() ? layout::Shape{1} : tensor.shape;
  LONGHAUL_ASSERT(needed.inside(shape), "rectangle {} of tensor '{}' {}", needed.text(), name,
                  layout::shape_text(shape));
  if (bits_of(tensor.dtype) % 8 != 0) {
    // Elements share bytes: only the whole of a tensor stored whole can be read.
    LONGHAUL_ASSERT(needed == layout::Rectangle::whole(shape) && tensor.shards.size() == 1,
                    "part of packed tensor '{}'", name);
    const SafetensorsFile& stored_in = file(tensor.shards[0].file);
    stored_in.read(stored_in.at(tensor.shards[0].key), 0, into);
    return;
  }
  const int64_t size = element_bytes(tensor.dtype);
  LONGHAUL_ASSERT(needed.volume() * size == static_cast<int64_t>(into.size()), "{} bytes for {} of '{}'",
                  into.size(), needed.text(), name);
  for (const ManifestShard& shard : tensor.shards) {
    const auto runs = layout::copy_plan(rectangle_of(shard), needed, size);
    if (runs.empty()) continue;
    const SafetensorsFile& stored_in = file(shard.file);
    read_runs(stored_in, stored_in.at(shard.key), runs, into);
  }
}

std::vector<std::byte> Checkpoint::read_tensor(const std::string& name) const {
  const ManifestTensor& tensor = at(name);
  std::vector<std::byte> data(static_cast<size_t>(tensor_bytes(tensor.dtype, tensor.shape, name)));
  read(name, layout::Rectangle::whole(tensor.shape.empty() ? layout::Shape{1} : tensor.shape), data);
  return data;
}

void Checkpoint::verify(const std::function<void(int64_t)>& progress) const {
  for (const std::string& name : needed_) verify_file(name, progress);
}

void Checkpoint::verify_file(const std::string& name, const std::function<void(int64_t)>& progress) const {
  const SafetensorsFile& stored = file(name);
  // key → logical tensor, crc32c
  std::unordered_map<std::string, std::pair<const std::string*, uint32_t>> expected;
  if (const auto pieces = pieces_.find(name); pieces != pieces_.end()) {
    for (const auto& [tensor, shard] : pieces->second)
      expected.emplace(shard->key, std::pair(tensor, shard->crc32c));
  }
  Sha256 sha256;
  std::vector<std::byte> piece;
  const auto read = [&](int64_t begin, int64_t end, uint32_t crc) {
    for (int64_t at = begin; at < end; at += kPieceBytes) {
      piece.resize(static_cast<size_t>(std::min(kPieceBytes, end - at)));
      stored.read_raw(at, piece);
      sha256.update(piece);
      crc = crc32c(piece, crc);
      if (progress) progress(static_cast<int64_t>(piece.size()));
    }
    return crc;
  };
  read(0, stored.data_begin(), 0);
  for (const TensorInfo& tensor : stored.tensors()) {
    const uint32_t crc = read(stored.data_begin() + tensor.begin, stored.data_begin() + tensor.end, 0);
    const auto wanted = expected.find(tensor.name);
    if (wanted != expected.end() && wanted->second.second != crc) {
      damaged(stored.path(), *wanted->second.first, "a tensor's data do not have their checksum",
              fmt::format("crc32c {:08x}", wanted->second.second), fmt::format("crc32c {:08x}", crc));
    }
  }
  const ManifestFile& listed = *listed_.at(name);
  const std::string found = sha256.hex();
  if (found != listed.sha256) {
    damaged(stored.path(), "", "the file does not have its checksum", "sha256 " + listed.sha256,
            "sha256 " + found);
  }
}

}  // namespace longhaul::storage
