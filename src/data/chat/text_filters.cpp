// Filters of texts, numbers and single values.
#include <cmath>
#include <cstdlib>

#include "base/text/number.h"
#include "data/chat/characters.h"
#include "data/chat/filters.h"

namespace longhaul::data::chat {
namespace {

MarkedText as_text(const Value& value, Evaluator& evaluator) { return text_of(value, evaluator.budget()); }
Value done(MarkedText text, Evaluator& evaluator) { return make_text(std::move(text), evaluator.budget()); }

Value trim_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("trim", std::move(arguments), {"chars"});
  const bool given = bound.find(0) != nullptr && !bound.find(0)->is_none();
  const std::string chars = given ? bound.text(0).bytes() : "";
  return done(stripped(as_text(value, evaluator), Ends::kBoth, given ? &chars : nullptr), evaluator);
}

Value replace_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("replace", std::move(arguments), {"old", "new", "count"});
  const int64_t most = bound.find(2) == nullptr || bound.find(2)->is_none() ? -1 : bound.integer(2, -1);
  const MarkedText to = as_text(bound.need(1), evaluator);
  return done(replaced(as_text(value, evaluator), as_text(bound.need(0), evaluator).bytes(), to, most,
                       evaluator.budget()),
              evaluator);
}

Value upper_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("upper", std::move(arguments), {});
  return done(in_case(as_text(value, evaluator), Case::kUpper), evaluator);
}
Value lower_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("lower", std::move(arguments), {});
  return done(in_case(as_text(value, evaluator), Case::kLower), evaluator);
}
Value capitalize_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("capitalize", std::move(arguments), {});
  return done(capitalized(as_text(value, evaluator)), evaluator);
}

// Unlike str.title: words begin after blanks, hyphens and opening brackets alone.
Value title_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("title", std::move(arguments), {});
  const MarkedText text = as_text(value, evaluator);
  MarkedText result;
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text.bytes().data() + at, text.bytes().data() + text.size());
    append_in_case(result, next.code, begins ? Case::kUpper : Case::kLower, text.mark(at), text.written(at));
    begins = is_python_space(next.code) ||
             std::u32string_view(U"-({[<").find(next.code) != std::u32string_view::npos;
    at += static_cast<size_t>(next.length);
  }
  return done(std::move(result), evaluator);
}

Value indent_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("indent", std::move(arguments), {"width", "first", "blank"});
  MarkedText indentation;
  if (bound.find(0) != nullptr && bound.find(0)->text() != nullptr) {
    indentation = bound.text(0);
  } else {
    const int64_t width = std::max<int64_t>(bound.integer(0, 4), 0);
    if (width > 100'000) fail("indent puts at most 100000 blanks before a line");
    indentation = MarkedText(std::string(static_cast<size_t>(width), ' '), Mark::kTemplate);
  }
  MarkedText text = as_text(value, evaluator);
  text.append("\n", Mark::kTemplate);
  const std::vector<MarkedText> lines = split_lines(text);
  MarkedText result;
  for (size_t i = 0; i < lines.size(); ++i) {
    evaluator.budget().text(lines[i].size() + indentation.size());
    if (i > 0) result.append("\n", Mark::kTemplate);
    const bool indented = i == 0 ? bound.flag(1) : bound.flag(2) || !lines[i].empty();
    if (indented) result.append(indentation);
    result.append(lines[i]);
  }
  return done(std::move(result), evaluator);
}

Value escape_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("escape", std::move(arguments), {});
  MarkedText text = as_text(value, evaluator);
  constexpr std::pair<const char*, const char*> kEscapes[] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  for (const auto& [from, to] : kEscapes)
    text = replaced(text, from, MarkedText(to, Mark::kData), -1, evaluator.budget());
  return done(std::move(text), evaluator);
}

Value string_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("string", std::move(arguments), {});
  return done(as_text(value, evaluator), evaluator);
}

Value format_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  if (!arguments.by_name.empty()) fail("format takes its values by place");
  return formatted(as_text(value, evaluator), arguments.by_place, evaluator.budget());
}

Value tojson_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("tojson", std::move(arguments), {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ascii = bound.flag(0), .sorted = bound.flag(3)};
  if (const Value* indent = bound.find(1); indent != nullptr && !indent->is_none()) {
    if (indent->text() != nullptr) {
      style.indent = indent->text()->bytes();
    } else {
      const int64_t width = bound.integer(1, 0);
      if (width > 1000) fail("tojson indents by at most 1000 blanks");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (const Value* separators = bound.find(2); separators != nullptr && !separators->is_none()) {
    const std::vector<Value> both = items_of(*separators, evaluator.budget());
    if (both.size() != 2 || both[0].text() == nullptr || both[1].text() == nullptr)
      fail("separators of tojson are two texts");
    style.separators = {both[0].text()->bytes(), both[1].text()->bytes()};
  }
  return json_of(value, style, evaluator.budget());
}

Value default_filter(const Value& value, Arguments arguments, Evaluator&) {
  const Bound bound("default", std::move(arguments), {"default_value", "boolean"});
  const bool taken = value.is_undefined() || (bound.flag(1) && !truth(value));
  if (!taken) return value;
  return bound.find(0) != nullptr ? *bound.find(0) : Value(MarkedText());
}

std::optional<double> read_number(const std::string& text) {
  const MarkedText bare = stripped(MarkedText(text, Mark::kData), Ends::kBoth);
  if (bare.empty() || bare.size() > 400) return std::nullopt;
  std::string_view digits = bare.bytes();
  if (digits.starts_with('+')) digits.remove_prefix(1);
  return parse_number<double>(digits);
}

Value int_filter(const Value& value, Arguments arguments, Evaluator&) {
  const Bound bound("int", std::move(arguments), {"default", "base"});
  const Value otherwise = bound.find(0) != nullptr ? *bound.find(0) : Value(int64_t{0});
  const int64_t base = bound.integer(1, 10);
  if (base != 10 && base != 16 && base != 8 && base != 2)
    fail("int reads numbers to the base 2, 8, 10 or 16");
  std::optional<double> number = value.number();
  if (value.integer()) return *value.integer();
  if (value.text() != nullptr) {
    const MarkedText bare = stripped(*value.text(), Ends::kBoth);
    std::string_view digits = bare.bytes();
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (base == 16 && (digits.starts_with("0x") || digits.starts_with("0X"))) digits.remove_prefix(2);
    if (const auto whole = parse_number<int64_t>(digits, static_cast<int>(base))) return *whole;
    number = read_number(value.text()->bytes());
  }
  if (!number || !std::isfinite(*number) || std::fabs(*number) >= 9.2e18) return otherwise;
  return static_cast<int64_t>(*number);
}

Value float_filter(const Value& value, Arguments arguments, Evaluator&) {
  const Bound bound("float", std::move(arguments), {"default"});
  if (const auto number = value.number()) return *number;
  const auto read = value.text() != nullptr ? read_number(value.text()->bytes()) : std::nullopt;
  if (read) return *read;
  return bound.find(0) != nullptr ? *bound.find(0) : Value(0.0);
}

Value round_filter(const Value& value, Arguments arguments, Evaluator&) {
  const Bound bound("round", std::move(arguments), {"precision", "method"});
  if (!value.number()) fail("round wants a number, not a {}", value.type_name());
  const int64_t precision = bound.integer(0, 0);
  const std::string method = bound.find(1) != nullptr ? bound.text(1).bytes() : "common";
  if (precision < 0 || precision > 300) fail("round keeps 0 to 300 digits after the point");
  if (method == "common") {
    if (value.integer()) return *value.integer();
    return std::strtod(fmt::format("{:.{}f}", *value.number(), precision).c_str(), nullptr);
  }
  if (method != "ceil" && method != "floor")
    fail("the method of round is common, ceil or floor, not '{}'", method);
  const double scale = std::pow(10.0, static_cast<double>(precision)), scaled = *value.number() * scale;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value abs_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("abs", std::move(arguments), {});
  if (!value.number()) fail("abs wants a number, not a {}", value.type_name());
  return *value.number() < 0 ? operate("-", int64_t{0}, value, evaluator) : value;
}

Value same_filter(const Value& value, Arguments arguments, Evaluator&) {
  const Bound bound("safe", std::move(arguments), {});
  return value;
}

Value wordcount_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("wordcount", std::move(arguments), {});
  return static_cast<int64_t>(split_text(as_text(value, evaluator), nullptr, -1, false).size());
}

Value attr_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("attr", std::move(arguments), {"name"});
  if (value.dict() != nullptr) {  // methods alone, no items
    const auto method = method_of(value, bound.text(0).bytes());
    return method ? *method : Value::undefined(fmt::format("'{}' of a dict", bound.text(0).bytes()));
  }
  return attribute_of(value, bound.text(0).bytes(), evaluator.budget());
}

}  // namespace

const std::map<std::string, Filter>& text_filters() {
  static const std::map<std::string, Filter> kFilters{{"trim", trim_filter},
                                                      {"replace", replace_filter},
                                                      {"upper", upper_filter},
                                                      {"lower", lower_filter},
                                                      {"title", title_filter},
                                                      {"indent", indent_filter},
                                                      {"e", escape_filter},
                                                      {"escape", escape_filter},
                                                      {"string", string_filter},
                                                      {"format", format_filter},
                                                      {"tojson", tojson_filter},
                                                      {"default", default_filter},
                                                      {"d", default_filter},
                                                      {"int", int_filter},
                                                      {"float", float_filter},
                                                      {"round", round_filter},
                                                      {"abs", abs_filter},
                                                      {"safe", same_filter},
                                                      {"wordcount", wordcount_filter},
                                                      {"attr", attr_filter},
                                                      {"capitalize", capitalize_filter}};
  return kFilters;
}

}  // namespace longhaul::data::chat
