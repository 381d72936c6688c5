// JSON Lines: one JSON object per line, one of whose strings is the document. simdjson parses lines of
// ordinary length. Longer ones, and ones that simdjson refuses (bad UTF-8, lone surrogates), go through
// JsonTextScanner, which takes a line in pieces, keeps bad bytes, and stores only a few flags, so that one
// line of 5 GB needs no memory. If a key occurs twice in a line, the last value counts, as everywhere in
// JSON; in a line that is scanned in pieces this makes it a bad line. Documents of parts (data.loss_on) are
// read by simdjson alone: such a line must be valid JSON in UTF-8, and may not be endless.
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
  std::string name;  // name of the documents
  std::string path;  // path for errors
  std::string field;
  recipe::LossOn loss_on = recipe::LossOn::kAll;
  bool skip_bad_lines = false;
  int64_t after_line = 0;
  size_t simdjson_limit_bytes = 4 << 20;  // longer lines are scanned in pieces
  size_t parts_limit_bytes = 64 << 20;    // with parts, longer lines are bad ones
};

void read_json_lines(ByteStream& stream, const JsonLinesOptions& options, DocumentSink& sink,
                     const std::function<void()>& advance);

// JsonTextScanner takes one JSON object in pieces and returns the decoded text of one top-level string field
// as it comes. \u escapes of lone surrogates become their three-byte form, so that nothing is lost; other
// bytes pass unchecked. `begin` is called where a value of the field begins; if it is called again because
// the key occurs again, the earlier text does not count.
class JsonTextScanner {
 public:
  JsonTextScanner(std::string field, std::function<void()> begin, std::function<void(std::string_view)> text);

  // False: the line is not an object with that string; reason() says why. The rest of the line need not be
  // fed.
  bool feed(std::string_view piece);
  bool finish();  // at the end of the line
  const std::string& reason() const { return reason_; }

 private:
  enum class State : uint8_t {
    kStart,
    kKeyOrEnd,
    kKey,
    kColon,
    kValue,
    kValueOrEnd,
    kString,
    kScalar,
    kAfterValue,
    kDone
  };
  bool fail(std::string why);
  bool structural(char c);
  bool open_value(char c);
  bool close_container(char c);
  size_t string_bytes(std::string_view piece);  // number of bytes taken; 0 after a failure
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
  std::string containers_;    // open '{' and '['; at most kMaxDepth
  std::string key_;           // the current key of the outermost object, cut at kMaxKey
  std::string scalar_;        // number, true, false or null being read
  std::string out_;           // decoded text not yet returned
  bool reading_key_ = false;  // the string being read is a key
  bool wanted_ = false;       // or the field's value
  bool found_ = false;        // the latest value of the field is a string
  bool not_string_ = false;   // or something else
  bool escaped_ = false;
  int hex_left_ = 0;
  uint32_t hex_ = 0;
  uint32_t high_surrogate_ = 0;
  std::string reason_;
};

}  // namespace longhaul::data
