#include "data/corpus/json_rows.h"

#include <simdjson.h>

#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "data/corpus/json_lines.h"

namespace longhaul::data {
namespace fs = std::filesystem;
namespace {

constexpr size_t kFirstRowBytes = 4 << 20;
constexpr size_t kReadOfJson = 64 << 10;
constexpr std::string_view kMarkOfUtf8 = "\xEF\xBB\xBF";

bool white(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class ArrayLines final : public ByteStream {
 public:
  ArrayLines(std::unique_ptr<ByteStream> array, fs::path path)
      : array_(std::move(array)), path_(std::move(path)), buffer_(kReadOfJson) {}

  size_t read(std::span<char> into) override {
    size_t given = 0;
    while (given < into.size() && failure_.empty()) {
      if (at_ == filled_ && (given > 0 || !fill())) break;
      // At most two bytes come of one: an element's last and the end of its line.
      if (pending_newline_) {
        into[given++] = '\n';
        pending_newline_ = false;
        continue;
      }
      char out = 0;
      if (take(buffer_[at_++], out)) into[given++] = out;
    }
    if (given == 0 && !failure_.empty()) refuse();  // after all good text
    return given;
  }
  int64_t consumed_bytes() const override { return array_->consumed_bytes(); }

 private:
  enum class State { kBegin, kBetween, kElement, kEnd };

  [[noreturn]] void refuse() const {
    throw Error({.code = ExitCode::kData,
                 .what = "cannot read a JSON array of the corpus",
                 .expected = "one array of objects, whole",
                 .found = failure_,
                 .where = path_.string(),
                 .hint = "copy the file again, or write it as JSON Lines"});
  }
  bool fill() {
    at_ = 0;
    filled_ = array_->read(buffer_);
    if (filled_ == 0 && state_ != State::kEnd) failure_ = "the end of the file inside the array";
    return filled_ > 0;
  }
  // Whether the byte is passed on, and as which byte.
  bool take(char c, char& out) {
    out = c;
    if (state_ == State::kElement) return within(c, out);
    if (white(c)) return false;
    if (state_ == State::kEnd) {
      failure_ = "more behind the end of the array";
      return false;
    }
    if (state_ == State::kBegin) {
      if (static_cast<unsigned char>(c) >= 0x80) return false;  // a byte order mark
      state_ = State::kBetween;
      return false;
    }
    if (c == ',') return false;
    if (c == ']') {
      state_ = State::kEnd;
      return false;
    }
    state_ = State::kElement;
    depth_ = 0;
    return within(c, out);
  }
  bool within(char c, char& out) {
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      // A string must not contain a line end: the row stays as bad as it was, and stays one line.
      if (c == '\n') out = '\x01';
      return true;
    }
    if (c == '\n') out = ' ';
    if (depth_ == 0 && (c == ',' || c == ']')) {  // after a number, for example
      state_ = c == ',' ? State::kBetween : State::kEnd;
      out = '\n';
      return true;
    }
    in_string_ = c == '"';
    if (c == '{' || c == '[') ++depth_;
    if ((c == '}' || c == ']') && --depth_ == 0) {
      state_ = State::kBetween;
      pending_newline_ = true;
    }
    return true;
  }

  std::unique_ptr<ByteStream> array_;
  fs::path path_;
  std::vector<char> buffer_;
  size_t at_ = 0, filled_ = 0;
  State state_ = State::kBegin;
  std::string failure_;
  int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false, pending_newline_ = false;
};

// The first non-blank line, up to kFirstRowBytes, and the first byte of the next one.
struct FirstLine {
  std::string text;
  bool whole = false;
  char next = 0;  // 0: there is none
};

FirstLine first_line_of(ByteStream& stream) {
  FirstLine line;
  std::vector<char> buffer(kReadOfJson);
  while (const size_t got = stream.read(buffer)) {
    std::string_view rest(buffer.data(), got);
    if (line.text.empty() && rest.starts_with(kMarkOfUtf8)) rest.remove_prefix(kMarkOfUtf8.size());
    for (const char c : rest) {
      if (line.whole && !white(c)) return line.next = c, line;
      if (line.whole || (line.text.empty() && white(c))) continue;
      if (c == '\n')
        line.whole = true;
      else
        line.text += c;
    }
    if (line.text.size() > kFirstRowBytes) return line;
  }
  line.whole = true;
  return line;
}

bool has_string(const FirstLine& line, const std::string& field) {
  bool begun = false;
  JsonTextScanner scanner(
      field, [&] { begun = true; }, [](std::string_view) {});
  const bool good = scanner.feed(line.text);
  return line.whole ? good && scanner.finish() : good && begun;
}

bool has_list(const FirstLine& line, const std::string& field) {
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  return line.whole &&
         parser.parse(line.text.data(), line.text.size(), true)[field].get(list) == simdjson::SUCCESS;
}

bool is_object(const std::string& text) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  return parser.parse(text.data(), text.size(), true).get(object) == simdjson::SUCCESS;
}

}  // namespace

std::unique_ptr<ByteStream> lines_of_json_array(std::unique_ptr<ByteStream> array, fs::path path) {
  return std::make_unique<ArrayLines>(std::move(array), std::move(path));
}

namespace {

JsonRows json_shape_of(const fs::path& path, const std::string& field, bool of_parts) {
  std::string head;  // its first two bytes that are not blank
  {
    const auto stream = open_stream(path);
    std::vector<char> buffer(kReadOfJson);
    while (head.size() < 2) {
      const size_t got = stream->read(buffer);
      if (got == 0) return {};
      std::string_view rest(buffer.data(), got);
      if (head.empty() && rest.starts_with(kMarkOfUtf8)) rest.remove_prefix(kMarkOfUtf8.size());
      for (const char c : rest) {
        if (!white(c) && head.size() < 2) head += c;
      }
    }
  }
  const bool array = head == "[{";
  if (!array && head[0] != '{') return {};
  const auto stream = array ? lines_of_json_array(open_stream(path), path) : open_stream(path);
  const FirstLine line = first_line_of(*stream);
  const auto kind = array ? JsonRows::Kind::kArray : JsonRows::Kind::kLines;
  JsonRows rows{.kind = kind,
                .has_field = has_string(line, field) || (of_parts && has_list(line, field)),
                .first = brief(line.text)};
  // One object in one line is as likely a text of its own: rows occur in numbers.
  if (!rows.has_field && !array && !(line.whole && line.next == '{' && is_object(line.text))) return {};
  return rows;
}

}  // namespace

JsonRows json_rows_of(const fs::path& path, const std::string& field, bool of_parts) {
  try {
    return json_shape_of(path, field, of_parts);
  } catch (const Error&) {
    return {};  // a file that ends within its first row; its reader says what is wrong
  }
}

}  // namespace longhaul::data
