#include <algorithm>

#include "data/corpus/json_lines.h"

namespace longhaul::data {
namespace {

constexpr size_t kMaxDepth = 1024;
constexpr size_t kMaxKey = 1 << 16;
constexpr size_t kMaxScalar = 1 << 10;
constexpr size_t kFlushBytes = 1 << 16;

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
bool number(std::string_view s) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t start = i;
    while (i < s.size() && s[i] >= '0' && s[i] <= '9') ++i;
    return i - start;
  };
  if (i < s.size() && s[i] == '-') ++i;
  const size_t integer = i;
  const size_t count = digits();
  if (count == 0 || (count > 1 && s[integer] == '0')) return false;
  if (i < s.size() && s[i] == '.' && (++i, digits() == 0)) return false;
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    ++i;
    if (i < s.size() && (s[i] == '+' || s[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == s.size();
}

}  // namespace

JsonTextScanner::JsonTextScanner(std::string field, std::function<void()> begin,
                                 std::function<void(std::string_view)> text)
    : field_(std::move(field)), begin_(std::move(begin)), text_(std::move(text)) {}

bool JsonTextScanner::fail(std::string why) {
  reason_ = std::move(why);
  return false;
}

bool JsonTextScanner::feed(std::string_view piece) {
  for (size_t i = 0; i < piece.size();) {
    if (state_ == State::kString) {
      const size_t taken = string_bytes(piece.substr(i));
      if (taken == 0) return false;
      i += taken;
      continue;
    }
    const char c = piece[i];
    if (state_ == State::kScalar) {
      if (!blank(c) && c != ',' && c != ']' && c != '}') {
        if (scalar_.size() >= kMaxScalar) return fail("a number of more than 1,024 characters");
        scalar_ += c;
        ++i;
        continue;
      }
      if (!end_scalar()) return false;
    }
    if (!blank(c) && !structural(c)) return false;
    ++i;
  }
  return true;
}

bool JsonTextScanner::finish() {
  if (state_ != State::kDone)
    return fail(state_ == State::kStart ? "an empty line" : "the line ends inside the object");
  return found_ || fail(not_string_ ? "\"" + field_ + "\" is not a string" : "no string \"" + field_ + "\"");
}

bool JsonTextScanner::structural(char c) {
  switch (state_) {
    case State::kStart:
      if (c != '{') return fail("not a JSON object");
      containers_ = "{";
      state_ = State::kKeyOrEnd;
      return true;
    case State::kKeyOrEnd:
    case State::kKey:
      if (c == '}' && state_ == State::kKeyOrEnd) return close_container(c);
      if (c != '"') return fail("a key without quotes");
      key_.clear();
      reading_key_ = containers_.size() == 1;
      state_ = State::kString;
      // The string of a key ends in kColon: end_string distinguishes keys from values by this flag of the
      // innermost container.
      containers_.back() = 'k';
      return true;
    case State::kColon:
      if (c != ':') return fail("no ':' after a key");
      state_ = State::kValue;
      return true;
    case State::kValueOrEnd:
      if (c == ']') return close_container(c);
      return open_value(c);
    case State::kValue:
      return open_value(c);
    case State::kAfterValue:
      if (c == ',') {
        state_ = containers_.back() == '{' ? State::kKey : State::kValue;
        return true;
      }
      if (c != '}' && c != ']') return fail("no ',' after a value");
      return close_container(c);
    case State::kDone:
      return fail("text after the object");
    case State::kString:
    case State::kScalar:
      break;
  }
  return fail("broken JSON");
}

bool JsonTextScanner::open_value(char c) {
  const bool is_field = containers_.size() == 1 && key_ == field_;
  if (is_field) {
    found_ = c == '"';
    not_string_ = !found_;
  }
  if (c == '"') {
    wanted_ = is_field;
    state_ = State::kString;
    if (is_field) begin_();
    return true;
  }
  if (c == '{' || c == '[') {
    if (containers_.size() >= kMaxDepth) return fail("nested deeper than 1,024 levels");
    containers_ += c;
    state_ = c == '{' ? State::kKeyOrEnd : State::kValueOrEnd;
    return true;
  }
  if (c != '-' && c != 't' && c != 'f' && c != 'n' && (c < '0' || c > '9'))
    return fail("a value that is not JSON");
  scalar_.assign(1, c);
  state_ = State::kScalar;
  return true;
}

bool JsonTextScanner::close_container(char c) {
  if ((c == '}') != (containers_.back() == '{')) return fail("brackets that do not match");
  containers_.pop_back();
  state_ = containers_.empty() ? State::kDone : State::kAfterValue;
  return true;
}

bool JsonTextScanner::end_scalar() {
  if (scalar_ != "true" && scalar_ != "false" && scalar_ != "null" && !number(scalar_))
    return fail("a value that is not JSON");
  state_ = State::kAfterValue;
  return true;
}

size_t JsonTextScanner::string_bytes(std::string_view piece) {
  if (escaped_ || hex_left_ > 0) return escape_byte(piece[0]) ? 1 : 0;
  const auto special = [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; };
  const size_t plain = static_cast<size_t>(std::find_if(piece.begin(), piece.end(), special) - piece.begin());
  if (plain > 0) {
    flush_surrogate();
    emit(piece.substr(0, plain));
    return plain;
  }
  if (piece[0] == '"') {
    end_string();
  } else if (piece[0] == '\\') {
    escaped_ = true;
  } else {
    fail("a control character inside a string");
    return 0;
  }
  return 1;
}

bool JsonTextScanner::escape_byte(char c) {
  if (hex_left_ > 0) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return fail("a \\u escape without four hexadecimal digits");
    hex_ = hex_ * 16 + static_cast<uint32_t>(digit);
    if (--hex_left_ == 0) emit_code_point(hex_);
    return true;
  }
  escaped_ = false;
  if (c == 'u') {
    hex_left_ = 4;
    hex_ = 0;
    return true;
  }
  static constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
  const size_t at = kNames.find(c);
  if (at == std::string_view::npos) return fail("an unknown escape");
  flush_surrogate();
  emit(kValues.substr(at, 1));
  return true;
}

void JsonTextScanner::end_string() {
  flush_surrogate();
  if (wanted_) flush();
  wanted_ = false;
  reading_key_ = false;
  if (containers_.back() == 'k') {
    containers_.back() = '{';
    state_ = State::kColon;
  } else {
    state_ = State::kAfterValue;
  }
}

void JsonTextScanner::emit(std::string_view decoded) {
  if (reading_key_) {
    key_ += decoded.substr(0, kMaxKey - std::min(kMaxKey, key_.size()));
  } else if (wanted_) {
    out_ += decoded;
    if (out_.size() >= kFlushBytes) flush();
  }
}

void JsonTextScanner::emit_code_point(uint32_t code) {
  if (code >= 0xd800 && code < 0xdc00) {
    flush_surrogate();
    high_surrogate_ = code;
    return;
  }
  if (code >= 0xdc00 && code < 0xe000 && high_surrogate_ != 0) {
    code = 0x10000 + ((high_surrogate_ - 0xd800) << 10) + (code - 0xdc00);
    high_surrogate_ = 0;
  }
  flush_surrogate();
  char bytes[4];
  size_t count = 0;
  const auto tail = [&](int shift) { bytes[count++] = static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    bytes[count++] = static_cast<char>(code);
  } else if (code < 0x800) {
    bytes[count++] = static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    bytes[count++] = static_cast<char>(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    bytes[count++] = static_cast<char>(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
  emit({bytes, count});
}

void JsonTextScanner::flush_surrogate() {
  if (high_surrogate_ == 0) return;
  const uint32_t code = high_surrogate_;
  high_surrogate_ = 0;
  const char bytes[3] = {static_cast<char>(0xe0 | (code >> 12)),
                         static_cast<char>(0x80 | ((code >> 6) & 0x3f)),
                         static_cast<char>(0x80 | (code & 0x3f))};
  emit({bytes, 3});
}

void JsonTextScanner::flush() {
  if (!out_.empty()) text_(out_);
  out_.clear();
}

}  // namespace longhaul::data
