#include "checkpoint/disk/verify_together.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/machine/disk_errors.h"
#include "base/threads/background_work.h"

namespace longhaul::checkpoint {
namespace {

int64_t largest_share(const storage::Manifest& manifest,
                      const std::vector<std::vector<std::string>>& shares) {
  int64_t largest = 0;
  for (const auto& share : shares) {
    int64_t bytes = 0;
    for (const auto& file : manifest.files) bytes += std::ranges::count(share, file.name) * file.bytes;
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Of this rank's files.
std::string damage_of_share(const storage::Checkpoint& checkpoint, const std::vector<std::string>& share) {
  try {
    for (const std::string& file : share) checkpoint.verify_file(file);
  } catch (const Error& error) {
    if (says_too_many_open_files(error)) throw;
    return error.what();
  }
  return "";
}

}  // namespace

std::vector<std::vector<std::string>> shares_of_files(const storage::Manifest& manifest,
                                                      std::string_view role, int64_t ranks) {
  const std::set<std::string> needed = storage::files_with_role(manifest, role);
  std::vector<storage::ManifestFile> listed = manifest.files;
  std::erase_if(listed, [&](const storage::ManifestFile& file) { return !needed.contains(file.name); });
  std::ranges::sort(listed, [](const auto& a, const auto& b) {
    return std::pair(-a.bytes, a.name) < std::pair(-b.bytes, b.name);
  });
  std::vector<std::vector<std::string>> shares(static_cast<size_t>(ranks));
  std::vector<int64_t> bytes(shares.size());
  for (const storage::ManifestFile& file : listed) {
    const auto least = static_cast<size_t>(std::ranges::min_element(bytes) - bytes.begin());
    shares[least].push_back(file.name);
    bytes[least] += file.bytes;
  }
  return shares;
}

std::string damage_of(const storage::FileSystem& files, const std::filesystem::path& checkpoints,
                      const std::string& name, const Writers& together, std::string_view role) {
  std::optional<storage::Checkpoint> checkpoint;
  std::vector<std::vector<std::string>> shares;
  std::optional<Error> unreadable;
  try {
    checkpoint.emplace(storage::Checkpoint::open_unchecked(files, checkpoints / name));
    shares = shares_of_files(checkpoint->manifest(), role, together.size());
  } catch (const Error& error) {
    unreadable = error;
  }
  const auto work = [&]() -> nlohmann::json {
    if (!unreadable) return damage_of_share(*checkpoint, shares[static_cast<size_t>(together.rank())]);
    if (says_too_many_open_files(*unreadable)) throw *unreadable;
    return unreadable->what();
  };
  const double seconds = !unreadable ? seconds_to_move(largest_share(checkpoint->manifest(), shares)) : 0;
  const nlohmann::json found = together.all("verify", work, comm::Timeout(std::llround(1000 * seconds)));
  for (const nlohmann::json& of_rank : found) {
    if (!of_rank.get<std::string>().empty()) return of_rank;
  }
  return "";
}

}  // namespace longhaul::checkpoint
