// A JSON value that knows where it stands in its file, so that every complaint about tokenizer.json names the place:
// "tokenizer.json:/pre_tokenizer/pretokenizers/1/type". Reading functions throw Error 65.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace longhaul::data {

class JsonView {
 public:
  using Json = nlohmann::json;
  JsonView(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const Json& value() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }

  bool has(const std::string& key) const { return value_->is_object() && value_->contains(key) && !(*value_)[key].is_null(); }
  JsonView at(const std::string& key) const {
    require(value_->is_object(), "an object");
    const auto found = value_->find(key);
    if (found == value_->end()) fail(fmt::format("the key \"{}\"", key), "no such key");
    return {*found, where_ + "/" + key};
  }
  JsonView at(size_t index) const { return {(*value_)[index], fmt::format("{}/{}", where_, index)}; }
  size_t array_size() const {
    require(value_->is_array(), "an array");
    return value_->size();
  }

  const std::string& string() const {
    require(value_->is_string(), "a string");
    return value_->get_ref<const std::string&>();
  }
  bool boolean() const {
    require(value_->is_boolean(), "true or false");
    return value_->get<bool>();
  }
  int64_t integer(int64_t least, int64_t most) const {
    const bool fits =
        value_->is_number_integer() &&
        (!value_->is_number_unsigned() || value_->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits || value_->get<int64_t>() < least || value_->get<int64_t>() > most) {
      fail(fmt::format("a whole number from {} to {}", least, most), brief());
    }
    return value_->get<int64_t>();
  }
  bool boolean_or(const std::string& key, bool otherwise) const { return has(key) ? at(key).boolean() : otherwise; }

  void require(bool good, std::string_view expected) const {
    if (!good) fail(std::string(expected), brief());
  }
  [[noreturn]] void fail(std::string expected, std::string found) const {
    throw Error({.code = ExitCode::kData,
                 .what = "malformed tokenizer definition",
                 .expected = std::move(expected),
                 .found = std::move(found),
                 .where = where_});
  }
  [[noreturn]] void unsupported(std::string what, std::string expected) const {
    throw Error({.code = ExitCode::kData,
                 .what = "this tokenizer definition uses a part that is not supported",
                 .expected = std::move(expected),
                 .found = std::move(what),
                 .where = where_,
                 .hint = "docs/formats/tokenizer.md lists what is read"});
  }

 private:
  std::string brief() const {
    std::string text = value_->dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return fmt::format("{} {}", value_->type_name(), text);
  }

  const Json* value_;
  std::string where_;
};

}  // namespace longhaul::data
