#include "control/node/node_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/process/children.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "storage/checkpoint_name.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

std::string prefix_of_user() { return fmt::format("longhaul-{}-", user_id()); }

bool is_locked(const fs::path& lock) {
  if (!fs::exists(fs::path(lock) += ".lock")) return false;
  try {
    const FileLock mine(lock);
    return false;
  } catch (const Error&) {
    return true;
  }
}

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += static_cast<int64_t>(entry.file_size(ignored));
  }
  return bytes;
}

bool is_abandoned(const fs::path& run, fs::file_time_type before) {
  std::error_code problem;
  for (const auto& node : fs::directory_iterator(run, problem)) {
    if (is_locked(node.path() / "daemon")) return false;
  }
  const auto changed_since = [&](const fs::directory_entry& entry) {
    return entry.last_write_time(problem) >= before;
  };
  if (problem || changed_since(fs::directory_entry(run, problem))) return false;
  for (const auto& entry : fs::recursive_directory_iterator(run, problem)) {
    if (changed_since(entry)) return false;
  }
  return !problem;
}

}  // namespace

fs::path node_folder(const std::string& run, const std::string& node) {
  return fs::path("/dev/shm") / fmt::format("{}{:016x}", prefix_of_user(), xxh3(run)) / node;
}
fs::path node_lock(const std::string& run, const std::string& node) {
  return node_folder(run, node) / "daemon";
}
bool node_lives(const std::string& run, const std::string& node) { return is_locked(node_lock(run, node)); }

int64_t newest_step_in_memory(const fs::path& node_folder) {
  int64_t newest = -1;
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator(node_folder / "memory", ignored)) {
    for (const auto& entry : fs::directory_iterator(run.path(), ignored)) {
      const auto name = storage::parse_checkpoint_name(entry.path().filename().string());
      if (name) newest = std::max(newest, name->step);
    }
  }
  return newest;
}

std::string release_memory(const std::string& run, const std::string& node, int64_t committed_step) {
  const fs::path folder = node_folder(run, node);
  const int64_t step = newest_step_in_memory(folder);
  std::error_code ignored;
  if (step <= committed_step) {
    fs::remove_all(folder, ignored);
    fs::remove(folder.parent_path(), ignored);  // by the last one
    return "";
  }
  fs::remove_all(folder / "boards", ignored);
  return fmt::format(
      "the state of step {} stays in memory ({}), newer than the disk's{}: the same command, typed again "
      "within a day, goes on "
      "from it; to have the memory back: rm -r {}",
      step, bytes_text(bytes_in(folder)),
      committed_step < 0 ? "" : fmt::format(" of step {}", committed_step), folder.string());
}

std::vector<fs::path> forget_abandoned_runs(double older_than_s, const fs::path& memory) {
  const auto before =
      fs::file_time_type::clock::now() -
      std::chrono::duration_cast<fs::file_time_type::duration>(std::chrono::duration<double>(older_than_s));
  std::vector<fs::path> gone;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(memory, ignored)) {
    const std::string name = entry.path().filename().string(), prefix = prefix_of_user();
    const bool is_run =
        name.starts_with(prefix) && name.size() == prefix.size() + 16 && entry.is_directory(ignored);
    if (!is_run || !is_abandoned(entry.path(), before)) continue;
    fs::remove_all(entry.path(), ignored);
    gone.push_back(entry.path());
  }
  return gone;
}

}  // namespace longhaul::control
