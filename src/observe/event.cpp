#include "observe/event.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace longhaul::observe {
namespace {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

class LineWriter {
 public:
  template <class Owner>
  void fields(const Owner& owner) {
    for_each_field<Owner>([&](const auto& field) {
      const auto& value = owner.*field.member;
      using Value = std::remove_cvref_t<decltype(value)>;
      if constexpr (IsOptional<Value>::value) {
        if (value) write(field.name, *value, field.digits);
      } else {
        write(field.name, value, field.digits);
      }
    });
  }
  void write(std::string_view name, std::string_view text) { key(name) += quoted(std::string(text)); }
  std::string finish() {
    if (!note_.empty()) write("note", note_);
    return line_ + "}";
  }

 private:
  std::string& key(std::string_view name) {
    line_ += line_.empty() ? "{\"" : ",\"";
    return line_.append(name).append("\":");
  }
  void write(std::string_view name, int64_t value, Digits) { key(name) += fmt::to_string(value); }
  void write(std::string_view name, bool value, Digits) { key(name) += value ? "true" : "false"; }
  void write(std::string_view name, const std::string& value, Digits) { key(name) += quoted(value); }
  void write(std::string_view name, const std::vector<std::string>& values, Digits) {
    std::string list;
    for (const auto& value : values) list += (list.empty() ? "" : ",") + quoted(value);
    key(name) += "[" + list + "]";
  }
  void write(std::string_view name, double value, Digits digits) {
    if (std::isfinite(value)) {
      key(name) += digits == Digits::kSeventeen ? fmt::format("{:#.17g}", value) : fmt::format("{}", value);
      return;
    }
    key(name) += "null";
    note_ += fmt::format("{}{}={}", note_.empty() ? "" : "; ", name, std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  }

  std::string line_, note_;
};

[[noreturn]] void refuse(std::string_view where, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "cannot read the event stream",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = std::string(where),
               .hint = "the stream is described in docs/formats/events.md; move the file away to begin a new one"});
}

class LineReader {
 public:
  LineReader(const nlohmann::json& object, std::string_view where) : object_(object), where_(where) {}

  template <class Owner>
  void fields(Owner& owner) const {
    for_each_field<Owner>([&](const auto& field) {
      auto& value = owner.*field.member;
      using Value = std::remove_cvref_t<decltype(value)>;
      const auto found = object_.find(std::string(field.name));
      if constexpr (IsOptional<Value>::value) {
        if (found != object_.end()) read(*found, field.name, value.emplace());
      } else {
        if (found == object_.end()) refuse(where_, fmt::format("the field \"{}\"", field.name), "none");
        read(*found, field.name, value);
      }
    });
  }

 private:
  [[noreturn]] void wrong(std::string_view name, std::string_view type, const nlohmann::json& found) const {
    refuse(where_, fmt::format("\"{}\" to be {}", name, type), found.dump().substr(0, 80));
  }
  void read(const nlohmann::json& json, std::string_view name, int64_t& value) const {
    if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)) wrong(name, "a whole number", json);
    value = json.get<int64_t>();
  }
  void read(const nlohmann::json& json, std::string_view name, bool& value) const {
    if (!json.is_boolean()) wrong(name, "true or false", json);
    value = json.get<bool>();
  }
  void read(const nlohmann::json& json, std::string_view name, std::string& value) const {
    if (!json.is_string()) wrong(name, "a string", json);
    value = json.get<std::string>();
  }
  void read(const nlohmann::json& json, std::string_view name, std::vector<std::string>& values) const {
    if (!json.is_array()) wrong(name, "a list of strings", json);
    for (const auto& item : json) read(item, name, values.emplace_back());
  }
  void read(const nlohmann::json& json, std::string_view name, double& value) const {
    if (json.is_null()) {
      value = noted(name);
    } else if (json.is_number()) {
      value = json.get<double>();
    } else {
      wrong(name, "a number or null", json);
    }
  }
  // What the note says about a null: "loss=nan; grad_norm=inf".
  double noted(std::string_view name) const {
    const auto note = object_.find("note");
    if (note != object_.end() && note->is_string()) {
      const std::string text = "; " + note->get<std::string>() + ";";
      if (text.find(fmt::format("; {}=inf;", name)) != std::string::npos) return std::numeric_limits<double>::infinity();
      if (text.find(fmt::format("; {}=-inf;", name)) != std::string::npos) return -std::numeric_limits<double>::infinity();
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  const nlohmann::json& object_;
  std::string_view where_;
};

nlohmann::json parse_line(std::string_view line, std::string_view where) {
  nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) refuse(where, "one JSON object a line", fmt::format("{:.80}", line));
  return object;
}

Common common_of(const nlohmann::json& object, std::string_view where) {
  Common common;
  LineReader(object, where).fields(common);
  if (common.schema > kEventSchema) {
    refuse(where, fmt::format("schema {} or less", kEventSchema), fmt::format("schema {}, written by a newer Longhaul", common.schema));
  }
  return common;
}

}  // namespace

std::string_view name_of(const EventBody& body) {
  return std::visit([](const auto& value) { return std::remove_cvref_t<decltype(value)>::kName; }, body);
}

std::string to_json(const Event& event) {
  LineWriter writer;
  writer.fields(event.common);
  writer.write("event", name_of(event.body));
  std::visit([&](const auto& body) { writer.fields(body); }, event.body);
  return writer.finish();
}

Common common_from_json(std::string_view line, std::string_view where) { return common_of(parse_line(line, where), where); }

std::optional<Event> from_json(std::string_view line, std::string_view where) {
  const nlohmann::json object = parse_line(line, where);
  Event event{.common = common_of(object, where), .body = {}};
  const LineReader reader(object, where);
  const auto name = object.find("event");
  if (name == object.end() || !name->is_string()) refuse(where, "the field \"event\"", "none");
  bool known = false;
  for_each_event_type([&]<class Body>() {
    if (known || *name != Body::kName) return;
    known = true;
    reader.fields(event.body.emplace<Body>());
  });
  return known ? std::optional(std::move(event)) : std::nullopt;
}

}  // namespace longhaul::observe
