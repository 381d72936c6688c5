// JSON Lines: one JSON object a line, one of its strings the document. Lines of ordinary length are parsed by simdjson. Longer
// ones, and ones that simdjson refuses (bad UTF-8, lone surrogates), go through JsonTextScanner, which takes a line in pieces,
// keeps bad bytes, and holds nothing but a few flags; so one line of 5 GB needs no memory. Of a key that stands twice in a line the last
// value counts, as everywhere in JSON; a line too long to be looked at whole is a bad line then.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus/byte_stream.h"
#include "data/corpus/source.h"

namespace longhaul::data {

struct JsonLinesOptions {
  size_t file = 0;
  std::string name;  // of documents
  std::string path;  // of errors
  std::string field;
  bool skip_bad_lines = false;
  int64_t after_line = 0;
  size_t simdjson_limit_bytes = 4 << 20;  // longer lines are scanned in pieces
};

void read_json_lines(ByteStream& stream, const JsonLinesOptions& options, DocumentSink& sink, const std::function<void()>& advance);

// Takes one JSON object in pieces and gives out the decoded text of one top-level string field as it comes. \u escapes of lone
// surrogates become their three-byte form, so that nothing is lost; other bytes are passed through unchecked. `begin` is called where
// a value of the field begins: again when the key stands there again, and then what came before does not count.
class JsonTextScanner {
 public:
  JsonTextScanner(std::string field, std::function<void()> begin, std::function<void(std::string_view)> text);

  // False: the line is not an object with that string; reason() says why. The rest of the line need not be fed.
  bool feed(std::string_view piece);
  bool finish();  // at the end of the line
  const std::string& reason() const { return reason_; }

 private:
  enum class State : uint8_t { kStart, kKeyOrEnd, kKey, kColon, kValue, kValueOrEnd, kString, kScalar, kAfterValue, kDone };
  bool fail(std::string why);
  bool structural(char c);
  bool open_value(char c);
  bool close_container(char c);
  size_t string_bytes(std::string_view piece);  // how many were taken; 0 after a failure
  bool escape_byte(char c);
  void end_string();
  bool end_scalar();
  void emit(std::string_view decoded);
  void emit_code_point(uint32_t code);
  void flush_surrogate();
  void flush();

  std::string field_;
  std::function<void()> begin_;
  std::function<void(std::string_view)> text_;
  State state_ = State::kStart;
  std::string containers_;    // '{' and '[' that are open; at most kMaxDepth
  std::string key_;           // the current key of the outermost object, cut at kMaxKey
  std::string scalar_;        // number, true, false or null being read
  std::string out_;           // decoded text not yet given out
  bool reading_key_ = false;  // the string being read is a key
  bool wanted_ = false;       // … or the field's value
  bool found_ = false;        // the field's last value so far is a string
  bool not_string_ = false;   // … is something else
  bool escaped_ = false;
  int hex_left_ = 0;
  uint32_t hex_ = 0;
  uint32_t high_surrogate_ = 0;
  std::string reason_;
};

}  // namespace longhaul::data
