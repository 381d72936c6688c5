// Evaluator: runs the tree of a template once. Names are looked up through scopes: a loop's round, a macro's
// call, a block of set, with, filter, call or generation has one of its own, so what is set there is gone
// after it (a namespace carries it out); if has none. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/syntax.h"

namespace longhaul::data::chat {

struct Scope {
  std::shared_ptr<Scope> outer;
  std::vector<std::pair<std::string, Value>> names;
  const Value* find(const std::string& name) const;  // here and outside
  void set(const std::string& name, Value value);
};

// A function or a bound method.
struct Function : Object {
  using Body = std::function<Value(Arguments, Evaluator&)>;
  Function(std::string own_name, Body own_body) : name(std::move(own_name)), body(std::move(own_body)) {}
  const char* kind() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Arguments arguments, Evaluator& evaluator) override {
    return body(std::move(arguments), evaluator);
  }
  std::string name;
  Body body;
};
Value make_function(std::string name, Function::Body body);

// {% set ns = namespace(found=false) %}: the one thing that a template can change.
struct Namespace : Object {
  const char* kind() const override { return "namespace"; }
  std::optional<Value> attribute(const std::string& name) override;
  int64_t depth() const override { return depth_; }
  void set(const std::string& name, Value value, Budget& budget);
  std::vector<std::pair<std::string, Value>> fields;

 private:
  int64_t depth_ = 1;
};

class Evaluator {
 public:
  Evaluator(const TemplateLimits& limits, std::tm now);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Budget& budget() { return budget_; }
  Scope& globals() { return *scope_; }
  int line() const { return line_; }
  const std::tm& now() const { return now_; }
  MarkedText run(const Statements& statements);  // in the global scope

  enum class Flow { kOn, kBreak, kContinue };
  Flow execute(const Statements& statements, MarkedText& out);
  Value evaluate(const Expression& expression);
  Value call(const Value& callee, Arguments arguments);
  Value filtered(const std::string& name, const Value& value, Arguments arguments);
  bool tested(const std::string& name, const Value& value, const Arguments& arguments);
  // A macro's body, or a call block's, in a scope within `defined_in`.
  Value run_macro(const Statement& macro, const std::shared_ptr<Scope>& defined_in, Arguments arguments);
  void run_loop(const Statement& loop, const Value& over, int64_t depth, MarkedText& out);
  std::shared_ptr<Namespace> make_namespace();

 private:
  // The place of what is evaluated; where nothing fails, the place before comes back.
  class Place;
  // A scope within `outer`, as long as it lives.
  class Inner;

  Flow execute(const Statement& statement, MarkedText& out);
  Flow branch(const Statement& statement, MarkedText& out);
  void assign(const Target& target, const Value& value);
  MarkedText block(const Statements& body);  // in a scope of its own
  void output(MarkedText& out, const MarkedText& text);
  Value name(const Expression& expression);
  Value slice(const Expression& expression);
  Value comparisons(const Expression& expression);
  Value condition(const Expression& expression);
  Value called(const Expression& expression, Value caller);
  std::vector<Value> values(const std::vector<ExpressionPointer>& parts);
  Arguments arguments(const CallArguments& call);

  Budget budget_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::weak_ptr<Namespace>> namespaces_;
  std::tm now_;
  int64_t depth_ = 0;
  int line_ = 0;
};

// left sign right, as Python computes it; "~" joins texts.
Value operate(const std::string& sign, const Value& left, const Value& right, Evaluator& evaluator);
Value sliced(const Value& of, const Value& from, const Value& to, const Value& step, Budget& budget);
// "%s" % values
MarkedText formatted(const MarkedText& format, const std::vector<Value>& values, Budget& budget);

// range, namespace, dict, raise_exception, strftime_now.
void add_functions(Evaluator& evaluator);

// Arguments by place or by name, in the order of `names`; more than these are a failure.
class Bound {
 public:
  Bound(const std::string& function, Arguments arguments, std::initializer_list<const char*> names);
  const Value* find(size_t at) const { return values_[at] ? &*values_[at] : nullptr; }
  const Value& need(size_t at) const;
  bool flag(size_t at, bool otherwise = false) const;
  int64_t integer(size_t at, int64_t otherwise) const;
  const MarkedText& text(size_t at) const;  // must be there

 private:
  std::string function_;
  std::vector<const char*> names_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace longhaul::data::chat
