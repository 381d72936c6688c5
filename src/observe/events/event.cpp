#include "observe/events/event.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/text/json.h"

namespace longhaul::observe {
namespace {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// True if a body itself has the fields that every line has.
bool has_field(const EventBody& body, std::string_view name) {
  bool found = false;
  std::visit(
      [&]<class Body>(const Body&) {
        for_each_field<Body>([&](const auto& field) { found |= field.name == name; });
      },
      body);
  return found;
}

class LineWriter {
 public:
  template <class Owner>
  void fields(const Owner& owner, const EventBody* instead = nullptr) {
    for_each_field<Owner>([&](const auto& field) {
      if (instead != nullptr && has_field(*instead, field.name)) return;
      const auto& value = owner.*field.member;
      using Value = std::remove_cvref_t<decltype(value)>;
      if constexpr (IsOptional<Value>::value) {
        if (value) write(field.name, *value, field.digits);
      } else if constexpr (std::is_same_v<Value, Metrics>) {
        if (!value.empty()) write(field.name, value, field.digits);
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
  void write(std::string_view name, double value, Digits digits) { key(name) += number(name, value, digits); }
  void write(std::string_view name, const Metrics& metrics, Digits digits) {
    std::string list;
    for (const auto& [metric, value] : metrics) {
      list += (list.empty() ? "" : ",") + quoted(metric) + ":" +
              number(fmt::format("{}.{}", name, metric), value, digits);
    }
    key(name) += "{" + list + "}";
  }
  std::string number(std::string_view name, double value, Digits digits) {
    if (std::isfinite(value))
      return digits == Digits::kSeventeen ? fmt::format("{:#.17g}", value) : fmt::format("{}", value);
    note_ += fmt::format("{}{}={}", note_.empty() ? "" : "; ", name,
                         std::isnan(value) ? "nan"
                         : value > 0       ? "inf"
                                           : "-inf");
    return "null";
  }

  std::string line_, note_;
};

constexpr JsonRules kEventRules = {
    .what = "cannot read the event stream",
    .hint = "the stream is described in docs/formats/events.md; move the file away to begin a new one",
    .string_bytes = size_t{1} << 30};

class LineReader {
 public:
  explicit LineReader(const JsonView& object) : object_(object) {
    object.require(object.value().is_object(), "one JSON object a line");
  }

  template <class Owner>
  void fields(Owner& owner) const {
    for_each_field<Owner>([&](const auto& field) {
      auto& value = owner.*field.member;
      using Value = std::remove_cvref_t<decltype(value)>;
      const std::string name(field.name);
      if constexpr (IsOptional<Value>::value) {
        if (object_.value().contains(name)) read(name, value.emplace());
      } else if constexpr (std::is_same_v<Value, Metrics>) {
        if (object_.value().contains(name)) read(name, value);
      } else {
        read(name, value);
      }
    });
  }

 private:
  void read(const std::string& name, int64_t& value) const { value = object_.at(name).integer(); }
  void read(const std::string& name, bool& value) const { value = object_.at(name).boolean(); }
  void read(const std::string& name, std::string& value) const { value = object_.at(name).string(); }
  void read(const std::string& name, std::vector<std::string>& values) const {
    const JsonView list = object_.at(name);
    for (size_t i = 0; i < list.array_size(); ++i) values.push_back(list.at(i).string());
  }
  void read(const std::string& name, double& value) const {
    const JsonView number = object_.at(name);
    value = number.is_null() ? noted(name) : number.number();
  }
  void read(const std::string& name, Metrics& metrics) const {
    const JsonView list = object_.at(name);
    list.require(list.value().is_object(), "numbers by name");
    for (const auto& [metric, value] : list.value().items()) {
      const JsonView number = list.entry(metric, value);
      metrics[metric] = number.is_null() ? noted(name + "." + metric) : number.number();
    }
  }
  // The note's text for a null: "loss=nan; grad_norm=inf".
  double noted(const std::string& name) const {
    const auto note = object_.value().find("note");
    if (note != object_.value().end() && note->is_string()) {
      const std::string text = "; " + note->get<std::string>() + ";";
      if (text.find(fmt::format("; {}=inf;", name)) != std::string::npos)
        return std::numeric_limits<double>::infinity();
      if (text.find(fmt::format("; {}=-inf;", name)) != std::string::npos)
        return -std::numeric_limits<double>::infinity();
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  const JsonView& object_;
};

Common common_of(const JsonView& object) {
  Common common;
  LineReader(object).fields(common);
  if (common.schema > kEventSchema) {
    object.fail(fmt::format("schema {} or less", kEventSchema),
                fmt::format("schema {}, written by a newer Longhaul", common.schema));
  }
  return common;
}

}  // namespace

Evaluation evaluation_of(int64_t step, Metrics metrics) {
  Evaluation evaluation{.step = step};
  const auto take = [&](const char* name, std::optional<double>& field) {
    if (const auto found = metrics.extract(name)) field = found.mapped();
  };
  take("loss", evaluation.loss);
  take("bits_per_byte", evaluation.bits_per_byte);
  take("perplexity", evaluation.perplexity);
  evaluation.metrics = std::move(metrics);
  return evaluation;
}

std::string_view name_of(const EventBody& body) {
  return std::visit([](const auto& value) { return std::remove_cvref_t<decltype(value)>::kName; }, body);
}

std::string to_json(const Event& event) {
  LineWriter writer;
  writer.fields(event.common, &event.body);
  writer.write("event", name_of(event.body));
  std::visit([&](const auto& body) { writer.fields(body); }, event.body);
  return writer.finish();
}

Common common_from_json(std::string_view line, std::string_view where) {
  const nlohmann::json json = parse_json(line, std::string(where), kEventRules);
  return common_of({json, std::string(where), kEventRules});
}

std::optional<Event> from_json(std::string_view line, std::string_view where) {
  const nlohmann::json json = parse_json(line, std::string(where), kEventRules);
  const JsonView object(json, std::string(where), kEventRules);
  Event event{.common = common_of(object), .body = {}};
  const LineReader reader(object);
  const std::string& name = object.at("event").string();
  bool known = false;
  for_each_event_type([&]<class Body>() {
    if (known || name != Body::kName) return;
    known = true;
    reader.fields(event.body.emplace<Body>());
  });
  return known ? std::optional(std::move(event)) : std::nullopt;
}

}  // namespace longhaul::observe
