// JournalFile: RUN/control/journal.jsonl on disk. When flush() returns, the entries given to append() are on
// disk, or they wait in memory because the disk accepts no writes: a full disk stops no run. In that case
// problem() says so, and every flush() tries again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "control/journal.h"

namespace longhaul::control {

class JournalFile {
 public:
  // Cuts off a torn last line. Error 73 where the file can neither be read nor created.
  explicit JournalFile(const std::filesystem::path& path);

  // The entries that the file held at the start; call it once.
  std::vector<JournalEntry> take_entries() { return std::move(entries_); }
  void append(const JournalEntry& entry) { waiting_ += to_line(entry); }
  void flush();
  const std::string& problem() const { return problem_; }  // empty: everything is on disk

 private:
  File file_;
  int64_t whole_bytes_ = 0;
  std::vector<JournalEntry> entries_;
  std::string waiting_, problem_;
};

}  // namespace longhaul::control
