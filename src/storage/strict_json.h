// Strict JSON: what a file that others may have written is allowed to be. Nesting and string lengths are bounded, a key may
// occur once per object, and every field is asked for by name and type; leftovers are errors.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace longhaul::storage {

struct JsonLimits {
  size_t depth = 32;
  size_t string_bytes = 1 << 20;
};

// The names nlohmann::json's reader asks of a class that receives its events.
struct JsonEventTypes {
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;
};

// Throws Error with exit code 66 naming `where`.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, const JsonLimits& limits = {});

// Fields of one JSON object, each taken once; finish() refuses what nobody took.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where);
  std::string text(const char* key);
  int64_t integer(const char* key, int64_t lowest);             // whole numbers only, at least `lowest`
  std::vector<int64_t> integers(const char* key, size_t most);  // not negative
  const nlohmann::json& object(const char* key);
  const nlohmann::json& array(const char* key);
  void finish() const;
  [[noreturn]] void refuse(const std::string& what, const std::string& expected, const std::string& found) const;

 private:
  const nlohmann::json& take(const char* key);
  const nlohmann::json& object_;
  std::string where_;
  size_t taken_ = 0;
};

}  // namespace longhaul::storage
