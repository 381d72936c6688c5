#include "data/corpus/source.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/process/signals.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "data/corpus/byte_stream.h"
#include "data/corpus/content_sample.h"
#include "data/corpus/corpus_folder.h"
#include "data/corpus/json_lines.h"
#include "data/corpus/json_rows.h"
#include "data/corpus/table_file.h"
#include "data/corpus/text_check.h"

namespace longhaul::data {
namespace fs = std::filesystem;
namespace {

constexpr size_t kTextChunkBytes = 1 << 20;

struct JsonRowsWithoutField {
  fs::path path;
  std::string first;  // how the first row begins
};

bool ending_fits(std::string_view name, const std::vector<std::string>& endings) {
  const std::string_view plain = without_compression(name);
  return endings.empty() || std::any_of(endings.begin(), endings.end(),
                                        [&](const std::string& e) { return plain.ends_with(e); });
}

// `lacking` gets the files of rows without the field.
SourceFile describe(const fs::path& path, std::string name, const SourceOptions& options,
                    std::vector<JsonRowsWithoutField>& lacking) {
  std::error_code problem;
  const auto size = fs::file_size(path, problem);
  const auto time = problem ? fs::file_time_type{} : fs::last_write_time(path, problem);
  if (problem) {
    throw Error({.code = ExitCode::kData,
                 .what = "cannot read a file of the corpus",
                 .found = problem.message(),
                 .where = path.string()});
  }
  const std::string_view plain = without_compression(name);
  bool json_lines = ends_with_in_any_case(plain, ".jsonl") || ends_with_in_any_case(plain, ".ndjson");
  bool json_array = false;
  if (ends_with_in_any_case(plain, ".json")) {
    const JsonRows rows = json_rows_of(path, options.row_key(), options.loss_on == recipe::LossOn::kParts);
    const bool some = rows.kind != JsonRows::Kind::kNone;
    if (some && !rows.has_field) lacking.push_back({path, rows.first});
    json_lines = some && rows.has_field;
    json_array = json_lines && rows.kind == JsonRows::Kind::kArray;
  }
  const auto modified = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  const bool table = is_table(name) && can_read_tables();
  return {path, std::move(name), static_cast<int64_t>(size), modified, json_lines, json_array, table};
}

// If a source has nothing but rows of another form, nobody means to train on them as text; among other files
// they may be meant (a program's sources with its data).
void judge_rows_without_field(const std::vector<JsonRowsWithoutField>& lacking, size_t files,
                              const std::string& field) {
  if (lacking.empty()) return;
  if (lacking.size() < files) {
    log_warning(
        "{} JSON rows without a string \"{}\" and is read as text, one document a file (data.jsonl_field "
        "names the key of documents): {}",
        lacking.size() == 1 ? "1 file holds" : fmt::format("each of {} files holds", lacking.size()), field,
        lacking.front().path.string());
    return;
  }
  throw Error({.code = ExitCode::kData,
               .what = "the rows of a JSON file are not documents",
               .expected = fmt::format("a string \"{}\" in each, as data.jsonl_field says", field),
               .found = lacking.front().first,
               .where = lacking.front().path.string(),
               .hint = "data.jsonl_field=KEY names the key that holds a document; rows of several texts must "
                       "be joined into one first"});
}

// A table that is requested by name, or as a data set, and cannot be read.
void require_readable(const fs::path& path) {
  if (is_table(path.filename().string()) && !can_read_tables()) read_table(path, "", 0, {});
}

std::vector<SourceFile> files_below(const fs::path& root, std::vector<std::string> endings,
                                    const SourceOptions& options) {
  if (fs::exists(root / "dataset_dict.json")) {  // of Hugging Face `datasets`: splits below it
    throw Error({.code = ExitCode::kData,
                 .what = "this folder holds several splits of a data set",
                 .expected = "one of them",
                 .found = "dataset_dict.json",
                 .where = root.string(),
                 .hint = "data.source=" + (root / "train").string()});
  }
  if (fs::exists(root / "dataset_info.json") && fs::exists(root / "state.json")) {
    endings = {".arrow"};
    walk_corpus_folder(root, [](const fs::path& path) { return require_readable(path), true; });
  }
  std::vector<SourceFile> files;
  std::vector<JsonRowsWithoutField> lacking;
  const DeadLinks dead = walk_corpus_folder(root, [&](const fs::path& path) {
    std::string name = path.lexically_relative(root).generic_string();
    if (ending_fits(name, endings)) files.push_back(describe(path, std::move(name), options, lacking));
    return true;
  });
  if (dead.count > 0) {
    log_warning("{} of the corpus lead nowhere and are left out, {} first", counted(dead.count, "link"),
                dead.first.string());
  }
  std::ranges::sort(lacking, {}, &JsonRowsWithoutField::path);
  judge_rows_without_field(lacking, files.size(), options.row_key());
  // Sorted by the name, not by the path, so that the order does not depend on the folder's location.
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
  return files;
}

std::vector<SourceFile> libtorch_files(const SourceOptions& options) {
  if (options.libtorch_folder.empty() || !fs::is_directory(options.libtorch_folder)) {
    throw Error({.code = ExitCode::kData,
                 .what = "the source \"libtorch\" needs LibTorch's folder",
                 .found = options.libtorch_folder.empty() ? "no LibTorch" : "no such folder",
                 .where = options.libtorch_folder.string(),
                 .hint = "set data.source to a folder of text"});
  }
  // scripts/package keeps only lib/ of LibTorch, and its texts: these are there under the names that they
  // have in the wheel.
  const fs::path packaged = options.libtorch_folder / "share" / "libtorch-python";
  const fs::path& root = fs::is_directory(packaged) ? packaged : options.libtorch_folder;
  std::vector<SourceFile> files = files_below(root, {".py"}, options);
  return files.empty() ? files_below(root, {".h"}, options) : files;
}

// Row by row. A row without a string is a bad line.
void read_table_file(const SourceFile& file, size_t index, const SourceOptions& options, int64_t after,
                     DocumentSink& sink) {
  read_table(file.path, options.jsonl_field, after, [&](int64_t row, const std::string_view* text) {
    const DocumentInfo document{index, row, fmt::format("{}:{}", file.name, row)};
    if (text == nullptr) {
      const std::string where = fmt::format("{}:{}", file.path.string(), row);
      if (options.skip_bad_lines) return sink.bad_line(document, where, "no string");
      throw Error({.code = ExitCode::kData,
                   .what = "a row of the corpus has no text",
                   .expected = fmt::format("a string in column \"{}\"", options.jsonl_field),
                   .found = "null",
                   .where = where,
                   .hint = "data.skip_bad_lines=true leaves such rows out"});
    }
    if (!sink.begin(document)) return;
    if (!text->empty()) sink.text(*text);
    sink.end();
  });
}

void read_text_file(ByteStream& stream, const DocumentInfo& document, bool keep_binary, DocumentSink& sink,
                    const std::function<void()>& advance) {
  std::vector<char> buffer(kTextChunkBytes);
  size_t filled = 0;
  while (filled < kTextCheckBytes) {
    const size_t got = stream.read(std::span(buffer).subspan(filled));
    if (got == 0) break;
    filled += got;
  }
  if (!keep_binary) {
    const std::string reason = why_not_text({buffer.data(), std::min(filled, kTextCheckBytes)});
    if (!reason.empty()) return sink.not_text(document.file, reason);
  }
  if (!sink.begin(document)) return;
  for (; filled > 0; filled = stream.read(buffer)) {
    sink.text({buffer.data(), filled});
    advance();
  }
  sink.end();
}

}  // namespace

void DocumentSink::bad_line(const DocumentInfo&, const std::string&, const std::string&) {}
void DocumentSink::not_text(size_t, const std::string&) {}

Source Source::open(const std::string& source, const SourceOptions& options) {
  Source result;
  const fs::path path = path_of_text(source);
  result.name_ = text_of_path(path);
  result.options_ = options;
  std::error_code problem;
  if (source == "libtorch") {
    result.files_ = libtorch_files(options);
  } else if (fs::is_directory(path, problem)) {
    result.files_ = files_below(path, options.endings, options);
  } else if (fs::exists(path, problem)) {
    File::open(path, File::Mode::kRead, ExitCode::kData);  // refuses what cannot be read, with the reason
    require_readable(path);
    std::vector<JsonRowsWithoutField> lacking;
    result.files_.push_back(describe(path, path.filename().generic_string(), options, lacking));
    judge_rows_without_field(lacking, 1, options.row_key());
  } else {
    throw Error(
        {.code = ExitCode::kData,
         .what = "cannot read the corpus",
         .expected =
             "a folder of text, a file, a .jsonl file (any of them .gz, .zst or .xz), or the word libtorch",
         .found = problem ? problem.message() : "no such file or folder",
         .where = path.is_absolute()
                      ? path.string()
                      : fmt::format("{}, that is {}", path.string(), fs::absolute(path).string()),
         .hint = "name an existing path; one that contains a comma as '[\"a,b\"]'"});
  }
  if (result.files_.empty()) {
    std::string endings;
    for (const std::string& e : options.endings) endings += (endings.empty() ? "" : ", ") + e;
    throw Error({.code = ExitCode::kData,
                 .what = "the corpus is empty",
                 .expected = endings.empty() ? "at least one file with text"
                                             : "at least one file that ends with " + endings,
                 .found = "no file that fits",
                 .where = source,
                 .hint = "set data.source to a folder that holds text"});
  }
  std::vector<fs::path> paths;
  for (const SourceFile& file : result.files_) paths.push_back(file.path);
  result.sample_ = content_sample(paths);
  return result;
}

int64_t Source::bytes() const {
  return std::accumulate(files_.begin(), files_.end(), int64_t{0},
                         [](int64_t sum, const SourceFile& f) { return sum + f.bytes; });
}

void Source::read(size_t file, DocumentSink& sink, int64_t after_line,
                  const std::function<void(int64_t)>& progress) const {
  LONGHAUL_ASSERT(file < files_.size(), "file {} of {}", file, files_.size());
  const SourceFile& entry = files_[file];
  if (entry.table) {
    read_table_file(entry, file, options_, after_line, sink);
    if (progress) progress(entry.bytes);
    return;
  }
  auto stream = open_stream(entry.path);
  if (entry.json_array) stream = lines_of_json_array(std::move(stream), entry.path);
  int64_t reported = 0;
  const auto advance = [&] {
    throw_if_stop_requested("reading the corpus");
    if (progress) progress(stream->consumed_bytes() - reported);
    reported = stream->consumed_bytes();
  };
  if (entry.bytes > 0 || !entry.json_lines) {
    if (entry.bytes == 0) {  // an empty file is an empty document, whatever its ending
      if (sink.begin({file, 0, entry.name})) sink.end();
    } else if (entry.json_lines) {
      read_json_lines(*stream,
                      {.file = file,
                       .name = entry.name,
                       .path = entry.path.string(),
                       .field = options_.row_key(),
                       .loss_on = options_.loss_on,
                       .skip_bad_lines = options_.skip_bad_lines,
                       .after_line = after_line},
                      sink, advance);
    } else {
      read_text_file(*stream, {file, 0, entry.name}, options_.keep_binary, sink, advance);
    }
  }
  if (progress) progress(entry.bytes - reported);  // also the bytes of a skipped document that were not read
}

}  // namespace longhaul::data
