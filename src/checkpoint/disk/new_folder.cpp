#include "checkpoint/disk/new_folder.h"

#include "base/error.h"
#include "base/log.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kCarriedLimitBytes = int64_t{512} << 20;
constexpr const char* kCarried[] = {"config.json",         "generation_config.json",
                                    "tokenizer.json",      "tokenizer_config.json",
                                    "tokenizer.model",     "special_tokens_map.json",
                                    "added_tokens.json",   "vocab.json",
                                    "merges.txt",          "vocab.txt",
                                    "chat_template.jinja", "chat_template.json"};

fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

}  // namespace

NewFolder::NewFolder(storage::FileSystem& files, const fs::path& name, const char* option)
    : files_(files), name_(without_slash(name)) {
  if (files_.exists(name_)) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the folder to be made is there already",
                 .expected = "a name that is free: nothing is replaced",
                 .found = "a file or folder",
                 .where = fmt::format("{} {}", option, name_.string()),
                 .hint = "choose another name, or remove it"});
  }
  temporary_ = name_;
  temporary_ += ".unfinished";
  storage::remove_tree(files_, temporary_);  // of one that was killed
  storage::make_folders_durably(files_, temporary_);
}

NewFolder::~NewFolder() {
  if (committed_) return;
  try {
    storage::remove_tree(files_, temporary_);
  } catch (const std::exception& error) {
    log_warning("could not remove {}: {}", temporary_.string(), error.what());
  }
}

void NewFolder::commit() {
  files_.sync_folder(temporary_);
  files_.rename(temporary_, name_);
  committed_ = true;
  files_.sync_folder(name_.parent_path());
}

std::vector<std::string> carry_files(storage::FileSystem& files, const fs::path& from, const fs::path& to) {
  std::vector<std::string> carried;
  for (const char* name : kCarried) {
    if (!files.exists(from / name)) continue;
    const auto reader = files.open(from / name, ExitCode::kData, storage::Links::kFollow);
    if (reader->size() > kCarriedLimitBytes) {
      throw Error({.code = ExitCode::kData,
                   .what = "a file beside the weights is too large to be carried along",
                   .expected = fmt::format("at most {} bytes", kCarriedLimitBytes),
                   .found = fmt::format("{} bytes", reader->size()),
                   .where = (from / name).string()});
    }
    std::string text(static_cast<size_t>(reader->size()), '\0');
    reader->read_exactly(0, std::as_writable_bytes(std::span(text.data(), text.size())));
    if (carried.empty()) storage::make_folders_durably(files, to);
    storage::write_synced(files, to / name, text);
    carried.emplace_back(name);
  }
  return carried;
}

}  // namespace longhaul::checkpoint
