#include "control/journal_file.h"

namespace longhaul::control {

JournalFile::JournalFile(const std::filesystem::path& path) {
  const bool there = std::filesystem::exists(path);
  if (there) {
    Journal journal = journal_from_text(read_text(path), path.string());
    entries_ = std::move(journal.entries);
    whole_bytes_ = journal.whole_bytes;
  }
  file_ = File::open(path, File::Mode::kReadWrite);
  if (file_.size() > whole_bytes_) file_.truncate(whole_bytes_);
  if (!there) sync_folder(path.parent_path());
}

void JournalFile::flush() {
  if (waiting_.empty()) return;
  try {
    // Writes at a fixed offset, so that the remains of a failed attempt are overwritten.
    file_.write_at(whole_bytes_, std::as_bytes(std::span(waiting_.data(), waiting_.size())));
    file_.sync();
    whole_bytes_ += static_cast<int64_t>(waiting_.size());
    waiting_.clear();
    problem_.clear();
  } catch (const Error& error) {
    problem_ = error.what();
  }
}

}  // namespace longhaul::control
