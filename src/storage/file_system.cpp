#include "storage/file_system.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/files/file.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void disk_error(const std::string& what, const fs::path& path, const std::error_code& code) {
  throw Error({.code = ExitCode::kDisk, .what = what, .found = code.message(), .where = path.string()});
}

class LocalReader final : public FileReader {
 public:
  explicit LocalReader(File file) : file_(std::move(file)) {}
  int64_t size() const override { return file_.size(); }
  void read_exactly(int64_t offset, std::span<std::byte> into) const override {
    file_.read_exactly(offset, into);
  }

 private:
  File file_;
};

class LocalWriter final : public FileWriter {
 public:
  explicit LocalWriter(File file) : file_(std::move(file)) {}
  void write(std::span<const std::byte> data) override { file_.write(data); }
  void sync() override { file_.sync(); }
  void close() override { file_.close(); }

 private:
  File file_;
};

}  // namespace

std::unique_ptr<FileWriter> LocalFileSystem::create(const fs::path& path) {
  return std::make_unique<LocalWriter>(File::open(path, File::Mode::kCreate, ExitCode::kDisk));
}

std::unique_ptr<FileReader> LocalFileSystem::open(const fs::path& path, ExitCode missing, Links links) const {
  std::error_code code;
  if (links == Links::kRefuse && fs::is_symlink(fs::symlink_status(path, code))) {
    throw Error({.code = missing,
                 .what = "refusing to read a symbolic link",
                 .expected = "a regular file",
                 .found = "a symbolic link",
                 .where = path.string()});
  }
  return std::make_unique<LocalReader>(File::open(path, File::Mode::kRead, missing));
}

void LocalFileSystem::make_folders(const fs::path& folder) { longhaul::make_folders(folder); }

bool LocalFileSystem::make_new_folder(const fs::path& folder) {
  std::error_code code;
  const bool made = fs::create_directory(folder, code);
  if (code) disk_error("cannot make the folder", folder, code);
  return made;
}

// Without a sync, unlike rename_path: the caller says when names become durable.
void LocalFileSystem::rename(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code) disk_error("cannot rename to " + to.string(), from, code);
}

void LocalFileSystem::remove(const fs::path& path) {
  std::error_code code;
  fs::remove(path, code);
  if (code) disk_error("cannot remove the file", path, code);
}

void LocalFileSystem::sync_folder(const fs::path& folder) {
  longhaul::sync_folder(folder.empty() ? fs::path(".") : folder);  // the parent of "file" is ""
}

std::vector<FolderEntry> LocalFileSystem::list(const fs::path& folder) const {
  std::error_code code;
  fs::directory_iterator at(folder, code), end;
  if (code == std::errc::no_such_file_or_directory) return {};
  if (code) disk_error("cannot list the folder", folder, code);
  std::vector<FolderEntry> entries;
  while (at != end) {
    std::error_code ignored;  // an entry that vanished meanwhile is simply not a folder
    entries.push_back({at->path().filename().string(), fs::is_directory(at->symlink_status(ignored))});
    at.increment(code);
    if (code) disk_error("cannot list the folder", folder, code);
  }
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

bool LocalFileSystem::exists(const fs::path& path) const {
  std::error_code code;
  return fs::exists(fs::symlink_status(path, code));
}

bool LocalFileSystem::is_folder(const fs::path& path) const {
  std::error_code code;
  return fs::is_directory(path, code);
}

double LocalFileSystem::modified_s(const fs::path& path) const {
  std::error_code code;
  const auto time = fs::last_write_time(path, code);
  if (code) disk_error("cannot read the time of", path, code);
  const auto since = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

int64_t LocalFileSystem::free_bytes(const fs::path& folder) const { return free_disk_bytes(folder); }

LocalFileSystem& local_file_system() {
  static LocalFileSystem files;
  return files;
}

std::string read_small_file(const FileSystem& files, const fs::path& path, ExitCode missing,
                            int64_t limit_bytes) {
  const auto reader = files.open(path, missing);
  const int64_t size = reader->size();
  if (size > limit_bytes) {
    throw Error({.code = missing,
                 .what = "the file is too large",
                 .expected = fmt::format("at most {} bytes", limit_bytes),
                 .found = fmt::format("{} bytes", size),
                 .where = path.string()});
  }
  std::string text(static_cast<size_t>(size), '\0');
  reader->read_exactly(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void write_synced(FileSystem& files, const fs::path& path, std::string_view text) {
  const auto writer = files.create(path);
  writer->write(std::as_bytes(std::span(text.data(), text.size())));
  writer->sync();
  writer->close();
}

// A new folder survives a crash only when the folder that contains it was synced, up to the first one that
// existed before.
void make_folders_durably(FileSystem& files, const fs::path& folder) {
  if (folder.empty() || files.exists(folder)) return;
  make_folders_durably(files, folder.parent_path());
  files.make_folders(folder);
  files.sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
}

void copy_file(FileSystem& files, const fs::path& from, const fs::path& to,
               const std::function<void(int64_t)>& moved) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const auto reader = files.open(from, ExitCode::kCheckpoint);
  const auto writer = files.create(to);
  const int64_t size = reader->size();
  std::vector<std::byte> piece;
  for (int64_t offset = 0; offset < size; offset += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, size - offset)));
    reader->read_exactly(offset, piece);
    writer->write(piece);
    if (moved) moved(static_cast<int64_t>(piece.size()));
  }
  writer->sync();
  writer->close();
}

void remove_tree(FileSystem& files, const fs::path& folder) {
  if (!files.exists(folder)) return;
  for (const FolderEntry& entry : files.list(folder)) {
    if (entry.is_folder) {
      remove_tree(files, folder / entry.name);
    } else {
      files.remove(folder / entry.name);
    }
  }
  files.remove(folder);
}

}  // namespace longhaul::storage
