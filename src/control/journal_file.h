// JournalFile: RUN/control/journal.jsonl on disk. What append() was given is there when flush() returns, or waits in memory while the disk
// takes nothing: a full disk stops no run. Then problem() says so, and every flush() tries again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "control/journal.h"

namespace longhaul::control {

class JournalFile {
 public:
  // Cuts off a torn last line. Error 73 where it can neither be read nor made.
  explicit JournalFile(const std::filesystem::path& path);

  std::vector<JournalEntry> take_entries() { return std::move(entries_); }  // those that were there; once
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
