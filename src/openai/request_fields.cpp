#include "openai/request_fields.h"

#include <fmt/format.h>

#include "base/text/json.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace longhaul::openai {
namespace {

constexpr JsonRules kBodyRules = {.code = ExitCode::kData,
                                  .what = "the body is not the JSON of a request",
                                  .hint = "",
                                  .depth = 200,
                                  .string_bytes = 64 << 20};

// No text of JSON holds more values than it has commas, colons and opening brackets outside its strings, and
// one.
size_t most_values_in(std::string_view text) {
  size_t count = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      count += c == ',' || c == ':' || c == '[' || c == '{' ? 1 : 0;
    }
  }
  return count;
}

std::string shown(const nlohmann::json& value) {
  return brief(printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)), 60);
}

}  // namespace

RequestFields::RequestFields(std::string_view body) : body_(body) {
  if (!valid_utf8(body)) throw ApiError(400, "The body is not valid UTF-8.");
  if (most_values_in(body) > kMostJsonValues)
    throw ApiError(400, fmt::format("The body has more than {} values.", kMostJsonValues));
  try {
    json_ = parse_json(body, "body", kBodyRules);
  } catch (const Error& error) {
    throw ApiError::of(error);
  }
  if (!json_.is_object())
    throw ApiError(400, "The body must be a JSON object, not " + std::string(json_.type_name()) + ".");
}

void RequestFields::refuse(const std::string& name, const std::string& expected, const std::string& found) {
  throw ApiError(400, fmt::format("Invalid value for '{}': expected {}, found {}.", name, expected, found),
                 name, "invalid_value");
}

bool RequestFields::has(const std::string& name) {
  known_.insert(name);
  const auto found = json_.find(name);
  return found != json_.end() && !found->is_null();
}

void RequestFields::text(const std::string& name, std::string& into) {
  if (!has(name)) return;
  if (!json_[name].is_string()) refuse(name, "a string", shown(json_[name]));
  into = json_[name].get<std::string>();
}

void RequestFields::flag(const std::string& name, bool& into) {
  if (!has(name)) return;
  if (!json_[name].is_boolean()) refuse(name, "true or false", shown(json_[name]));
  into = json_[name].get<bool>();
}

static bool is_integer_within(const nlohmann::json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return false;
  return value.get<int64_t>() >= least && value.get<int64_t>() <= most;
}

void RequestFields::integer(const std::string& name, int64_t least, int64_t most, int64_t& into) {
  if (!has(name)) return;
  if (!is_integer_within(json_[name], least, most))
    refuse(name, fmt::format("an integer from {} to {}", least, most), shown(json_[name]));
  into = json_[name].get<int64_t>();
}

void RequestFields::number(const std::string& name, double least, double most, double& into) {
  if (!has(name)) return;
  const nlohmann::json& value = json_[name];
  if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
    refuse(name, fmt::format("a number from {} to {}", least, most), shown(value));
  into = value.get<double>();
}

void RequestFields::integers(const std::string& name, int64_t most, std::vector<int64_t>& into) {
  if (!has(name)) return;
  const nlohmann::json& list = json_[name];
  constexpr int64_t kHighest = std::numeric_limits<int32_t>::max();
  if (!list.is_array() || std::ssize(list) > most)
    refuse(name, fmt::format("a list of at most {} token ids", most), shown(list));
  for (const nlohmann::json& value : list) {
    if (!is_integer_within(value, 0, kHighest))
      refuse(name, fmt::format("token ids from 0 to {}", kHighest), shown(value));
    into.push_back(value.get<int64_t>());
  }
}

void RequestFields::only(const std::string& name, const nlohmann::json& value, const std::string& why) {
  if (!has(name) || json_[name] == value) return;
  throw ApiError(400, fmt::format("'{}' is not supported: {}.", name, why), name, "unsupported_parameter");
}

// The strict reader sorts keys; a template may write them in the client's order.
nlohmann::ordered_json RequestFields::in_order(const std::string& name) {
  if (!has(name)) return nullptr;
  return nlohmann::ordered_json::parse(body_).at(name);
}

void RequestFields::finish() const {
  for (const auto& [name, value] : json_.items()) {
    if (known_.contains(name)) continue;
    const std::string nearest = nearest_spelling(name, {known_.begin(), known_.end()});
    throw ApiError(400,
                   fmt::format("Unrecognized request argument supplied: {}.{}", brief(printable(name)),
                               nearest.empty() ? "" : fmt::format(" Is '{}' meant?", nearest)),
                   name, "unknown_parameter");
  }
}

}  // namespace longhaul::openai
