// The tests of templates: what follows `is`.
#include <algorithm>
#include <map>

#include "data/chat/characters.h"
#include "data/chat/filters.h"

namespace longhaul::data::chat {
namespace {

using Test = bool (*)(const Value& value, const std::vector<Value>& other, Evaluator& evaluator);

int64_t whole_number(const Value& value, const char* test) {
  if (!value.integer()) fail("'{}' tests integers, not a {}", test, value.type_name());
  return *value.integer();
}

bool in_one_case(const Value& value, Case wanted, Budget& budget) {
  const MarkedText text = text_of(value, budget);
  const bool has_case = in_case(text, Case::kUpper).bytes() != in_case(text, Case::kLower).bytes();
  return has_case && in_case(text, wanted).bytes() == text.bytes();
}

bool same_object(const Value& one, const Value& two, Budget& budget) {
  if (one.type_name() != std::string_view(two.type_name())) return false;
  if (one.list() != nullptr) return one.list() == two.list();
  if (one.dict() != nullptr) return one.dict() == two.dict();
  return equal(one, two, budget);
}

struct TestEntry {
  size_t others;  // arguments
  Test test;
};

const std::map<std::string, TestEntry>& value_tests() {
  using Others = const std::vector<Value>&;
  static constexpr Test kEqual = [](const Value& v, Others o, Evaluator& e) {
    return equal(v, o[0], e.budget());
  };
  static constexpr Test kUnequal = [](const Value& v, Others o, Evaluator& e) {
    return !equal(v, o[0], e.budget());
  };
  static constexpr Test kLess = [](const Value& v, Others o, Evaluator& e) {
    return compare(v, o[0], e.budget()) < 0;
  };
  static constexpr Test kLessEqual = [](const Value& v, Others o, Evaluator& e) {
    return compare(v, o[0], e.budget()) <= 0;
  };
  static constexpr Test kGreater = [](const Value& v, Others o, Evaluator& e) {
    return compare(v, o[0], e.budget()) > 0;
  };
  static constexpr Test kGreaterEqual = [](const Value& v, Others o, Evaluator& e) {
    return compare(v, o[0], e.budget()) >= 0;
  };
  static const std::map<std::string, TestEntry> kTests{
      {"defined", {0, [](const Value& v, Others, Evaluator&) { return !v.is_undefined(); }}},
      {"undefined", {0, [](const Value& v, Others, Evaluator&) { return v.is_undefined(); }}},
      {"none", {0, [](const Value& v, Others, Evaluator&) { return v.is_none(); }}},
      {"boolean", {0, [](const Value& v, Others, Evaluator&) { return v.get<bool>() != nullptr; }}},
      {"true",
       {0, [](const Value& v, Others, Evaluator&) { return v.get<bool>() != nullptr && *v.get<bool>(); }}},
      {"false",
       {0, [](const Value& v, Others, Evaluator&) { return v.get<bool>() != nullptr && !*v.get<bool>(); }}},
      {"string", {0, [](const Value& v, Others, Evaluator&) { return v.text() != nullptr; }}},
      {"number", {0, [](const Value& v, Others, Evaluator&) { return v.number().has_value(); }}},
      {"integer", {0, [](const Value& v, Others, Evaluator&) { return v.get<int64_t>() != nullptr; }}},
      {"float", {0, [](const Value& v, Others, Evaluator&) { return v.get<double>() != nullptr; }}},
      {"mapping", {0, [](const Value& v, Others, Evaluator&) { return v.dict() != nullptr; }}},
      {"iterable",
       {0,
        [](const Value& v, Others, Evaluator&) {
          return v.is_undefined() || v.text() != nullptr || v.list() != nullptr || v.dict() != nullptr;
        }}},
      {"sequence",
       {0,
        [](const Value& v, Others, Evaluator&) {
          return v.is_undefined() || v.text() != nullptr || v.list() != nullptr || v.dict() != nullptr;
        }}},
      {"callable",
       {0, [](const Value& v, Others,
              Evaluator&) { return v.object() != nullptr && (*v.object())->callable(); }}},
      {"even", {0, [](const Value& v, Others, Evaluator&) { return whole_number(v, "even") % 2 == 0; }}},
      {"odd", {0, [](const Value& v, Others, Evaluator&) { return whole_number(v, "odd") % 2 != 0; }}},
      {"divisibleby",
       {1, [](const Value& v, Others o, Evaluator& e) { return !truth(operate("%", v, o[0], e)); }}},
      {"lower",
       {0, [](const Value& v, Others, Evaluator& e) { return in_one_case(v, Case::kLower, e.budget()); }}},
      {"upper",
       {0, [](const Value& v, Others, Evaluator& e) { return in_one_case(v, Case::kUpper, e.budget()); }}},
      {"in", {1, [](const Value& v, Others o, Evaluator& e) { return contains(o[0], v, e.budget()); }}},
      {"sameas",
       {1, [](const Value& v, Others o, Evaluator& e) { return same_object(v, o[0], e.budget()); }}},
      {"filter",
       {0,
        [](const Value& v, Others, Evaluator& e) {
          const std::string name = text_of(v, e.budget()).bytes();
          return text_filters().contains(name) || list_filters().contains(name);
        }}},
      {"equalto", {1, kEqual}},
      {"eq", {1, kEqual}},
      {"==", {1, kEqual}},
      {"ne", {1, kUnequal}},
      {"!=", {1, kUnequal}},
      {"lt", {1, kLess}},
      {"<", {1, kLess}},
      {"lessthan", {1, kLess}},
      {"le", {1, kLessEqual}},
      {"<=", {1, kLessEqual}},
      {"gt", {1, kGreater}},
      {">", {1, kGreater}},
      {"ge", {1, kGreaterEqual}},
      {">=", {1, kGreaterEqual}},
      {"greaterthan", {1, kGreater}}};
  return kTests;
}

}  // namespace

bool Evaluator::tested(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto found = value_tests().find(name);
  if (found == value_tests().end()) fail("there is no test '{}' for templates of conversations", name);
  if (!arguments.by_name.empty() || arguments.by_place.size() != found->second.others) {
    fail("the test '{}' takes {} arguments", name, found->second.others);
  }
  budget_.steps();
  return found->second.test(value, arguments.by_place, *this);
}

}  // namespace longhaul::data::chat
