// Files of puzzles: rows as JSON Lines (FILE.jsonl) or Parquet (FILE.parquet), and the JSON Lines of public
// generators, whose lines do not tell their task.
//
//   each_record("puzzles.parquet", nullptr, [&](ReadRecord&& record, const std::string& where) { … });
//   RecordWriter writer("copy.jsonl", RecordFormat::kLines);
//   writer.write(record.columns);
//   // until then there is no copy.jsonl, or the one of before
//   writer.finish();
//
// JSON Lines may be compressed (.gz, .zst, .xz) where they are read. Every error names the file and the line
// or row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/files/file.h"
#include "puzzles/records.h"

namespace longhaul::puzzles {

enum class RecordFormat : uint8_t { kLines, kGeneratorLines, kTable };

// by the ending; kUsage: another one, or no Arrow in this program
RecordFormat format_to_write(const std::string& path, bool generator);

// `of_generator`: the task of lines that do not tell theirs.
void each_record(const std::filesystem::path& path, const TaskEntry* of_generator,
                 const std::function<void(ReadRecord&& record, const std::string& where)>& give);

class TableWriter;

// The file has another name until finish(), so that what a killed process leaves is never taken for a whole
// one; the destructor removes it.
class RecordWriter {
 public:
  RecordWriter(std::filesystem::path path, RecordFormat format);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  void write(const nlohmann::ordered_json& columns);
  void write(const ReadRecord& record);  // also as kGeneratorLines, where all rows must be of one task
  void finish();                         // on disk under its name when it returns
  int64_t rows() const { return rows_; }

 private:
  void write_line(const nlohmann::ordered_json& line);
  std::filesystem::path path_, temporary_;
  RecordFormat format_;
  File file_;
  std::unique_ptr<TableWriter> table_;
  std::string buffer_;
  const TaskEntry* only_task_ = nullptr;  // of kGeneratorLines
  int64_t rows_ = 0;
};

}  // namespace longhaul::puzzles
