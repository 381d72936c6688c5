// Arithmetic, slices, formats and the functions that every template finds.
#include <algorithm>
#include <array>
#include <cmath>

#include "data/chat/characters.h"
#include "data/chat/evaluator.h"

namespace longhaul::data::chat {
namespace {

[[noreturn]] void no_operation(const std::string& sign, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) fail("{} is undefined", side->undefined_name());
  }
  fail("'{}' has no meaning between a {} and a {}", sign, left.type_name(), right.type_name());
}

int64_t floor_divided(int64_t a, int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1) {
    int64_t result = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) fail("a number leaves 64 bits");
    return result;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t raised(int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool too_large = false;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) too_large = too_large || __builtin_mul_overflow(result, base, &result);
    if (exponent > 1) too_large = too_large || __builtin_mul_overflow(base, base, &base);
    if (too_large) fail("a number leaves 64 bits");
  }
  return result;
}

Value of_integers(const std::string& sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool too_large = false;
  if (sign == "+") too_large = __builtin_add_overflow(a, b, &result);
  if (sign == "-") too_large = __builtin_sub_overflow(a, b, &result);
  if (sign == "*") too_large = __builtin_mul_overflow(a, b, &result);
  if (too_large) fail("a number leaves 64 bits");
  if (sign == "//") return floor_divided(a, b);
  if (sign == "%") return b == -1 ? int64_t{0} : a - floor_divided(a, b) * b;
  if (sign == "**")
    return b < 0 ? Value(std::pow(static_cast<double>(a), static_cast<double>(b))) : Value(raised(a, b));
  return result;
}

Value of_numbers(const std::string& sign, double a, double b) {
  if ((sign == "/" || sign == "//" || sign == "%") && b == 0) fail("division by zero");
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  if (sign == "%") {
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  return std::pow(a, b);
}

Value repeated(const Value& of, int64_t times, Budget& budget) {
  times = std::max<int64_t>(times, 0);
  if (of.text() != nullptr) {
    const auto size = static_cast<int64_t>(of.text()->size());
    if (size > 0 && times > budget.limits().output_bytes / size)
      fail("a text has more than {} bytes", budget.limits().output_bytes);
    budget.steps(times / 64);
    MarkedText text;
    for (int64_t i = 0; i < times; ++i) text.append(*of.text());
    return make_text(std::move(text), budget);
  }
  const List& list = *of.list();
  const auto size = static_cast<int64_t>(list.items.size());
  if (size > 0 && times > budget.limits().steps / size) budget.steps(budget.limits().steps + 1);
  budget.steps(size * times);
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  return make_list(std::move(items), budget, list.tuple);
}

Value joined_texts(const Value& left, const Value& right, Budget& budget) {
  MarkedText text = text_of(left, budget);
  text.append(text_of(right, budget));
  return make_text(std::move(text), budget);
}

}  // namespace

Value operate(const std::string& sign, const Value& left, const Value& right, Evaluator& evaluator) {
  Budget& budget = evaluator.budget();
  if (sign == "~") return joined_texts(left, right, budget);
  if (left.integer() && right.integer() && sign != "/")
    return of_integers(sign, *left.integer(), *right.integer());
  if (left.number() && right.number()) return of_numbers(sign, *left.number(), *right.number());
  if (sign == "%" && left.text() != nullptr) {
    const bool several = right.list() != nullptr && right.list()->tuple;
    return formatted(*left.text(), several ? right.list()->items : std::vector{right}, budget);
  }
  if (sign == "+" && left.text() != nullptr && right.text() != nullptr)
    return joined_texts(left, right, budget);
  if (sign == "+" && left.list() != nullptr && right.list() != nullptr &&
      left.list()->tuple == right.list()->tuple) {
    std::vector<Value> items = left.list()->items;
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    return make_list(std::move(items), budget, left.list()->tuple);
  }
  if (sign == "*") {
    const auto repeats = [](const Value& value) {
      return value.text() != nullptr || value.list() != nullptr;
    };
    if (repeats(left) && right.integer()) return repeated(left, *right.integer(), budget);
    if (repeats(right) && left.integer()) return repeated(right, *left.integer(), budget);
  }
  no_operation(sign, left, right);
}

Value sliced(const Value& of, const Value& from, const Value& to, const Value& step, Budget& budget) {
  if (of.is_undefined()) fail("{} is undefined", of.undefined_name());
  if (of.list() == nullptr && of.text() == nullptr)
    return Value::undefined(fmt::format("a slice of a {}", of.type_name()));
  for (const Value* bound : {&from, &to, &step}) {
    if (!bound->is_none() && !bound->integer())
      fail("the bounds of a slice are integers, not a {}", bound->type_name());
  }
  const int64_t stride = step.is_none() ? 1 : *step.integer();
  if (stride == 0) fail("the step of a slice is not 0");
  const int64_t length = length_of(of);
  const int64_t lowest = stride > 0 ? 0 : -1, highest = stride > 0 ? length : length - 1;
  const auto clamped = [&](const Value& bound, int64_t otherwise) {
    if (bound.is_none()) return otherwise;
    const int64_t at = *bound.integer();
    return std::clamp(at < 0 ? at + length : at, lowest, highest);
  };
  const int64_t begin = clamped(from, stride > 0 ? lowest : highest),
                end = clamped(to, stride > 0 ? highest : lowest);
  if (of.text() != nullptr && stride == 1) {
    budget.steps(length / 64);
    const std::string& bytes = of.text()->bytes();
    const size_t first = byte_of_character(bytes, static_cast<size_t>(begin));
    const size_t last = end <= begin ? first : byte_of_character(bytes, static_cast<size_t>(end));
    return make_text(of.text()->part(first, last - first), budget);
  }
  const std::vector<Value> items = items_of(of, budget);
  std::vector<Value> kept;
  for (int64_t at = begin; stride > 0 ? at < end : at > end;) {
    kept.push_back(items[static_cast<size_t>(at)]);
    if (__builtin_add_overflow(at, stride, &at)) break;
  }
  if (of.list() != nullptr) return make_list(std::move(kept), budget, of.list()->tuple);
  MarkedText text;
  for (const Value& character : kept) text.append(*character.text());
  return make_text(std::move(text), budget);
}

MarkedText formatted(const MarkedText& format, const std::vector<Value>& values, Budget& budget) {
  MarkedText text;
  size_t used = 0;
  const std::string& bytes = format.bytes();
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != '%') {
      text.append(format, at, 1);
      continue;
    }
    const char kind = ++at < bytes.size() ? bytes[at] : ' ';
    if (kind == '%') {
      text.append(format, at, 1);
      continue;
    }
    if (kind != 's' && kind != 'd' && kind != 'r')
      fail("a format of templates has %s, %d, %r and %%, not '%{}'", kind);
    if (used == values.size()) fail("the format wants more than {} values", values.size());
    const Value& value = values[used++];
    if (kind == 'd' && !value.number()) fail("%d wants a number, not a {}", value.type_name());
    text.append(kind == 'r' ? repr_of(value, budget)
                : kind == 'd' && !value.integer()
                    ? MarkedText(fmt::format("{:.0f}", std::trunc(*value.number())), Mark::kName)
                : kind == 'd' ? MarkedText(std::to_string(*value.integer()), Mark::kName)
                              : text_of(value, budget));
    if (static_cast<int64_t>(text.size()) > budget.limits().output_bytes) budget.text(text.size());
  }
  if (used < values.size()) fail("the format takes {} of {} values", used, values.size());
  budget.text(text.size());
  return text;
}

Bound::Bound(const std::string& function, Arguments arguments, std::initializer_list<const char*> names)
    : function_(function), names_(names), values_(names.size()) {
  if (arguments.by_place.size() > names_.size())
    fail("{} takes at most {} arguments", function, names_.size());
  for (size_t i = 0; i < arguments.by_place.size(); ++i) values_[i] = std::move(arguments.by_place[i]);
  for (auto& [name, value] : arguments.by_name) {
    const auto found =
        std::ranges::find_if(names_, [&, wanted = name](const char* known) { return wanted == known; });
    if (found == names_.end()) fail("{} has no argument '{}'", function, name);
    std::optional<Value>& held = values_[static_cast<size_t>(found - names_.begin())];
    if (held) fail("{} is given '{}' twice", function, name);
    held = std::move(value);
  }
}

const Value& Bound::need(size_t at) const {
  if (!values_[at]) fail("{} wants the argument '{}'", function_, names_[at]);
  return *values_[at];
}

bool Bound::flag(size_t at, bool otherwise) const { return values_[at] ? truth(*values_[at]) : otherwise; }

int64_t Bound::integer(size_t at, int64_t otherwise) const {
  if (!values_[at]) return otherwise;
  if (!values_[at]->integer())
    fail("'{}' of {} is an integer, not a {}", names_[at], function_, values_[at]->type_name());
  return *values_[at]->integer();
}

const MarkedText& Bound::text(size_t at) const {
  if (need(at).text() == nullptr)
    fail("'{}' of {} is a text, not a {}", names_[at], function_, need(at).type_name());
  return *need(at).text();
}

namespace {

Value range_of(Arguments arguments, Evaluator& evaluator) {
  const Bound bound("range", std::move(arguments), {"start", "stop", "step"});
  const bool one = bound.find(1) == nullptr;
  const int64_t begin = one ? 0 : bound.integer(0, 0),
                end = one ? (bound.need(0), bound.integer(0, 0)) : bound.integer(1, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) fail("the step of range is not 0");
  constexpr int64_t kMost = 100'000;  // as Jinja's sandbox has it
  std::vector<Value> items;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (static_cast<int64_t>(items.size()) == kMost) fail("range makes at most {} numbers", kMost);
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return make_list(std::move(items), evaluator.budget());
}

// Items of dict(…) and namespace(…): those of a dict, then those by name.
std::vector<std::pair<Value, Value>> given_items(Arguments arguments, Budget& budget) {
  std::vector<std::pair<Value, Value>> items;
  if (arguments.by_place.size() > 1) fail("at most one dict is taken by place");
  if (!arguments.by_place.empty()) {
    const Value& from = arguments.by_place.front();
    if (from.dict() != nullptr) {
      items = from.dict()->items;
    } else {
      for (const Value& pair : items_of(from, budget)) {
        const std::vector<Value> both = items_of(pair, budget);
        if (both.size() != 2) fail("a dict is made of pairs");
        items.emplace_back(both[0], both[1]);
      }
    }
  }
  for (auto& [name, value] : arguments.by_name)
    items.emplace_back(MarkedText(name, Mark::kTemplate), std::move(value));
  return items;
}

Value namespace_of(Arguments arguments, Evaluator& evaluator) {
  const auto made = evaluator.make_namespace();
  for (auto& [name, value] : given_items(std::move(arguments), evaluator.budget())) {
    if (name.text() == nullptr) fail("attributes of a namespace have names");
    made->set(name.text()->bytes(), std::move(value), evaluator.budget());
  }
  return std::static_pointer_cast<Object>(made);
}

Value time_text(Arguments arguments, Evaluator& evaluator) {
  const Bound bound("strftime_now", std::move(arguments), {"format"});
  const std::string& format = bound.text(0).bytes();
  if (format.size() > 1000 || format.find('\0') != std::string::npos)
    fail("the format of strftime_now has at most 1000 bytes");
  std::vector<char> made(64 << 10);
  const std::tm now = evaluator.now();
  const size_t size = std::strftime(made.data(), made.size(), format.c_str(), &now);
  return make_text(MarkedText(std::string(made.data(), size), Mark::kTemplate), evaluator.budget());
}

}  // namespace

void add_functions(Evaluator& evaluator) {
  const auto add = [&](const char* name, Function::Body body) {
    evaluator.globals().set(name, make_function(name, std::move(body)));
  };
  add("range", range_of);
  add("namespace", namespace_of);
  add("strftime_now", time_text);
  add("dict", [](Arguments arguments, Evaluator& own) {
    return make_dict(given_items(std::move(arguments), own.budget()), own.budget());
  });
  add("raise_exception", [](Arguments arguments, Evaluator& own) -> Value {
    const Bound bound("raise_exception", std::move(arguments), {"message"});
    throw Failure{.what = text_of(bound.need(0), own.budget()).bytes(), .raised = true};
  });
}

}  // namespace longhaul::data::chat
