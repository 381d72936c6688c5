#include "puzzles/calibrate/journal.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/path_text.h"

namespace longhaul::puzzles {

CalibrationJournal::CalibrationJournal(const std::filesystem::path& path,
                                       const nlohmann::ordered_json& settings)
    : path_(path) {
  std::string text = std::filesystem::exists(path) ? read_text(path) : "";
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  if (text.empty()) {
    text = settings.dump() + "\n";
    write_text_atomically(path, text);
  }
  read(text, settings);
  file_ = File::open(path, File::Mode::kReadWrite);
  file_.truncate(static_cast<int64_t>(text.size()));
  file_ = File::open(path, File::Mode::kAppend);
}

void CalibrationJournal::read(const std::string& text, const nlohmann::ordered_json& settings) {
  int64_t number = 0;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = text.find('\n', at);
    const auto line =
        nlohmann::ordered_json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                      text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    at = end + 1;
    if (number == 0 && line != settings)
      throw Error({.code = ExitCode::kUsage,
                   .what = "an unfinished calibration with other settings is there",
                   .expected = settings.dump(),
                   .found = line.is_discarded() ? "something else" : line.dump(),
                   .where = text_of_path(path_),
                   .hint = "go on with its settings, or take another --out, or remove this file"});
    if (number == 0) continue;
    const bool whole =
        line.is_array() && line.size() == 6 && line[0].is_string() &&
        std::all_of(line.begin() + 1, line.end(), [](const auto& each) { return each.is_number_integer(); });
    if (!whole)
      throw Error({.code = ExitCode::kData,
                   .what = "unusable journal of a calibration",
                   .expected = "[\"task\", level, index, answers, accepted, strict_format]",
                   .where = fmt::format("{}:{}", text_of_path(path_), number + 1),
                   .hint = "remove the file to begin anew"});
    finished_[{line[0].get<std::string>(), line[1].get<int64_t>(), line[2].get<int64_t>()}] = {
        line[3].get<int64_t>(), line[4].get<int64_t>(), line[5].get<int64_t>()};
  }
}

void CalibrationJournal::add(const PuzzleName& name, const FinishedPuzzle& puzzle) {
  const nlohmann::ordered_json line = {std::get<0>(name), std::get<1>(name), std::get<2>(name),
                                       puzzle.answers,    puzzle.accepted,   puzzle.strict_format};
  const std::lock_guard hold(mutex_);
  file_.write(line.dump() + "\n");
  file_.sync();
}

}  // namespace longhaul::puzzles
