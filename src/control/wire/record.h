// Conversion to and from JSON of structs that list their fields (T::fields(), like those of
// observe/events/event.h): numbers, booleans, text, lists, maps and other such structs. Reading is strict:
// each field exactly once, and no others. Numbers that are not finite are the texts "nan", "inf" and "-inf".
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "observe/events/event.h"

namespace longhaul::control {

template <class T>
concept Record = requires {
  T::fields();
};

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

template <class T>
nlohmann::json record_to_json(const T& value) {
  if constexpr (Record<T>) {
    nlohmann::json object = nlohmann::json::object();
    observe::for_each_field<T>(
        [&](const auto& field) { object[std::string(field.name)] = record_to_json(value.*field.member); });
    return object;
  } else if constexpr (IsList<T>::value) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& element : value) list.push_back(record_to_json(element));
    return list;
  } else if constexpr (IsMap<T>::value) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [name, element] : value) object[name] = record_to_json(element);
    return object;
  } else if constexpr (std::is_same_v<T, double>) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  } else {
    return value;
  }
}

template <class T>
void read_record(const JsonView& view, T& value) {
  if constexpr (Record<T>) {
    view.require(view.value().is_object(), "an object");
    size_t count = 0;
    observe::for_each_field<T>([&](const auto& field) {
      read_record(view.at(std::string(field.name)), value.*field.member);
      ++count;
    });
    view.require(view.value().size() == count, "only fields that this version knows");
  } else if constexpr (IsList<T>::value) {
    value.clear();
    for (size_t i = 0; i < view.array_size(); ++i) read_record(view.at(i), value.emplace_back());
  } else if constexpr (IsMap<T>::value) {
    view.require(view.value().is_object(), "an object");
    value.clear();
    for (const auto& [name, element] : view.value().items())
      read_record(view.entry(name, element), value[name]);
  } else if constexpr (std::is_same_v<T, double>) {
    if (!view.is_string()) {
      value = view.number();
      return;
    }
    const std::string& word = view.string();
    view.require(word == "nan" || word == "inf" || word == "-inf", "a number, or nan, inf or -inf");
    value = word == "nan" ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity() * (word == "inf" ? 1 : -1);
  } else if constexpr (std::is_same_v<T, bool>) {
    value = view.boolean();
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = view.string();
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    value = static_cast<uint64_t>(view.integer(0));
  } else {
    static_assert(std::is_same_v<T, int64_t>);
    value = view.integer();
  }
}

}  // namespace longhaul::control
