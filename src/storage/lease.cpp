#include "storage/lease.h"

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/json.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMark = ".lease-";
constexpr int64_t kLimitBytes = 4096;
constexpr JsonRules kRules{.code = ExitCode::kCheckpoint, .what = "a lease that cannot be read", .hint = ""};

struct Reader {
  ProcessIdentity who;
  double until_s = 0;
};

std::string text_of(const Reader& reader) {
  return nlohmann::ordered_json{{"host", reader.who.host},
                                {"machine", reader.who.machine},
                                {"process", reader.who.process},
                                {"started", reader.who.started},
                                {"until", reader.until_s}}
             .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

// None: it is being written or removed, or is no lease.
std::optional<Reader> read_lease(const FileSystem& files, const fs::path& path) {
  try {
    const std::string text = read_small_file(files, path, ExitCode::kCheckpoint, kLimitBytes);
    const nlohmann::json json = parse_json(text, path.string(), kRules);
    const JsonView view(json, path.string() + ":", kRules);
    return Reader{.who = {.host = view.at("host").string(),
                          .machine = view.at("machine").string(),
                          .process = view.at("process").integer(),
                          .started = view.at("started").integer()},
                  .until_s = view.at("until").number()};
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Letters that a file's name may have everywhere.
std::string as_name(std::string host) {
  for (char& c : host) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain) c = '_';
  }
  return host.substr(0, 64);
}

}  // namespace

CheckpointLease::CheckpointLease(FileSystem& files, const fs::path& checkpoint, double seconds) {
  static std::atomic<int64_t> taken = 0;
  const ProcessIdentity& own = own_identity();
  const fs::path path =
      checkpoint.parent_path() / fmt::format("{}{}{}-{}-{}", checkpoint.filename().string(), kMark,
                                             as_name(own.host), own.process, ++taken);
  const std::string text = text_of({.who = own, .until_s = wall_time_s() + seconds});
  try {
    const auto file = files.create(path);
    file->write(std::as_bytes(std::span(text)));
    file->close();
    files_ = &files, path_ = path;
  } catch (const Error& error) {
    log_info("{} is read without a lease, and may be removed meanwhile by what removes old checkpoints: {}",
             checkpoint.string(), error.fields().found.empty() ? error.what() : error.fields().found);
  }
}

CheckpointLease& CheckpointLease::operator=(CheckpointLease&& other) noexcept {
  if (this == &other) return *this;
  release();
  files_ = std::exchange(other.files_, nullptr);
  path_ = std::exchange(other.path_, {});
  return *this;
}

void CheckpointLease::release() noexcept {
  const fs::path path = std::exchange(path_, {});
  if (path.empty()) return;
  try {
    files_->remove(path);
  } catch (const std::exception& error) {
    log_warning("a lease was not removed, and keeps its checkpoint until it is old: {}", error.what());
  }
}

Leased open_leased(FileSystem& files, const fs::path& path, Depth depth, std::string_view role) {
  for (;;) {
    Checkpoint checkpoint = open_checkpoint(files, path, depth, role);
    CheckpointLease lease(files, checkpoint.folder());
    if (files.exists(checkpoint.folder() / kManifestName)) return {std::move(checkpoint), std::move(lease)};
  }
}

// A lease that cannot be read is taken for one that is being written, until it is as old as leases get.
Leases leases_in(const FileSystem& files, const fs::path& checkpoints, double now_s) {
  Leases leases;
  for (const FolderEntry& entry : files.list(checkpoints)) {
    const size_t mark = entry.name.find(kMark);
    if (entry.is_folder || mark == std::string::npos) continue;
    const fs::path path = checkpoints / entry.name;
    const std::string checkpoint = entry.name.substr(0, mark);
    const std::optional<Reader> reader = read_lease(files, path);
    if (!reader) {
      try {
        if (files.modified_s(path) + kLeaseSeconds < now_s)
          leases.spent.push_back(path);
        else
          leases.readers[checkpoint] = "a process takes or gives up a lease of it";
      } catch (const Error&) {  // it is gone
      }
      continue;
    }
    if (reader->until_s < now_s || presence_of(reader->who) == Presence::kGone) {
      leases.spent.push_back(path);
      continue;
    }
    leases.readers[checkpoint] =
        fmt::format("process {} on {} reads it, until {} at most", reader->who.process, reader->who.host,
                    wall_time_text(reader->until_s));
  }
  return leases;
}

}  // namespace longhaul::storage
