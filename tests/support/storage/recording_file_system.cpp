#include "support/storage/recording_file_system.h"

#include <algorithm>
#include <cstring>

namespace longhaul::storage {

namespace fs = std::filesystem;

struct RecordingFileSystem::Node {
  bool is_folder = false;
  std::map<std::string, int> entries;
  std::vector<std::byte> data;
  double modified_s = 0;
};

class RecordingFileSystem::Writer final : public FileWriter {
 public:
  Writer(RecordingFileSystem& disk, int node) : disk_(disk), node_(node) {}
  void write(std::span<const std::byte> data) override {
    disk_.record({.kind = DiskOperation::Kind::kWrite,
                  .node = node_,
                  .offset = position_,
                  .data = std::vector<std::byte>(data.begin(), data.end())});
    position_ += static_cast<int64_t>(data.size());
  }
  void sync() override { disk_.record({.kind = DiskOperation::Kind::kSyncFile, .node = node_}); }
  void close() override {}

 private:
  RecordingFileSystem& disk_;
  int node_;
  int64_t position_ = 0;
};

class RecordingFileSystem::Reader final : public FileReader {
 public:
  Reader(std::shared_ptr<const Node> node, fs::path path) : node_(std::move(node)), path_(std::move(path)) {}
  int64_t size() const override { return static_cast<int64_t>(node_->data.size()); }
  void read_exactly(int64_t offset, std::span<std::byte> into) const override {
    if (offset < 0 || offset > size() || static_cast<int64_t>(into.size()) > size() - offset) {
      throw Error({.code = ExitCode::kDisk,
                   .what = "the file is too short",
                   .expected = fmt::format("{} bytes", into.size()),
                   .found = fmt::format("{} bytes in all", size()),
                   .where = path_.string()});
    }
    if (!into.empty()) std::memcpy(into.data(), node_->data.data() + offset, into.size());
  }

 private:
  std::shared_ptr<const Node> node_;
  fs::path path_;
};

RecordingFileSystem::RecordingFileSystem() {
  nodes_.push_back(std::make_shared<Node>());
  nodes_[0]->is_folder = true;
}

RecordingFileSystem::~RecordingFileSystem() = default;

int RecordingFileSystem::find(const fs::path& path) const {
  int node = 0;
  for (const fs::path& part : path.relative_path()) {
    if (part.empty() || part == ".") continue;
    const auto found = nodes_[static_cast<size_t>(node)]->entries.find(part.string());
    if (found == nodes_[static_cast<size_t>(node)]->entries.end()) return -1;
    node = found->second;
  }
  return node;
}

int RecordingFileSystem::folder_of(const fs::path& path) const {
  const int folder = find(path.parent_path());
  if (folder < 0 || !nodes_[static_cast<size_t>(folder)]->is_folder) {
    throw Error({.code = ExitCode::kDisk, .what = "no such folder", .where = path.parent_path().string()});
  }
  return folder;
}

int RecordingFileSystem::add_node(int folder, const std::string& name, bool is_folder) {
  const int node = static_cast<int>(nodes_.size());
  record({.kind = DiskOperation::Kind::kLink,
          .node = node,
          .folder = folder,
          .name = name,
          .is_folder = is_folder});
  return node;
}

void RecordingFileSystem::record(DiskOperation operation) {
  apply(operation);
  log_.push_back(std::move(operation));
}

void RecordingFileSystem::apply(const DiskOperation& operation) {
  using Kind = DiskOperation::Kind;
  while (static_cast<int>(nodes_.size()) <= operation.node) nodes_.push_back(std::make_shared<Node>());
  Node& node = *nodes_[static_cast<size_t>(operation.node)];
  Node& folder = *nodes_[static_cast<size_t>(operation.folder)];
  switch (operation.kind) {
    case Kind::kLink:
      node.is_folder = operation.is_folder;
      node.modified_s = now_s_;
      folder.entries[operation.name] = operation.node;
      break;
    case Kind::kMove: {
      const auto from = folder.entries.find(operation.name);
      if (from != folder.entries.end() && from->second == operation.node) folder.entries.erase(from);
      nodes_[static_cast<size_t>(operation.to_folder)]->entries[operation.to_name] = operation.node;
      break;
    }
    case Kind::kUnlink: {
      const auto found = folder.entries.find(operation.name);
      if (found != folder.entries.end() && found->second == operation.node) folder.entries.erase(found);
      break;
    }
    case Kind::kTruncate:
      node.data.clear();
      break;
    case Kind::kWrite: {
      const auto end = static_cast<size_t>(operation.offset) + operation.data.size();
      if (node.data.size() < end) node.data.resize(end);
      std::copy(operation.data.begin(), operation.data.end(), node.data.begin() + operation.offset);
      node.modified_s = now_s_;
      break;
    }
    case Kind::kSyncFile:
    case Kind::kSyncFolder:
      break;
  }
}

std::unique_ptr<FileWriter> RecordingFileSystem::create(const fs::path& path) {
  const int folder = folder_of(path);
  int node = find(path);
  if (node < 0) {
    node = add_node(folder, path.filename().string(), false);
  } else {
    record({.kind = DiskOperation::Kind::kTruncate, .node = node});
  }
  return std::make_unique<Writer>(*this, node);
}

std::unique_ptr<FileReader> RecordingFileSystem::open(const fs::path& path, ExitCode missing, Links) const {
  const int node = find(path);
  if (node < 0 || nodes_[static_cast<size_t>(node)]->is_folder) {
    throw Error({.code = missing,
                 .what = "cannot open the file",
                 .expected = "a regular file",
                 .found = "no such file",
                 .where = path.string()});
  }
  return std::make_unique<Reader>(nodes_[static_cast<size_t>(node)], path);
}

void RecordingFileSystem::make_folders(const fs::path& folder) {
  fs::path so_far = "/";
  for (const fs::path& part : folder.relative_path()) {
    if (part.empty() || part == ".") continue;
    const int holder = find(so_far);
    so_far /= part;
    if (find(so_far) < 0) add_node(holder, part.string(), true);
  }
}

bool RecordingFileSystem::make_new_folder(const fs::path& folder) {
  if (find(folder) >= 0) return false;
  add_node(folder_of(folder), folder.filename().string(), true);
  return true;
}

void RecordingFileSystem::rename(const fs::path& from, const fs::path& to) {
  const int node = find(from), target = find(to);
  if (node < 0)
    throw Error(
        {.code = ExitCode::kDisk, .what = "cannot rename", .found = "no such file", .where = from.string()});
  if (target >= 0 && nodes_[static_cast<size_t>(target)]->is_folder &&
      !nodes_[static_cast<size_t>(target)]->entries.empty()) {
    throw Error({.code = ExitCode::kDisk,
                 .what = "cannot rename",
                 .found = "the target folder is not empty",
                 .where = to.string()});
  }
  record({.kind = DiskOperation::Kind::kMove,
          .node = node,
          .folder = folder_of(from),
          .to_folder = folder_of(to),
          .name = from.filename().string(),
          .to_name = to.filename().string()});
}

void RecordingFileSystem::remove(const fs::path& path) {
  const int node = find(path);
  if (node < 0) return;
  if (!nodes_[static_cast<size_t>(node)]->entries.empty()) {
    throw Error({.code = ExitCode::kDisk,
                 .what = "cannot remove the folder",
                 .found = "it is not empty",
                 .where = path.string()});
  }
  record({.kind = DiskOperation::Kind::kUnlink,
          .node = node,
          .folder = folder_of(path),
          .name = path.filename().string()});
}

void RecordingFileSystem::sync_folder(const fs::path& folder) {
  record({.kind = DiskOperation::Kind::kSyncFolder, .node = folder_of(folder / "entry")});
}

std::vector<FolderEntry> RecordingFileSystem::list(const fs::path& folder) const {
  std::vector<FolderEntry> entries;
  const int node = find(folder);
  if (node < 0) return entries;
  for (const auto& [name, child] : nodes_[static_cast<size_t>(node)]->entries) {
    entries.push_back({name, nodes_[static_cast<size_t>(child)]->is_folder});
  }
  return entries;
}

bool RecordingFileSystem::exists(const fs::path& path) const { return find(path) >= 0; }

bool RecordingFileSystem::is_folder(const fs::path& path) const {
  const int node = find(path);
  return node >= 0 && nodes_[static_cast<size_t>(node)]->is_folder;
}

double RecordingFileSystem::modified_s(const fs::path& path) const {
  const int node = find(path);
  if (node < 0) throw Error({.code = ExitCode::kDisk, .what = "no such file", .where = path.string()});
  return nodes_[static_cast<size_t>(node)]->modified_s;
}

void RecordingFileSystem::flip_bit(const fs::path& path, int64_t byte, int bit) {
  const int node = find(path);
  LONGHAUL_ASSERT(node >= 0 && byte < file_bytes(path), "byte {} of {}", byte, path.string());
  nodes_[static_cast<size_t>(node)]->data[static_cast<size_t>(byte)] ^= static_cast<std::byte>(1 << bit);
}

std::unique_ptr<RecordingFileSystem> RecordingFileSystem::clone() const {
  auto copy = std::make_unique<RecordingFileSystem>();
  copy->nodes_.clear();
  for (const auto& node : nodes_) copy->nodes_.push_back(std::make_shared<Node>(*node));
  copy->now_s_ = now_s_;
  copy->free_bytes_ = free_bytes_;
  return copy;
}

int64_t RecordingFileSystem::file_bytes(const fs::path& path) const {
  return open(path, ExitCode::kDisk)->size();
}

std::vector<size_t> RecordingFileSystem::pending(size_t prefix) const {
  using Kind = DiskOperation::Kind;
  std::vector<size_t> found;
  const auto synced_after = [&](size_t i, Kind kind, int node) {
    for (size_t j = i + 1; j < prefix; ++j) {
      if (log_[j].kind == kind && log_[j].node == node) return true;
    }
    return false;
  };
  for (size_t i = 0; i < prefix; ++i) {
    const DiskOperation& operation = log_[i];
    bool durable = true;
    switch (operation.kind) {
      case Kind::kLink:
      case Kind::kUnlink:
        durable = synced_after(i, Kind::kSyncFolder, operation.folder);
        break;
      case Kind::kMove:
        durable = synced_after(i, Kind::kSyncFolder, operation.folder) &&
                  synced_after(i, Kind::kSyncFolder, operation.to_folder);
        break;
      case Kind::kTruncate:
      case Kind::kWrite:
        durable = synced_after(i, Kind::kSyncFile, operation.node);
        break;
      case Kind::kSyncFile:
      case Kind::kSyncFolder:
        break;
    }
    if (!durable) found.push_back(i);
  }
  return found;
}

std::unique_ptr<RecordingFileSystem> RecordingFileSystem::after_crash(
    size_t prefix, const std::function<Survival(size_t)>& survival) const {
  auto disk = std::make_unique<RecordingFileSystem>();
  const std::vector<size_t> uncertain = pending(prefix);
  // A node's kind does not depend on whether its first name survived: a later rename may have given it
  // another.
  disk->nodes_.resize(nodes_.size());
  for (size_t i = 1; i < nodes_.size(); ++i) {
    disk->nodes_[i] = std::make_shared<Node>();
    disk->nodes_[i]->is_folder = nodes_[i]->is_folder;
  }
  for (size_t i = 0; i < prefix; ++i) {
    if (!std::binary_search(uncertain.begin(), uncertain.end(), i)) {
      disk->apply(log_[i]);
      continue;
    }
    const Survival left = survival(i);
    if (left.kind == Survival::Kind::kWhole) disk->apply(log_[i]);
    if (log_[i].kind != DiskOperation::Kind::kWrite) continue;
    DiskOperation damaged = log_[i];
    if (left.kind == Survival::Kind::kTorn) damaged.data.resize(static_cast<size_t>(left.bytes));
    if (left.kind == Survival::Kind::kZeros)
      std::fill(damaged.data.begin(), damaged.data.end(), std::byte{0});
    if (left.kind == Survival::Kind::kTorn || left.kind == Survival::Kind::kZeros) disk->apply(damaged);
  }
  return disk;
}

}  // namespace longhaul::storage
