// Value: what an expression of a template gives: Python's None, bool, int (64 bits), float, str, list, tuple
// and dict, Jinja's undefined, and objects with attributes (loop, namespace, functions and bound methods).
// Values are immutable and cheap to copy; namespaces alone change. Integers that leave 64 bits are a failure.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/chat/budget.h"
#include "data/chat/marked_text.h"

namespace longhaul::data::chat {

class Value;
class Evaluator;
struct List;
struct Dict;
struct Object;

struct None {};
struct Undefined {
  std::shared_ptr<const std::string> name;  // of what is not there, for messages
};

class Value {
 public:
  Value() : held_(Undefined{}) {}
  Value(None none) : held_(none) {}
  Value(bool value) : held_(value) {}
  Value(int64_t value) : held_(value) {}
  Value(double value) : held_(value) {}
  Value(MarkedText text) : held_(std::make_shared<const MarkedText>(std::move(text))) {}
  Value(std::shared_ptr<const List> list) : held_(std::move(list)) {}
  Value(std::shared_ptr<const Dict> dict) : held_(std::move(dict)) {}
  Value(std::shared_ptr<Object> object) : held_(std::move(object)) {}
  template <class Other>
  Value(Other*) = delete;  // a literal would become a bool
  static Value undefined(std::string name);

  template <class Type>
  const Type* get() const {
    return std::get_if<Type>(&held_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  const MarkedText* text() const { return pointer<MarkedText>(); }
  const List* list() const { return pointer<List>(); }
  const Dict* dict() const { return pointer<Dict>(); }
  const std::shared_ptr<Object>* object() const { return get<std::shared_ptr<Object>>(); }
  // bool counts as 0 and 1, as in Python.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;  // integers too
  const std::string& undefined_name() const;
  const char* type_name() const;  // as Python names it
  int64_t depth() const;          // of nested lists and dicts

 private:
  template <class Type>
  const Type* pointer() const {
    const auto* held = std::get_if<std::shared_ptr<const Type>>(&held_);
    return held == nullptr ? nullptr : held->get();
  }
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const MarkedText>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      held_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int64_t depth = 1;
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order in which they were put there
  int64_t depth = 1;
  const Value* find(const std::string& key) const;
  const Value* find(const Value& key) const;
  const Value* find_hashable(const Value& key) const;  // fails where Python has no hash of the key
};

struct Arguments {
  std::vector<Value> by_place;
  std::vector<std::pair<std::string, Value>> by_name;
};

// Something with attributes, or that can be called.
struct Object {
  virtual ~Object() = default;
  virtual const char* kind() const = 0;  // as Python names the type
  virtual std::optional<Value> attribute(const std::string& /*name*/) { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Value call(Arguments arguments, Evaluator& evaluator);
  virtual int64_t depth() const { return 1; }
};

// Makers charge the budget and refuse what is nested too deep.
Value make_list(std::vector<Value> items, Budget& budget, bool tuple = false);
Value make_dict(std::vector<std::pair<Value, Value>> items, Budget& budget);
Value make_text(MarkedText text, Budget& budget);
Value plain_text(std::string text);  // short, of the program: names, types

// A JSON value as the template sees it; `mark` is that of its texts. A text must be UTF-8.
Value from_json(const nlohmann::ordered_json& json, Mark mark, Budget& budget);

bool truth(const Value& value);
bool equal(const Value& left, const Value& right, Budget& budget);
// <0, 0, >0; fails where Python cannot order the two.
int compare(const Value& left, const Value& right, Budget& budget);
bool contains(const Value& within, const Value& wanted, Budget& budget);
// Items of a list, keys of a dict, characters of a text; none of undefined. Fails for anything else.
std::vector<Value> items_of(const Value& value, Budget& budget);
int64_t length_of(const Value& value);

// value.name and value["name"]; undefined where there is none. Methods of texts, lists and dicts are in
// methods.cpp.
Value attribute_of(const Value& value, const std::string& name, Budget& budget);
Value item_of(const Value& value, const Value& key, Budget& budget);
std::optional<Value> method_of(const Value& value, const std::string& name);

// str(value), repr(value) and json.dumps(value, ensure_ascii=False) of Python.
MarkedText text_of(const Value& value, Budget& budget);
MarkedText repr_of(const Value& value, Budget& budget);
struct JsonStyle {
  std::optional<std::string> indent = std::nullopt;  // what is put before each level
  std::optional<std::pair<std::string, std::string>> separators = std::nullopt;
  bool ascii = false, sorted = false;
};
MarkedText json_of(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace longhaul::data::chat
