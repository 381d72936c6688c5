// The journal of a calibration: a line with its settings, then a line for each finished puzzle, on disk
// before the next is begun. A last line without its end, as a killed process leaves it, is taken away.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "base/files/file.h"

namespace longhaul::puzzles {

struct FinishedPuzzle {
  int64_t answers = 0, accepted = 0, strict_format = 0;
};
using PuzzleName = std::tuple<std::string, int64_t, int64_t>;  // task, level, index

class CalibrationJournal {
 public:
  // kUsage where the file is another calibration's.
  CalibrationJournal(const std::filesystem::path& path, const nlohmann::ordered_json& settings);
  const std::map<PuzzleName, FinishedPuzzle>& finished() const { return finished_; }
  void add(const PuzzleName& name, const FinishedPuzzle& puzzle);  // any thread

 private:
  void read(const std::string& text, const nlohmann::ordered_json& settings);

  std::filesystem::path path_;
  std::map<PuzzleName, FinishedPuzzle> finished_;  // those that were there
  std::mutex mutex_;                               // of file_
  File file_;
};

}  // namespace longhaul::puzzles
