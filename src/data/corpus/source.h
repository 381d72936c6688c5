// Sources of text. A source is a folder (every text file below it, including linked folders, in bytewise
// order of the relative path), one file, a JSON Lines file (one document per line), or the word "libtorch"
// (real text on every machine with Longhaul: the Python sources of the LibTorch that is used, or its C++
// headers when it has no Python). Any file may be compressed (.gz, .zst, .xz).
//
// Files named .jsonl and .ndjson are JSON Lines; a .json file is JSON Lines if it begins like them, and an
// array of objects is read as their rows (data/corpus/json_rows.h). If such rows have no string field named
// jsonl_field, a source that contains nothing else is refused; in a folder with other files they are read as
// text, which is logged.
//
// A .parquet or .arrow file is a table with one document per row, the string in the column jsonl_field. In a
// folder that Hugging Face `datasets` saved, only the .arrow files are read.
//
// With data.loss_on a row's document has parts, which say what their tokens weigh in the loss.
//
// Documents are streamed in chunks, so the memory does not depend on the size of the input, of a line or of a
// document. Bytes are kept as they are, including bad UTF-8. Left out are hidden files and folders (".git")
// in a folder, and files that are not text (data/corpus/text_check.h). Paths and names may be any bytes; a
// source's name is the text of its path (base/text/path_text.h). A Source is immutable, and several threads
// may read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/sections/data_options.h"

namespace longhaul::data {

struct SourceOptions {
  // In a folder, only files with these endings (before .gz, .zst or .xz); empty: all.
  std::vector<std::string> endings;
  std::string jsonl_field = "text";  // the string field of each line that is the document
  // Of JSON rows, which tokens count in the loss: what DocumentSink::weight() is called with.
  recipe::LossOn loss_on = recipe::LossOn::kAll;
  // JSON Lines: count and skip bad lines; false: the first one is an error that names file:line.
  bool skip_bad_lines = false;
  bool keep_binary = false;  // read files that are not text too
  // The meaning of "libtorch": the folder that contains LibTorch's include/ and lib/.
  std::filesystem::path libtorch_folder;

  // The key that a row must have.
  std::string row_key() const { return loss_on == recipe::LossOn::kCompletion ? "completion" : jsonl_field; }
};

struct SourceFile {
  std::filesystem::path path;
  std::string name;   // relative to the source's root, with '/'
  int64_t bytes = 0;  // size on the disk
  int64_t modified_ns = 0;
  // one document per row: .jsonl, .ndjson, or a .json that begins like them
  bool json_lines = false;
  bool json_array = false;  // the rows are the elements of one array
  // .parquet or .arrow, if the program can read them (data/corpus/table_file.h)
  bool table = false;
  bool many() const { return json_lines || table; }  // several documents in one file
};

// DocumentInfo: a document is identified by its file's name, or by "name:line" in JSON Lines and tables;
// lines and rows count from 1.
struct DocumentInfo {
  size_t file = 0;
  int64_t line = 0;  // 0: the whole file
  std::string identity;
};

// DocumentSink: the calls come in the order begin, text*, end. begin returns false to skip the document.
class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual bool begin(const DocumentInfo& document) = 0;
  virtual void text(std::string_view chunk) = 0;
  // What the text that follows weighs in the loss; a document begins with 1.
  virtual void weight(float) {}
  virtual void end() = 0;
  // Only with skip_bad_lines. A line that is scanned in pieces is known to be bad only after begin() and some
  // of its text; these are then void, and end() is not called.
  virtual void bad_line(const DocumentInfo& document, const std::string& where, const std::string& reason);
  // Called instead of begin() for the file's document.
  virtual void not_text(size_t file, const std::string& reason);
};

class Source {
 public:
  // `source` as in a recipe: base/text/path_text.h. kData: missing, unreadable, or no suitable file.
  static Source open(const std::string& source, const SourceOptions& options);

  const std::vector<SourceFile>& files() const { return files_; }
  const std::string& name() const { return name_; }
  int64_t bytes() const;  // size of all files on the disk
  // A hash of some bytes of the files (data/corpus/content_sample.h), which detects other texts with the same
  // names, sizes and times.
  const std::string& sample() const { return sample_; }

  // Streams the documents of one file. `progress` gets the number of bytes read from the disk since its last
  // call. In JSON Lines, lines up to and including `after_line` are skipped.
  void read(size_t file, DocumentSink& sink, int64_t after_line = 0,
            const std::function<void(int64_t)>& progress = {}) const;

 private:
  std::string name_, sample_;
  SourceOptions options_;
  std::vector<SourceFile> files_;
};

}  // namespace longhaul::data
