#include "data/json_lines.h"

#include <simdjson.h>

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace longhaul::data {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class LineReader {
 public:
  LineReader(const JsonLinesOptions& options, DocumentSink& sink) : options_(options), sink_(sink) {}

  void piece(std::string_view bytes) {
    if (number_ <= options_.after_line) return;
    if (!scanner_ && line_.size() + bytes.size() <= options_.simdjson_limit_bytes) {
      line_ += bytes;
      return;
    }
    if (!scanner_) {
      open_scanner();
      scan(line_);
      line_.clear();
      line_.shrink_to_fit();
    }
    scan(bytes);
  }

  void end_of_line() {
    if (number_ > options_.after_line) {
      if (scanner_) {
        if (!scanner_->finish()) refuse_scanned();
        if (wanted_) sink_.end();
        scanner_.reset();
      } else {
        short_line();
      }
    }
    line_.clear();
    ++number_;
  }

 private:
  DocumentInfo document() const { return {options_.file, number_, fmt::format("{}:{}", options_.name, number_)}; }
  std::string where() const { return fmt::format("{}:{}", options_.path, number_); }

  void open_scanner() {
    wanted_ = false;
    scanner_ = std::make_unique<JsonTextScanner>(
        options_.field, [this] { wanted_ = sink_.begin(document()); },
        [this](std::string_view text) {
          if (wanted_) sink_.text(text);
        });
  }

  void scan(std::string_view bytes) {
    if (!scanner_->feed(bytes)) refuse_scanned();
  }

  // Part of the document may have been given out already and cannot be taken back, so this is an error even where bad lines
  // are to be skipped.
  [[noreturn]] void refuse_scanned() { refuse(scanner_->reason()); }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error({.code = ExitCode::kData,
                 .what = "bad line in a JSON Lines file",
                 .expected = fmt::format("a JSON object with a string \"{}\"", options_.field),
                 .found = reason,
                 .where = where(),
                 .hint = "mend the line, or name the right key with data.jsonl_field"});
  }

  void deliver(std::string_view text) {
    if (!sink_.begin(document())) return;
    if (!text.empty()) sink_.text(text);
    sink_.end();
  }

  void short_line() {
    std::string_view line = line_;
    if (number_ == 1 && line.starts_with(kByteOrderMark)) line_.erase(0, kByteOrderMark.size());
    line = line_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    line_.reserve(line_.size() + simdjson::SIMDJSON_PADDING);
    simdjson::dom::object object;
    std::string_view text;
    if (parser_.parse(line_.data(), line_.size(), false).get(object) == simdjson::SUCCESS &&
        object.at_key(options_.field).get(text) == simdjson::SUCCESS) {
      deliver(text);
      return;
    }
    // The scanner has the last word: it keeps bad UTF-8 and it can say what is wrong.
    std::string decoded;
    JsonTextScanner scanner(
        options_.field, [] {}, [&](std::string_view piece_of_text) { decoded += piece_of_text; });
    if (scanner.feed(line_) && scanner.finish()) {
      deliver(decoded);
    } else if (options_.skip_bad_lines) {
      sink_.bad_line(where(), scanner.reason());
    } else {
      refuse(scanner.reason());
    }
  }

  const JsonLinesOptions& options_;
  DocumentSink& sink_;
  simdjson::dom::parser parser_;
  std::unique_ptr<JsonTextScanner> scanner_;  // of a line beyond the limit
  std::string line_;
  bool wanted_ = false;
  int64_t number_ = 1;
};

}  // namespace

void read_json_lines(ByteStream& stream, const JsonLinesOptions& options, DocumentSink& sink, const std::function<void()>& advance) {
  LineReader reader(options, sink);
  std::vector<char> buffer(kChunkBytes);
  bool inside_line = false;
  while (const size_t got = stream.read(buffer)) {
    std::string_view rest(buffer.data(), got);
    while (!rest.empty()) {
      const size_t newline = rest.find('\n');
      reader.piece(rest.substr(0, newline));
      inside_line = newline == std::string_view::npos;
      if (inside_line) break;
      reader.end_of_line();
      rest.remove_prefix(newline + 1);
    }
    advance();
  }
  if (inside_line) reader.end_of_line();  // no final newline
}

}  // namespace longhaul::data
