#include "data/chat/value.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text/utf8.h"
#include "data/chat/characters.h"

namespace longhaul::data::chat {

Value Value::undefined(std::string name) {
  Value value;
  value.held_ = Undefined{std::make_shared<const std::string>(std::move(name))};
  return value;
}

const std::string& Value::undefined_name() const {
  static const std::string kNothing = "a value";
  const auto* undefined = get<Undefined>();
  return undefined == nullptr || undefined->name == nullptr ? kNothing : *undefined->name;
}

std::optional<int64_t> Value::integer() const {
  if (const auto* value = get<int64_t>()) return *value;
  if (const auto* value = get<bool>()) return *value ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* value = get<double>()) return *value;
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

const char* Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "None";
  if (get<bool>() != nullptr) return "bool";
  if (get<int64_t>() != nullptr) return "int";
  if (get<double>() != nullptr) return "float";
  if (text() != nullptr) return "str";
  if (list() != nullptr) return list()->tuple ? "tuple" : "list";
  if (dict() != nullptr) return "dict";
  return (*object())->kind();
}

int64_t Value::depth() const {
  if (list() != nullptr) return list()->depth;
  if (dict() != nullptr) return dict()->depth;
  return object() != nullptr ? (*object())->depth() : 0;
}

const Value* Dict::find(const std::string& key) const {
  for (const auto& [name, value] : items) {
    if (name.text() != nullptr && name.text()->bytes() == key) return &value;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.text() != nullptr) return find(key.text()->bytes());
  const auto number = key.number();
  for (const auto& [name, value] : items) {
    if (number ? name.number() == number : key.is_none() && name.is_none()) return &value;
  }
  return nullptr;
}

const Value* Dict::find_hashable(const Value& key) const {
  if (key.dict() != nullptr || (key.list() != nullptr && !key.list()->tuple))
    fail("a {} cannot be a key of a dict", key.type_name());
  return find(key);
}

Value Object::call(Arguments /*arguments*/, Evaluator& /*evaluator*/) { fail("{} cannot be called", kind()); }

namespace {

constexpr int64_t kStepsOfItem = 8;  // a list's memory is bounded by the steps

}  // namespace

Value make_list(std::vector<Value> items, Budget& budget, bool tuple) {
  budget.steps(kStepsOfItem * static_cast<int64_t>(items.size()));
  int64_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  budget.nested(depth + 1);
  return std::make_shared<const List>(List{.items = std::move(items), .tuple = tuple, .depth = depth + 1});
}

Value make_dict(std::vector<std::pair<Value, Value>> items, Budget& budget) {
  int64_t depth = 0;
  Dict dict;
  for (auto& [key, value] : items) {
    budget.steps(1 + static_cast<int64_t>(dict.items.size() / 16));
    if (key.text() == nullptr && !key.number() && !key.is_none())
      fail("a {} cannot be a key of a dict", key.type_name());
    depth = std::max(depth, value.depth());
    if (const Value* before = dict.find(key)) {
      *const_cast<Value*>(before) = std::move(value);  // of the dict that is being made
    } else {
      dict.items.emplace_back(std::move(key), std::move(value));
    }
  }
  budget.nested(depth + 1);
  dict.depth = depth + 1;
  return std::make_shared<const Dict>(std::move(dict));
}

Value make_text(MarkedText text, Budget& budget) {
  budget.text(text.size());
  return {std::move(text)};
}

Value plain_text(std::string text) { return MarkedText(std::move(text), Mark::kName); }

namespace {

Value json_value(const nlohmann::ordered_json& json, Mark mark, Budget& budget, int64_t depth) {
  budget.steps();
  budget.nested(depth);
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return json.get<bool>();
    case nlohmann::ordered_json::value_t::number_integer:
      return json.get<int64_t>();
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        fail("the number {} does not fit into 64 bits", json.dump());
      return json.get<int64_t>();
    case nlohmann::ordered_json::value_t::number_float:
      return json.get<double>();
    case nlohmann::ordered_json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!valid_utf8(text)) fail("a text of the conversation is not UTF-8");
      return make_text(MarkedText(text, mark), budget);
    }
    case nlohmann::ordered_json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(json_value(item, mark, budget, depth + 1));
      return make_list(std::move(items), budget);
    }
    case nlohmann::ordered_json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      for (const auto& [key, item] : json.items()) {
        if (!valid_utf8(key)) fail("a key of the conversation is not UTF-8");
        items.emplace_back(MarkedText(key, mark), json_value(item, mark, budget, depth + 1));
      }
      return make_dict(std::move(items), budget);
    }
    default:
      return None{};
  }
}

}  // namespace

Value from_json(const nlohmann::ordered_json& json, Mark mark, Budget& budget) {
  return json_value(json, mark, budget, 0);
}

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto number = value.number()) return *number != 0;
  if (value.text() != nullptr) return !value.text()->empty();
  if (value.list() != nullptr) return !value.list()->items.empty();
  if (value.dict() != nullptr) return !value.dict()->items.empty();
  return true;
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.steps();
  if (left.is_undefined() || right.is_undefined()) return left.is_undefined() && right.is_undefined();
  if (left.is_none() || right.is_none()) return left.is_none() && right.is_none();
  const auto a = left.integer(), b = right.integer();
  if (a && b) return *a == *b;
  if (left.number() && right.number()) return *left.number() == *right.number();
  if (left.text() != nullptr && right.text() != nullptr) return left.text()->bytes() == right.text()->bytes();
  if (left.list() != nullptr && right.list() != nullptr) {
    const List &one = *left.list(), &two = *right.list();
    if (one.tuple != two.tuple || one.items.size() != two.items.size()) return false;
    for (size_t i = 0; i < one.items.size(); ++i) {
      if (!equal(one.items[i], two.items[i], budget)) return false;
    }
    return true;
  }
  if (left.dict() != nullptr && right.dict() != nullptr) {
    if (left.dict()->items.size() != right.dict()->items.size()) return false;
    for (const auto& [key, value] : left.dict()->items) {
      budget.steps(1 + static_cast<int64_t>(right.dict()->items.size() / 16));
      const Value* other = right.dict()->find(key);
      if (other == nullptr || !equal(value, *other, budget)) return false;
    }
    return true;
  }
  return left.object() != nullptr && right.object() != nullptr &&
         left.object()->get() == right.object()->get();
}

int compare(const Value& left, const Value& right, Budget& budget) {
  budget.steps();
  if (left.is_undefined() || right.is_undefined())
    fail("{} is undefined", (left.is_undefined() ? left : right).undefined_name());
  const auto sign = [](const auto& a, const auto& b) { return a < b ? -1 : a > b ? 1 : 0; };
  const auto a = left.integer(), b = right.integer();
  if (a && b) return sign(*a, *b);
  if (left.number() && right.number()) return sign(*left.number(), *right.number());
  if (left.text() != nullptr && right.text() != nullptr)
    return sign(left.text()->bytes(), right.text()->bytes());
  if (left.list() != nullptr && right.list() != nullptr && left.list()->tuple == right.list()->tuple) {
    const auto &one = left.list()->items, &two = right.list()->items;
    for (size_t i = 0; i < one.size() && i < two.size(); ++i) {
      if (!equal(one[i], two[i], budget)) return compare(one[i], two[i], budget);
    }
    return sign(one.size(), two.size());
  }
  fail("a {} and a {} have no order", left.type_name(), right.type_name());
}

bool contains(const Value& within, const Value& wanted, Budget& budget) {
  if (within.text() != nullptr) {
    if (wanted.text() == nullptr) fail("'in' looks for a str in a str, not for {}", wanted.type_name());
    budget.steps(static_cast<int64_t>(within.text()->size() / 64));
    return within.text()->bytes().find(wanted.text()->bytes()) != std::string::npos;
  }
  if (within.dict() != nullptr) {
    budget.steps(1 + static_cast<int64_t>(within.dict()->items.size() / 16));
    return within.dict()->find_hashable(wanted) != nullptr;
  }
  for (const Value& item : items_of(within, budget)) {
    if (equal(item, wanted, budget)) return true;
  }
  return false;
}

std::vector<Value> items_of(const Value& value, Budget& budget) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (value.list() != nullptr) {
    budget.steps(static_cast<int64_t>(value.list()->items.size()));
    return value.list()->items;
  }
  if (value.dict() != nullptr) {
    budget.steps(static_cast<int64_t>(value.dict()->items.size()));
    for (const auto& [key, item] : value.dict()->items) items.push_back(key);
    return items;
  }
  if (value.text() == nullptr) fail("a {} cannot be iterated over", value.type_name());
  const MarkedText& text = *value.text();
  budget.steps(kStepsOfItem * static_cast<int64_t>(text.size()));
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_length(text.bytes(), at);
    items.emplace_back(text.part(at, length));
    at += length;
  }
  return items;
}

int64_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.text() != nullptr) return static_cast<int64_t>(characters(value.text()->bytes()));
  if (value.list() != nullptr) return static_cast<int64_t>(value.list()->items.size());
  if (value.dict() != nullptr) return static_cast<int64_t>(value.dict()->items.size());
  fail("a {} has no length", value.type_name());
}

Value attribute_of(const Value& value, const std::string& name, Budget& budget) {
  if (value.is_undefined())
    fail("{} is undefined, so it has no attribute '{}'", value.undefined_name(), name);
  if (name.starts_with("__")) fail("the attribute '{}' is not for templates", name);
  if (value.object() != nullptr) {
    if (const auto found = (*value.object())->attribute(name)) return *found;
  } else if (const auto method = method_of(value, name)) {
    return *method;
  }
  if (value.dict() != nullptr) {
    budget.steps(1 + static_cast<int64_t>(value.dict()->items.size() / 16));
    if (const Value* found = value.dict()->find(name)) return *found;
  }
  return Value::undefined(fmt::format("'{}' of a {}", name, value.type_name()));
}

Value item_of(const Value& value, const Value& key, Budget& budget) {
  if (value.is_undefined()) fail("{} is undefined, so it has no items", value.undefined_name());
  const auto index = key.integer();
  if (index && (value.list() != nullptr || value.text() != nullptr)) {
    const int64_t length = length_of(value);
    budget.steps(value.text() != nullptr ? length / 64 : 0);
    const int64_t at = *index < 0 ? *index + length : *index;
    if (at < 0 || at >= length)
      return Value::undefined(fmt::format("item {} of a {} of {}", *index, value.type_name(), length));
    if (value.list() != nullptr) return value.list()->items[static_cast<size_t>(at)];
    const size_t begin = byte_of_character(value.text()->bytes(), static_cast<size_t>(at));
    return value.text()->part(begin, character_length(value.text()->bytes(), begin));
  }
  if (value.dict() != nullptr) {
    budget.steps(1 + static_cast<int64_t>(value.dict()->items.size() / 16));
    if (const Value* found = value.dict()->find(key)) return *found;
  }
  if (key.text() == nullptr) return Value::undefined(fmt::format("an item of a {}", value.type_name()));
  if (value.object() == nullptr) {
    if (const auto method = method_of(value, key.text()->bytes())) return *method;
    return Value::undefined(fmt::format("'{}' of a {}", key.text()->bytes(), value.type_name()));
  }
  return attribute_of(value, key.text()->bytes(), budget);
}

}  // namespace longhaul::data::chat
