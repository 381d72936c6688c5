// The event stream of one process: it is appended to a JSON-lines file and passed to readers (terminal,
// TensorBoard, …).
//
//   EventWriter log({.path = run_folder / "events.jsonl"});
//   log.add(terminal_reader);
//   log.write(StepReport{.step = 1, …});
//   for (const Event& event : read_events(run_folder / "events.jsonl")) …
//
// Thread-safe: write() may be called from any thread; readers get events one at a time, in file order. A file
// has one writer: a second process that opens it is refused. Neither a full disk nor a failing reader stops
// the caller; each is reported once.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "observe/events/event.h"

namespace longhaul::observe {

class EventReader {
 public:
  virtual ~EventReader() = default;
  virtual void on(const Event& event) = 0;
};

struct EventWriterOptions {
  std::filesystem::path path;  // events.jsonl of rank 0; events/<role>-<n>.jsonl of the others
  std::string run;             // empty: the one in the file, else a new one
  // 0: the one that claim_generation returns; without it, one more than the file's last.
  int64_t generation = 0;
  // Gets the file's last generation and returns a higher one that no other process has. Where checkpoints are
  // shared, the file alone cannot determine it.
  std::function<int64_t(int64_t last)> claim_generation;
  int64_t rank = 0;
};

class EventWriter {
 public:
  // Cuts off a torn last line (from a crash in the middle of a write). Run and generation come from the first
  // and the last readable line; Error 65 where no line is readable.
  explicit EventWriter(EventWriterOptions options);

  void add(std::shared_ptr<EventReader> reader);
  void write(EventBody body);

  // Called by a process that has slept (SIGSTOP, a suspended machine): Error 76 if the file or lock has been
  // replaced, or if a later generation has written meanwhile.
  void require_still_ours() const;

  const std::filesystem::path& path() const { return file_.path(); }
  const std::string& run() const { return common_.run; }
  int64_t generation() const { return common_.generation; }
  int64_t events_lost() const;  // number of events that could not be written

 private:
  struct Reader {
    std::shared_ptr<EventReader> reader;
    bool failed = false;
  };
  void write_locked(EventBody body);
  void tell_what_was_lost();
  bool append(const Event& event);
  void hand_out(const Event& event);

  mutable std::mutex mutex_;
  std::unique_ptr<FileLock> lock_;
  File file_;
  int64_t good_bytes_ = 0;  // length of the complete lines
  bool torn_ = false;       // bytes after them are still to be cut off
  Common common_;
  std::vector<Reader> readers_;
  int64_t lost_ = 0, lost_now_ = 0;
  std::optional<int64_t> first_lost_step_, last_lost_step_;  // of those that are lost now
};

// Calls `body` for every event of a file, in order. A torn last line is left out. A line damaged elsewhere
// (by a bad disk) is skipped, with one warning that counts such lines and names the first. Events with
// unknown names are skipped.
void for_each_event(const std::filesystem::path& path, const std::function<void(const Event&)>& body);
std::vector<Event> read_events(const std::filesystem::path& path);

// The events.jsonl of a run folder, or the file itself. Error 65 that names both when there is neither.
std::filesystem::path events_file(const std::filesystem::path& run);

}  // namespace longhaul::observe
