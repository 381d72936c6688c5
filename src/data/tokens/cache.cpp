#include "data/tokens/cache.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/process/signals.h"

namespace longhaul::data {
namespace fs = std::filesystem;

namespace {

// "tokens-<16 hexadecimal digits>" and so on: nothing else is ever taken for a part of the cache.
bool is_named(std::string_view name, std::string_view before, std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() != before.size() + 16 + after.size())
    return false;
  return name.substr(before.size(), 16).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

fs::path preparation_of(const fs::path& folder) { return folder / "preparation"; }  // the path that is locked

std::optional<CacheEntry::Kind> kind_of(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code problem;
  if (entry.is_directory(problem))
    return is_named(name, "tokens-", "") ? std::optional(CacheEntry::Kind::kTokens) : std::nullopt;
  if (!entry.is_regular_file(problem)) return std::nullopt;
  if (is_named(name, "tokenizer-", ".json")) return CacheEntry::Kind::kTokenizer;
  if (is_named(name, "compression-", ".json")) return CacheEntry::Kind::kCompression;
  const bool index = name.starts_with("packing-") && (name.ends_with(".index") || name.ends_with(".partial"));
  return index ? std::optional(CacheEntry::Kind::kPackingIndex) : std::nullopt;
}

double written_s(const fs::path& path) {
  std::error_code problem;
  const auto time = fs::last_write_time(path, problem);
  if (problem) return 0;
  return std::chrono::duration<double>(std::chrono::file_clock::to_sys(time).time_since_epoch()).count();
}

void add_entries(const fs::path& folder, std::vector<CacheEntry>& entries) {
  std::error_code problem;
  for (const auto& found : fs::directory_iterator(folder, problem)) {
    const auto kind = kind_of(found);
    if (!kind) continue;
    CacheEntry entry{*kind, found.path(), 0, written_s(found.path())};
    if (*kind == CacheEntry::Kind::kTokens) {
      for (const fs::path& file : list_files(found.path())) {
        const auto bytes = static_cast<int64_t>(fs::file_size(file, problem));
        entry.bytes += problem ? 0 : bytes;
        entry.used_s = std::max(entry.used_s, written_s(file));
      }
    } else {
      const auto bytes = static_cast<int64_t>(found.file_size(problem));
      entry.bytes = problem ? 0 : bytes;
    }
    entries.push_back(std::move(entry));
  }
}

}  // namespace

std::string name_of(CacheEntry::Kind kind) {
  switch (kind) {
    case CacheEntry::Kind::kTokens:
      return "token shards";
    case CacheEntry::Kind::kTokenizer:
      return "tokenizer";
    case CacheEntry::Kind::kPackingIndex:
      return "packing index";
    case CacheEntry::Kind::kCompression:
      return "compressors' results";
  }
  return "";
}

std::vector<CacheEntry> list_cache(const fs::path& folder) {
  std::vector<CacheEntry> entries;
  add_entries(folder, entries);
  add_entries(folder / "packing", entries);
  std::sort(entries.begin(), entries.end(),
            [](const CacheEntry& a, const CacheEntry& b) { return a.path.native() < b.path.native(); });
  return entries;
}

std::unique_ptr<FileLock> lock_preparation(const fs::path& folder) {
  for (bool said = false;;) {
    make_folders(folder);
    try {
      auto lock = std::make_unique<FileLock>(preparation_of(folder));
      if (lock->is_at_its_path()) return lock;  // else it was removed from the cache meanwhile
    } catch (const Error& error) {
      if (error.code() != ExitCode::kUsage) throw;
      if (!std::exchange(said, true))
        log_info("{} is being prepared already, {}: waiting for it", folder.filename().string(),
                 error.fields().found);
      pause_unless_stopped(0.1);
      throw_if_stop_requested("waiting for data that another process prepares");
    }
  }
}

bool remove_from_cache(const CacheEntry& entry) {
  std::error_code problem;
  if (entry.kind == CacheEntry::Kind::kTokens) {
    std::optional<FileLock> nobody_prepares_it;
    try {
      nobody_prepares_it.emplace(preparation_of(entry.path));
    } catch (const Error& error) {
      if (error.code() == ExitCode::kUsage) return false;
      throw;
    }
    // The manifest is removed first, so that the remains after an interruption are taken for an unfinished
    // preparation.
    fs::remove(entry.path / "dataset.json", problem);
    if (!problem) fs::remove_all(entry.path, problem);
  } else {
    fs::remove(entry.path, problem);
  }
  if (problem) {
    throw Error({.code = ExitCode::kDisk,
                 .what = "cannot remove from the cache",
                 .found = problem.message(),
                 .where = entry.path.string()});
  }
  return true;
}

void mark_used(const fs::path& file) {
  std::error_code problem;
  fs::last_write_time(file, fs::file_time_type::clock::now(), problem);
}

}  // namespace longhaul::data
