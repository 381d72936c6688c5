#include "puzzles/engine/given.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"

namespace longhaul::puzzles {
namespace {

// Texts of others may be no UTF-8.
std::string shown(const nlohmann::json& value) {
  return brief(printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

}  // namespace

void refuse_given(std::string_view task, std::string expected, const nlohmann::json& found) {
  throw Error({.code = ExitCode::kData,
               .what = fmt::format("unusable puzzle of {}", task),
               .expected = std::move(expected),
               .found = shown(found)});
}

const nlohmann::json& member_of(const nlohmann::json& object, const char* key, std::string_view task) {
  if (object.is_object()) {
    if (const auto found = object.find(key); found != object.end()) return *found;
  }
  refuse_given(task, fmt::format("an object with \"{}\"", key), object);
}

const nlohmann::json& list_of(const nlohmann::json& list, size_t least, size_t most, std::string_view what,
                              std::string_view task) {
  if (!list.is_array() || list.size() < least || list.size() > most)
    refuse_given(task, fmt::format("{}: a list of {} to {} items", what, least, most), list);
  return list;
}

int64_t integer_of(const nlohmann::json& value, int64_t least, int64_t most, std::string_view what,
                   std::string_view task) {
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  const auto* positive = value.get_ptr<const nlohmann::json::number_unsigned_t*>();
  const auto* number = value.get_ptr<const nlohmann::json::number_integer_t*>();
  if (number == nullptr || (positive != nullptr && *positive > kLargest) || *number < least || *number > most)
    refuse_given(task, fmt::format("{}: a whole number from {} to {}", what, least, most), value);
  return *number;
}

const std::string& text_of(const nlohmann::json& value, std::string_view what, std::string_view task) {
  if (!value.is_string()) refuse_given(task, fmt::format("{}: a text", what), value);
  return value.get_ref<const std::string&>();
}

}  // namespace longhaul::puzzles
