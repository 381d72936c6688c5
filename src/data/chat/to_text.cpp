// str(), repr() and json.dumps() of Python.
#include <algorithm>
#include <cmath>

#include "data/chat/characters.h"
#include "data/chat/value.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data::chat {
namespace {

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool is_printable(char32_t code) {
  const Category category = category_of(code);
  return code == U' ' ||
         (category != Category::kCc && category != Category::kCf && category != Category::kCn &&
          category != Category::kCo && category != Category::kZs && category != Category::kZl &&
          category != Category::kZp);
}

void append_quoted(MarkedText& to, const MarkedText& text) {
  const std::string& bytes = text.bytes();
  const char quote =
      bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  to.append(std::string_view(&quote, 1), Mark::kData);
  for (size_t at = 0; at < bytes.size();) {
    const Decoded next = decode_utf8(bytes.data() + at, bytes.data() + bytes.size());
    const auto length = static_cast<size_t>(next.length);
    const auto code = static_cast<uint32_t>(next.code);
    if (bytes[at] == quote || bytes[at] == '\\') to.append("\\", Mark::kData);
    if (bytes[at] == '\n' || bytes[at] == '\r' || bytes[at] == '\t') {
      to.append(bytes[at] == '\n' ? "\\n" : bytes[at] == '\r' ? "\\r" : "\\t", Mark::kData);
    } else if (is_printable(next.code)) {
      to.append(text, at, length);
    } else {
      to.append(code < 0x100     ? fmt::format("\\x{:02x}", code)
                : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                 : fmt::format("\\U{:08x}", code),
                Mark::kData);
    }
    at += length;
  }
  to.append(std::string_view(&quote, 1), Mark::kData);
}

void append_repr(MarkedText& to, const Value& value, Budget& budget);

void append_list(MarkedText& to, const List& list, Budget& budget) {
  to.append(list.tuple ? "(" : "[", Mark::kData);
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) to.append(", ", Mark::kData);
    append_repr(to, list.items[i], budget);
  }
  to.append(!list.tuple ? "]" : list.items.size() == 1 ? ",)" : ")", Mark::kData);
}

void append_dict(MarkedText& to, const Dict& dict, Budget& budget) {
  to.append("{", Mark::kData);
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) to.append(", ", Mark::kData);
    append_repr(to, dict.items[i].first, budget);
    to.append(": ", Mark::kData);
    append_repr(to, dict.items[i].second, budget);
  }
  to.append("}", Mark::kData);
}

void check_size(const MarkedText& text, Budget& budget) {
  budget.steps();
  if (static_cast<int64_t>(text.size()) > budget.limits().output_bytes) budget.text(text.size());
}

void append_repr(MarkedText& to, const Value& value, Budget& budget) {
  check_size(to, budget);
  if (value.text() != nullptr) return append_quoted(to, *value.text());
  if (value.list() != nullptr) return append_list(to, *value.list(), budget);
  if (value.dict() != nullptr) return append_dict(to, *value.dict(), budget);
  if (value.is_undefined()) return to.append("Undefined", Mark::kData);
  if (value.object() != nullptr) return to.append(fmt::format("<{}>", value.type_name()), Mark::kData);
  if (value.is_none()) return to.append("None", Mark::kName);
  if (const auto* flag = value.get<bool>()) return to.append(*flag ? "True" : "False", Mark::kName);
  if (const auto whole = value.integer()) return to.append(std::to_string(*whole), Mark::kName);
  to.append(float_text(*value.number()), Mark::kName);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {
    item_ = style.separators ? style.separators->first : style.indent ? "," : ", ";
    key_ = style.separators ? style.separators->second : ": ";
  }

  void write(const Value& value, int64_t level) {
    check_size(text_, budget_);
    if (value.text() != nullptr) return string(*value.text());
    if (value.list() != nullptr) return list(*value.list(), level);
    if (value.dict() != nullptr) return dict(*value.dict(), level);
    if (value.is_undefined() || value.object() != nullptr) {
      fail("{} cannot be written as JSON", value.is_undefined()
                                               ? value.undefined_name() + ", which is undefined,"
                                               : "a " + std::string(value.type_name()));
    }
    if (value.is_none()) return text_.append("null", Mark::kData);
    if (const auto* flag = value.get<bool>()) return text_.append(*flag ? "true" : "false", Mark::kData);
    if (const auto whole = value.integer()) return text_.append(std::to_string(*whole), Mark::kData);
    const double number = *value.number();
    const bool finite = std::isfinite(number);
    text_.append(finite               ? float_text(number)
                 : std::isnan(number) ? "NaN"
                 : number < 0         ? "-Infinity"
                                      : "Infinity",
                 Mark::kData);
  }
  MarkedText take() { return std::move(text_); }

 private:
  void string(const MarkedText& text) {
    const std::string& bytes = text.bytes();
    text_.append("\"", Mark::kData);
    for (size_t at = 0; at < bytes.size();) {
      const Decoded next = decode_utf8(bytes.data() + at, bytes.data() + bytes.size());
      if (const std::string escaped = escape(next.code); !escaped.empty()) {
        text_.append(escaped, Mark::kData);
      } else {
        text_.append(text, at, static_cast<size_t>(next.length));
      }
      at += static_cast<size_t>(next.length);
    }
    text_.append("\"", Mark::kData);
  }

  std::string escape(char32_t code) const {
    switch (code) {
      case U'"':
        return "\\\"";
      case U'\\':
        return "\\\\";
      case U'\n':
        return "\\n";
      case U'\r':
        return "\\r";
      case U'\t':
        return "\\t";
      case U'\b':
        return "\\b";
      case U'\f':
        return "\\f";
      default:
        break;
    }
    const auto number = static_cast<uint32_t>(code);
    if (number < 0x20 || (style_.ascii && number >= 0x7F && number < 0x10000))
      return number == 0x7F ? "" : fmt::format("\\u{:04x}", number);
    if (!style_.ascii || number < 0x10000) return "";
    const uint32_t rest = number - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  void line(int64_t level) {
    if (!style_.indent) return;
    text_.append("\n", Mark::kData);
    for (int64_t i = 0; i < level; ++i) {
      text_.append(*style_.indent, Mark::kData);
      check_size(text_, budget_);
    }
  }

  void list(const List& list, int64_t level) {
    if (list.items.empty()) return text_.append("[]", Mark::kData);
    text_.append("[", Mark::kData);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) text_.append(item_, Mark::kData);
      line(level + 1);
      write(list.items[i], level + 1);
    }
    line(level);
    text_.append("]", Mark::kData);
  }

  static Value key_text(const Value& key) {
    if (key.text() != nullptr) return key;
    if (key.is_none()) return plain_text("null");
    if (const auto* flag = key.get<bool>()) return plain_text(*flag ? "true" : "false");
    return plain_text(key.integer() ? std::to_string(*key.integer()) : float_text(*key.number()));
  }

  void dict(const Dict& dict, int64_t level) {
    if (dict.items.empty()) return text_.append("{}", Mark::kData);
    auto items = dict.items;
    if (style_.sorted) {
      std::ranges::stable_sort(
          items, [&](const auto& a, const auto& b) { return compare(a.first, b.first, budget_) < 0; });
    }
    text_.append("{", Mark::kData);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_.append(item_, Mark::kData);
      line(level + 1);
      string(*key_text(items[i].first).text());
      text_.append(key_, Mark::kData);
      write(items[i].second, level + 1);
    }
    line(level);
    text_.append("}", Mark::kData);
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string item_, key_;
  MarkedText text_;
};

}  // namespace

MarkedText text_of(const Value& value, Budget& budget) {
  if (value.text() != nullptr) return *value.text();
  if (value.is_undefined()) return {};
  return repr_of(value, budget);
}

MarkedText repr_of(const Value& value, Budget& budget) {
  MarkedText text;
  append_repr(text, value, budget);
  budget.text(text.size());
  return text;
}

MarkedText json_of(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.write(value, 0);
  MarkedText text = writer.take();
  budget.text(text.size());
  return text;
}

}  // namespace longhaul::data::chat
