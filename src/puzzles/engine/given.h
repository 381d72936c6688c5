// Reading a puzzle that comes from a file: what cannot be one of its task is an error that says what is
// expected.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace longhaul::puzzles {

// Throws Error (kData): `task` is the key of the task, `expected` what its puzzles hold, `found` the part
// that is something else.
[[noreturn]] void refuse_given(std::string_view task, std::string expected, const nlohmann::json& found);

// Parts of a given, or the error above. `what` names the part: "\"options\"".
const nlohmann::json& member_of(const nlohmann::json& object, const char* key, std::string_view task);
const nlohmann::json& list_of(const nlohmann::json& list, size_t least, size_t most, std::string_view what,
                              std::string_view task);
int64_t integer_of(const nlohmann::json& value, int64_t least, int64_t most, std::string_view what,
                   std::string_view task);
// [a, b, …], without the copies that an initializer list makes
template <class... Items>
nlohmann::json json_list(Items&&... items) {
  nlohmann::json::array_t list;
  list.reserve(sizeof...(items));
  (list.emplace_back(std::forward<Items>(items)), ...);
  return list;
}

const std::string& text_of(const nlohmann::json& value, std::string_view what, std::string_view task);

}  // namespace longhaul::puzzles
