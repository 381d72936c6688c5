// Sources: where text comes from. A source is a folder (every text file below it, linked folders too, in bytewise order of the relative
// path), one file, a JSON Lines file (one document a line), or the word "libtorch" (real text that every machine with Longhaul has: the
// Python sources of the LibTorch in use, its C++ headers when it has no Python). Any file may be compressed (.gz, .zst, .xz).
//
// .jsonl and .ndjson are JSON Lines by their names; a .json file is where it begins so, and one that is an array of objects is read as
// their rows (data/corpus/json_rows.h). Where such rows have no string of the name that jsonl_field says, a source that holds nothing else is
// refused; in a folder with other files they are read as text, and the log says so.
//
// A .parquet or .arrow file is a table: one document a row, the string in the column that jsonl_field names. Of a folder that Hugging Face
// `datasets` saved only its .arrow files are read.
//
// Documents are streamed in chunks, so memory does not depend on the input: not on its size, nor on one huge line or document.
// Bytes are kept as they are, bad UTF-8 included. Left out are hidden files and folders (".git") inside a folder, and files that
// are not text (data/corpus/text_check.h). Paths and names may be any bytes; a source's name is the text of its path (base/text/path_text.h).
// A Source is immutable and may be read from several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::data {

struct SourceOptions {
  std::vector<std::string> endings;       // of a folder, only files whose names end so (before .gz, .zst or .xz); empty: all
  std::string jsonl_field = "text";       // which string of each line is the document
  bool skip_bad_lines = false;            // JSON Lines: count bad lines and go on; false: the first is an error naming file:line
  bool keep_binary = false;               // files that are not text are read all the same
  std::filesystem::path libtorch_folder;  // what "libtorch" stands for: the folder that holds LibTorch's include/ and lib/
};

struct SourceFile {
  std::filesystem::path path;
  std::string name;   // relative to the source's root, with '/'
  int64_t bytes = 0;  // on the disk
  int64_t modified_ns = 0;
  bool json_lines = false;                           // one document a row: .jsonl, .ndjson, or a .json that begins so
  bool json_array = false;                           // and the rows are the elements of one array
  bool table = false;                                // .parquet or .arrow, where the program can read them (data/corpus/table_file.h)
  bool many() const { return json_lines || table; }  // documents in one file
};

// A document's identity is its file's name, or "name:line" in JSON Lines and tables; lines, or rows, count from 1.
struct DocumentInfo {
  size_t file = 0;
  int64_t line = 0;  // 0: the whole file
  std::string identity;
};

// Calls come in the order begin, text*, end. begin returns false to skip the document.
class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual bool begin(const DocumentInfo& document) = 0;
  virtual void text(std::string_view chunk) = 0;
  virtual void end() = 0;
  // Only with skip_bad_lines. A line too long to be looked at whole is known to be bad only after begin() and some text of it, which
  // are void then: end() does not come.
  virtual void bad_line(const DocumentInfo& document, const std::string& where, const std::string& reason);
  virtual void not_text(size_t file, const std::string& reason);  // instead of the file's document
};

class Source {
 public:
  // `source` as in a recipe: base/text/path_text.h. kData: missing, unreadable, no file that fits.
  static Source open(const std::string& source, const SourceOptions& options);

  const std::vector<SourceFile>& files() const { return files_; }
  const std::string& name() const { return name_; }
  int64_t bytes() const;  // of all files on the disk
  // A hash of some bytes of the files (data/corpus/content_sample.h): other texts under the same names, sizes and times are noticed.
  const std::string& sample() const { return sample_; }

  // Streams the documents of one file. progress gets the number of bytes read from the disk since the last call.
  // JSON Lines: lines up to and including `after_line` are passed over.
  void read(size_t file, DocumentSink& sink, int64_t after_line = 0, const std::function<void(int64_t)>& progress = {}) const;

 private:
  std::string name_, sample_;
  SourceOptions options_;
  std::vector<SourceFile> files_;
};

}  // namespace longhaul::data
