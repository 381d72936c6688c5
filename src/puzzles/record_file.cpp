#include "puzzles/record_file.h"

#include <utility>

#include "base/error.h"
#include "base/process/process.h"
#include "base/process/signals.h"
#include "data/corpus/byte_stream.h"
#include "puzzles/record_table.h"

namespace longhaul::puzzles {
namespace {

constexpr size_t kLongestLine = 64 << 20;  // bytes
constexpr size_t kWrittenAtOnce = 1 << 20;

// Calls give(line, number) for lines that are not blank.
void each_line(const std::filesystem::path& path,
               const std::function<void(const std::string& line, int64_t number)>& give) {
  const auto stream = data::open_stream(path);
  std::string line;
  std::vector<char> chunk(1 << 16);
  int64_t number = 1;
  const auto end_of_line = [&] {
    if (line.find_first_not_of(" \t\r") != std::string::npos) give(line, number);
    line.clear();
    ++number;
  };
  while (const size_t bytes = stream->read(chunk)) {
    throw_if_stop_requested("reading puzzles");
    for (std::string_view rest(chunk.data(), bytes); !rest.empty();) {
      const size_t end = rest.find('\n');
      line += rest.substr(0, end);
      if (line.size() > kLongestLine)
        throw Error({.code = ExitCode::kData,
                     .what = "a line is too long for a puzzle",
                     .expected = fmt::format("at most {} bytes", kLongestLine),
                     .where = fmt::format("{}:{}", path.string(), number)});
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
      end_of_line();
    }
  }
  end_of_line();
}

}  // namespace

RecordFormat format_to_write(const std::string& path, bool generator) {
  if (path.ends_with(".parquet") && !generator) {
    if (can_use_tables()) return RecordFormat::kTable;
    throw Error({.code = ExitCode::kUsage,
                 .what = "this program was built without Arrow, which writes Parquet",
                 .expected = "FILE.jsonl",
                 .found = path,
                 .hint = "build with -DLONGHAUL_ARROW=$(scripts/fetch-arrow), or write JSON Lines"});
  }
  if (path.ends_with(".jsonl")) return generator ? RecordFormat::kGeneratorLines : RecordFormat::kLines;
  throw Error({.code = ExitCode::kUsage,
               .what = "puzzles are not written into such a file",
               .expected = generator ? "FILE.jsonl" : "FILE.jsonl (JSON Lines) or FILE.parquet",
               .found = path});
}

void each_record(const std::filesystem::path& path, const TaskEntry* of_generator,
                 const std::function<void(ReadRecord&& record, const std::string& where)>& give) {
  if (path.extension() == ".parquet") {
    each_table_row(path, [&](int64_t row, const nlohmann::json& columns) {
      const std::string where = fmt::format("{}, row {}", path.string(), row);
      nlohmann::json whole = columns;
      if (whole.contains("knobs") && whole["knobs"].is_string())
        whole["knobs"] = nlohmann::json::parse(whole["knobs"].get<std::string>(), nullptr, false);
      give(read_row(whole, where), where);
    });
    return;
  }
  each_line(path, [&](const std::string& line, int64_t number) {
    const std::string where = fmt::format("{}:{}", path.string(), number);
    give(read_record(line, where, of_generator), where);
  });
}

RecordWriter::RecordWriter(std::filesystem::path path, RecordFormat format)
    : path_(std::move(path)), temporary_(path_), format_(format) {
  temporary_ += fmt::format(".{}.tmp", process_id());
  file_ = File::open(temporary_, File::Mode::kCreate);
  if (format_ == RecordFormat::kTable) table_ = std::make_unique<TableWriter>(file_);
}

RecordWriter::~RecordWriter() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
}

void RecordWriter::write(const nlohmann::ordered_json& columns) {
  LONGHAUL_ASSERT(format_ != RecordFormat::kGeneratorLines, "columns are no generator's line");
  ++rows_;
  if (table_) return table_->write(columns);
  write_line(columns);
}

void RecordWriter::write(const ReadRecord& record) {
  if (format_ != RecordFormat::kGeneratorLines) return write(record.columns);
  if (only_task_ != nullptr && only_task_ != record.task)
    throw Error({.code = ExitCode::kUsage,
                 .what = "lines of a public generator do not tell their task, so a file holds one",
                 .expected = fmt::format("puzzles of {} alone", only_task_->key),
                 .found = fmt::format("also {}", record.task->key),
                 .where = path_.string(),
                 .hint = fmt::format("take one of them: --only {}", only_task_->key)});
  only_task_ = record.task;
  ++rows_;
  write_line(generator_object(record));
}

void RecordWriter::write_line(const nlohmann::ordered_json& line) {
  buffer_ += line.dump() + "\n";
  if (buffer_.size() < kWrittenAtOnce) return;
  file_.write(buffer_);
  buffer_.clear();
}

void RecordWriter::finish() {
  if (table_) table_->finish();
  file_.write(buffer_);
  file_.sync();
  file_.close();
  rename_path(temporary_, path_);
  temporary_.clear();
}

}  // namespace longhaul::puzzles
