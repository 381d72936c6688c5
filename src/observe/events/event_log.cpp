#include "observe/events/event_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/text/text.h"

namespace longhaul::observe {
namespace {

constexpr int64_t kLongestLine = 16 << 20;
constexpr int64_t kReadChunk = 1 << 16;

std::string read_range(const File& file, int64_t begin, int64_t end) {
  std::string text(static_cast<size_t>(end - begin), '\0');
  file.read_exactly(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

// The end of the line that contains or follows `from`: the offset of its newline, or -1.
int64_t find_newline(const File& file, int64_t from, int64_t size) {
  for (int64_t begin = from; begin < size; begin += kReadChunk) {
    const auto found = read_range(file, begin, std::min(size, begin + kReadChunk)).find('\n');
    if (found != std::string::npos) return begin + static_cast<int64_t>(found);
  }
  return -1;
}

// The offset just after the last newline before `end`; 0 when there is none.
int64_t after_last_newline(const File& file, int64_t end) {
  for (int64_t stop = end; stop > 0;) {
    const int64_t begin = std::max<int64_t>(0, stop - kReadChunk);
    const auto found = read_range(file, begin, stop).rfind('\n');
    if (found != std::string::npos) return begin + static_cast<int64_t>(found) + 1;
    stop = begin;
  }
  return 0;
}

Common common_of(const File& file, int64_t begin, int64_t end, std::string_view which) {
  const std::string where = fmt::format("{}, {} line", file.path().string(), which);
  if (end - begin > kLongestLine) {
    throw Error({.code = ExitCode::kData,
                 .what = "cannot read the event stream",
                 .expected = "lines of at most 16 MiB",
                 .found = fmt::format("{} bytes", end - begin),
                 .where = where});
  }
  return common_from_json(read_range(file, begin, end), where);
}

// From the first and the last readable line; damaged lines before and after are skipped. `end`: just after a
// line's end.
Common first_common(const File& file, int64_t end) {
  for (int64_t begin = 0;;) {
    const int64_t newline = find_newline(file, begin, end);
    try {
      return common_of(file, begin, newline, "first");
    } catch (const Error&) {
      if (newline + 1 >= end) throw;
    }
    begin = newline + 1;
  }
}

Common last_common(const File& file, int64_t end) {
  for (;;) {
    const int64_t begin = after_last_newline(file, end - 1);
    try {
      return common_of(file, begin, end - 1, "last");
    } catch (const Error&) {
      if (begin == 0) throw;
    }
    end = begin;
  }
}

std::string new_run_name(double now_s) {
  std::string name = wall_time_text(now_s);
  std::erase_if(name, [](char c) { return c == '-' || c == ':' || c == 'Z'; });
  return fmt::format("{}-{:08x}", name,
                     static_cast<uint32_t>(xxh3(fmt::format("{} {}", machine().host, monotonic_ns()))));
}

}  // namespace

EventWriter::EventWriter(EventWriterOptions options) {
  if (options.path.has_parent_path()) make_folders(options.path.parent_path());
  lock_ = std::make_unique<FileLock>(options.path);
  file_ = File::open(options.path, File::Mode::kAppend);
  const File existing = File::open(options.path, File::Mode::kRead);
  const int64_t size = existing.size();
  good_bytes_ = after_last_newline(existing, size);
  if (good_bytes_ < size) {
    log_warning("{}: the last line was torn by a crash; its {} bytes are cut off", options.path.string(),
                size - good_bytes_);
    file_.truncate(good_bytes_);
  }
  Common first{.run = "", .generation = 0}, last = first;
  if (good_bytes_ > 0) {
    first = first_common(existing, good_bytes_);
    last = last_common(existing, good_bytes_);
  }
  common_.run = !options.run.empty() ? options.run
                : !first.run.empty() ? first.run
                                     : new_run_name(wall_time_s());
  common_.generation = options.generation > 0     ? options.generation
                       : options.claim_generation ? options.claim_generation(last.generation)
                                                  : last.generation + 1;
  common_.rank = options.rank;
}

void EventWriter::add(std::shared_ptr<EventReader> reader) {
  const std::lock_guard hold(mutex_);
  readers_.push_back({std::move(reader)});
}

void EventWriter::require_still_ours() const {
  const std::lock_guard hold(mutex_);
  const auto refuse = [&](std::string found) {
    throw Error(
        {.code = ExitCode::kFenced,
         .what = "this process slept, and its run was taken over or moved: it must not go on",
         .expected = fmt::format("the events of generation {}, locked by this process", common_.generation),
         .found = std::move(found),
         .where = file_.path().string(),
         .hint = "start the run again: it continues from its last checkpoint"});
  };
  if (!file_.is_at_its_path()) refuse("another file, or none");
  if (!lock_->is_at_its_path()) refuse("another lock file, or none");
  const File now = File::open(file_.path(), File::Mode::kRead, ExitCode::kFenced);
  const int64_t end = after_last_newline(now, now.size());
  if (end == 0) return;
  const int64_t newest = last_common(now, end).generation;
  if (newest > common_.generation) refuse(fmt::format("events of generation {}", newest));
}

int64_t EventWriter::events_lost() const {
  const std::lock_guard hold(mutex_);
  return lost_;
}

void EventWriter::write(EventBody body) {
  const std::lock_guard hold(mutex_);
  write_locked(std::move(body));
}

void EventWriter::write_locked(EventBody body) {
  common_.wall_time = wall_time_s();
  common_.monotonic_ns = monotonic_ns();
  const Event event{.common = common_, .body = std::move(body)};
  const bool written = append(event);
  hand_out(event);
  if (const auto* step = std::get_if<StepReport>(&event.body); !written && step != nullptr) {
    if (!first_lost_step_) first_lost_step_ = step->step;
    last_lost_step_ = step->step;
  }
  if (!written) ++lost_;
  if (!written && lost_now_++ == 0) {
    hand_out(
        {.common = common_,
         .body = Alarm{.kind = "events_lost",
                       .message = fmt::format("events cannot be written to {}; training goes on without them",
                                              file_.path().string())}});
  }
  if (written && lost_now_ > 0) tell_what_was_lost();
}

// When there is no room for this line either, what was lost is told after the next event that can be written.
void EventWriter::tell_what_was_lost() {
  const Event alarm{
      .common = common_,
      .body = Alarm{.kind = "events_lost",
                    .message = fmt::format("{} events before this one could not be written", lost_now_),
                    .first_step = first_lost_step_,
                    .last_step = last_lost_step_}};
  if (!append(alarm)) return;
  lost_now_ = 0;
  first_lost_step_.reset();
  last_lost_step_.reset();
  hand_out(alarm);
}

// One write per line: with O_APPEND a line is whole or missing, and a crash can only tear the last one.
bool EventWriter::append(const Event& event) {
  try {
    if (torn_) file_.truncate(good_bytes_);
    torn_ = false;
    const std::string line = to_json(event) + "\n";
    torn_ = true;  // until the write returns, because half a line may be there
    file_.write(line);
    torn_ = false;
    good_bytes_ += static_cast<int64_t>(line.size());
    return true;
  } catch (const Error& error) {
    if (lost_now_ == 0) log_error("training goes on, but its events are lost: {}", error.what());
    return false;
  }
}

void EventWriter::hand_out(const Event& event) {
  for (auto& [reader, failed] : readers_) {
    try {
      reader->on(event);
    } catch (const Error& error) {
      if (!failed) log_warning("training goes on, but a display of it failed: {}", error.what());
      failed = true;
    }
  }
}

namespace {

// Unreadable lines: in a file that was written for weeks, one bad line is no reason to lose the others.
class DamagedLines {
 public:
  explicit DamagedLines(const std::filesystem::path& path) : path_(path) {}
  void add(int64_t number, std::string reason) {
    if (count_++ > 0) return;
    first_ = number;
    reason_ = std::move(reason);
  }
  void tell() const {
    if (count_ == 0) return;
    log_warning("{}: {} cannot be read and {} skipped, the first is line {} ({})", path_.string(),
                counted(count_, "line"), count_ == 1 ? "is" : "are", first_, reason_);
  }

 private:
  const std::filesystem::path& path_;
  int64_t count_ = 0, first_ = 0;
  std::string reason_;
};

std::optional<Event> event_of(const std::string& line, const std::string& where, int64_t number,
                              DamagedLines& damaged) {
  try {
    return from_json(line, where);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kData) throw;
    damaged.add(number, error.fields().found);
    return std::nullopt;
  }
}

}  // namespace

void for_each_event(const std::filesystem::path& path, const std::function<void(const Event&)>& body) {
  const File file = File::open(path, File::Mode::kRead);
  DamagedLines damaged(path);
  std::string text(1 << 20, '\0');
  std::string line;  // the beginning of a line that crosses chunks
  bool too_long = false;
  int64_t offset = 0, number = 0;
  while (const size_t got = file.read_some(offset, std::as_writable_bytes(std::span(text)))) {
    offset += static_cast<int64_t>(got);
    for (std::string_view rest(text.data(), got); !rest.empty();) {
      const size_t newline = rest.find('\n');
      if (!too_long) line.append(rest.substr(0, newline));
      too_long = too_long || static_cast<int64_t>(line.size()) > kLongestLine;
      if (newline == std::string_view::npos) break;  // torn, unless the next chunk brings the rest
      ++number;
      if (too_long) {
        damaged.add(number, "more than 16 MiB");
      } else if (const auto event =
                     event_of(line, fmt::format("{}:{}", path.string(), number), number, damaged)) {
        body(*event);
      }
      line.clear();
      too_long = false;
      rest.remove_prefix(newline + 1);
    }
  }
  damaged.tell();
}

std::vector<Event> read_events(const std::filesystem::path& path) {
  std::vector<Event> events;
  for_each_event(path, [&](const Event& event) { events.push_back(event); });
  return events;
}

std::filesystem::path events_file(const std::filesystem::path& run) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(run, ignored)) return run;
  const auto file = run / "events.jsonl";
  if (std::filesystem::is_regular_file(file, ignored)) return file;
  throw Error({.code = ExitCode::kData,
               .what = "no run there",
               .expected = "a run folder with an events.jsonl, or such a file",
               .found = std::filesystem::exists(run, ignored) ? "a folder without events.jsonl"
                                                              : "no such file or folder",
               .where = run.string(),
               .hint = "name the folder given to train with --run"});
}

}  // namespace longhaul::observe
