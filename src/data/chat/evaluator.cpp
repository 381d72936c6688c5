#include "data/chat/evaluator.h"

#include <algorithm>

#include "data/chat/place.h"

namespace longhaul::data::chat {

class Evaluator::Inner {
 public:
  Inner(Evaluator& evaluator, std::shared_ptr<Scope> outer)
      : evaluator_(evaluator), before_(evaluator.scope_) {
    evaluator.scope_ = std::make_shared<Scope>(Scope{.outer = std::move(outer), .names = {}});
  }
  ~Inner() { evaluator_.scope_ = std::move(before_); }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> before_;
};

namespace {

struct Macro : Object {
  Macro(const Statement& defined, std::weak_ptr<Scope> defined_in)
      : statement(defined), scope(std::move(defined_in)) {}
  const char* kind() const override { return "macro"; }
  bool callable() const override { return true; }
  std::optional<Value> attribute(const std::string& name) override {
    return name == "name" ? std::optional(plain_text(statement.name)) : std::nullopt;
  }
  Value call(Arguments arguments, Evaluator& evaluator) override {
    const auto outer = scope.lock();
    if (outer == nullptr)
      fail("the macro '{}' is called where what it was defined in is gone", statement.name);
    return evaluator.run_macro(statement, outer, std::move(arguments));
  }
  const Statement& statement;
  std::weak_ptr<Scope> scope;  // not shared: the scope holds the macro
};

// The variable `loop`.
struct Loop : Object {
  const char* kind() const override { return "loop"; }
  bool callable() const override { return statement->recursive; }
  Value call(Arguments arguments, Evaluator& evaluator) override {
    if (!callable()) fail("only a loop that says 'recursive' can be called");
    const Bound bound("loop", std::move(arguments), {"over"});
    MarkedText out;
    evaluator.run_loop(*statement, bound.need(0), depth_of_loops + 1, out);
    return make_text(std::move(out), evaluator.budget());
  }
  std::optional<Value> attribute(const std::string& name) override;

  Value cycle(const Arguments& arguments) const {
    if (arguments.by_place.empty()) fail("loop.cycle wants values");
    return arguments.by_place[static_cast<size_t>(index) % arguments.by_place.size()];
  }
  Value changed(const Arguments& arguments, Budget& budget) {
    const Value now = make_list(arguments.by_place, budget);
    const bool differs = !last_seen || !equal(*last_seen, now, budget);
    last_seen = now;
    return differs;
  }

  const Statement* statement = nullptr;
  std::vector<Value> items;
  int64_t index = 0, depth_of_loops = 0;
  std::optional<Value> last_seen;
  std::weak_ptr<Object> self;
};

std::optional<Value> Loop::attribute(const std::string& name) {
  const auto count = static_cast<int64_t>(items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  if (name == "depth") return depth_of_loops + 1;
  if (name == "depth0") return depth_of_loops;
  if (name == "previtem")
    return index > 0 ? items[static_cast<size_t>(index - 1)] : Value::undefined("the item before the first");
  if (name == "nextitem")
    return index + 1 < count ? items[static_cast<size_t>(index + 1)]
                             : Value::undefined("the item after the last");
  const auto loop = std::static_pointer_cast<Loop>(self.lock());
  if (name == "cycle")
    return make_function(name,
                         [loop](const Arguments& arguments, Evaluator&) { return loop->cycle(arguments); });
  if (name == "changed") {
    return make_function(name, [loop](const Arguments& arguments, Evaluator& evaluator) {
      return loop->changed(arguments, evaluator.budget());
    });
  }
  return std::nullopt;
}

}  // namespace

const Value* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer.get()) {
    for (const auto& [known, value] : scope->names) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, held] : names) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  names.emplace_back(name, std::move(value));
}

Value make_function(std::string name, Function::Body body) {
  return std::shared_ptr<Object>(std::make_shared<Function>(std::move(name), std::move(body)));
}

std::optional<Value> Namespace::attribute(const std::string& name) {
  for (const auto& [known, value] : fields) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void Namespace::set(const std::string& name, Value value, Budget& budget) {
  if (name.starts_with("_")) fail("a namespace takes no attribute with a leading underscore: '{}'", name);
  depth_ = std::max(depth_, value.depth() + 1);
  budget.nested(depth_);
  for (auto& [known, held] : fields) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  budget.steps(1 + static_cast<int64_t>(fields.size() / 16));
  fields.emplace_back(name, std::move(value));
}

Evaluator::Evaluator(const TemplateLimits& limits, std::tm now)
    : budget_(limits), scope_(std::make_shared<Scope>()), now_(now) {}

Evaluator::~Evaluator() {
  for (const auto& each : namespaces_) {  // one may hold itself
    if (const auto held = each.lock()) held->fields.clear();
  }
}

std::shared_ptr<Namespace> Evaluator::make_namespace() {
  auto made = std::make_shared<Namespace>();
  budget_.steps();
  namespaces_.push_back(made);
  return made;
}

MarkedText Evaluator::run(const Statements& statements) {
  MarkedText out;
  execute(statements, out);
  return out;
}

void Evaluator::output(MarkedText& out, const MarkedText& text) {
  if (static_cast<int64_t>(out.size() + text.size()) > budget_.limits().output_bytes) {
    fail("the text has more than {} bytes", budget_.limits().output_bytes);
  }
  budget_.text(text.size());
  out.append(text);
}

Evaluator::Flow Evaluator::execute(const Statements& statements, MarkedText& out) {
  for (const Statement& statement : statements) {
    if (const Flow flow = execute(statement, out); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::execute(const Statement& statement, MarkedText& out) {
  const Place place(*this, statement.line);
  switch (statement.kind) {
    case StatementKind::kText:
      output(out, statement.text);
      break;
    case StatementKind::kOutput:
      output(out, text_of(evaluate(*statement.expression), budget_));
      break;
    case StatementKind::kSet:
      assign(statement.target, evaluate(*statement.expression));
      break;
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock: {
      Value text = make_text(block(statement.body), budget_);
      if (statement.expression != nullptr) {
        const Inner inner(*this, scope_);
        scope_->set(kBlockText, text);
        text = evaluate(*statement.expression);
      }
      if (statement.kind == StatementKind::kFilterBlock) {
        output(out, text_of(text, budget_));
      } else {
        assign(statement.target, text);
      }
      break;
    }
    case StatementKind::kIf:
      return branch(statement, out);
    case StatementKind::kFor:
      run_loop(statement, evaluate(*statement.expression), 0, out);
      break;
    case StatementKind::kMacro: {
      scope_->set(statement.name, std::shared_ptr<Object>(std::make_shared<Macro>(statement, scope_)));
      break;
    }
    case StatementKind::kCallBlock: {
      const Value caller(std::shared_ptr<Object>(std::make_shared<Macro>(statement, scope_)));
      output(out, text_of(called(*statement.expression, caller), budget_));
      break;
    }
    case StatementKind::kWith: {
      std::vector<Value> given;
      for (const auto& [target, expression] : statement.assignments) given.push_back(evaluate(*expression));
      const Inner inner(*this, scope_);
      for (size_t i = 0; i < given.size(); ++i) assign(statement.assignments[i].first, given[i]);
      return execute(statement.body, out);
    }
    case StatementKind::kGeneration: {
      MarkedText text = block(statement.body);
      text.set_written();
      output(out, text);
      break;
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::branch(const Statement& statement, MarkedText& out) {
  for (const Branch& each : statement.branches) {
    if (truth(evaluate(*each.condition))) return execute(each.body, out);
  }
  return execute(statement.otherwise, out);
}

MarkedText Evaluator::block(const Statements& body) {
  const Inner inner(*this, scope_);
  MarkedText text;
  execute(body, text);
  return text;
}

void Evaluator::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const Value* held = scope_->find(target.name);
    auto* object = held != nullptr && held->object() != nullptr
                       ? dynamic_cast<Namespace*>(held->object()->get())
                       : nullptr;
    if (object == nullptr)
      fail("'{}' is no namespace, so '{}' of it cannot be set", target.name, target.attribute);
    return object->set(target.attribute, value, budget_);
  }
  if (target.several.empty()) return scope_->set(target.name, value);
  const std::vector<Value> items = items_of(value, budget_);
  if (items.size() != target.several.size())
    fail("{} values cannot be assigned to {} names", items.size(), target.several.size());
  for (size_t i = 0; i < items.size(); ++i) assign(target.several[i], items[i]);
}

void Evaluator::run_loop(const Statement& statement, const Value& over, int64_t depth, MarkedText& out) {
  const Place place(*this, statement.line);
  auto loop = std::make_shared<Loop>();
  loop->self = loop;
  loop->statement = &statement;
  loop->depth_of_loops = depth;
  for (const Value& item : items_of(over, budget_)) {
    if (statement.condition != nullptr) {
      const Inner inner(*this, scope_);
      assign(statement.target, item);
      if (!truth(evaluate(*statement.condition))) continue;
    }
    loop->items.push_back(item);
  }
  const Value variable(std::static_pointer_cast<Object>(loop));
  for (; loop->index < static_cast<int64_t>(loop->items.size()); ++loop->index) {
    budget_.steps();
    const Inner inner(*this, scope_);
    scope_->set("loop", variable);
    assign(statement.target, loop->items[static_cast<size_t>(loop->index)]);
    if (execute(statement.body, out) == Flow::kBreak) return;
  }
  if (!loop->items.empty() || statement.otherwise.empty()) return;
  const Inner inner(*this, scope_);
  execute(statement.otherwise, out);
}

Value Evaluator::run_macro(const Statement& macro, const std::shared_ptr<Scope>& defined_in,
                           Arguments arguments) {
  const Place place(*this, macro.line);
  const std::string name = macro.kind == StatementKind::kMacro ? macro.name : "caller";
  const Inner inner(*this, defined_in);
  std::erase_if(arguments.by_name, [&](const auto& given) {
    if (given.first != "caller") return false;
    scope_->set("caller", given.second);
    return true;
  });
  if (arguments.by_place.size() > macro.parameters.size())
    fail("{} takes at most {} arguments", name, macro.parameters.size());
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const auto given =
        std::ranges::find(arguments.by_name, parameter.name, [](const auto& each) { return each.first; });
    Value value = Value::undefined(fmt::format("the parameter '{}'", parameter.name));
    if (i < arguments.by_place.size()) {
      if (given != arguments.by_name.end()) fail("{} is given '{}' twice", name, parameter.name);
      value = arguments.by_place[i];
    } else if (given != arguments.by_name.end()) {
      value = given->second;
    } else if (parameter.otherwise != nullptr) {
      value = evaluate(*parameter.otherwise);
    }
    if (given != arguments.by_name.end()) arguments.by_name.erase(given);
    scope_->set(parameter.name, std::move(value));
  }
  if (!arguments.by_name.empty()) fail("{} has no parameter '{}'", name, arguments.by_name.front().first);
  MarkedText text;
  execute(macro.body, text);
  return make_text(std::move(text), budget_);
}

Value Evaluator::call(const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) fail("{} is undefined, so it cannot be called", callee.undefined_name());
  if (callee.object() == nullptr) fail("a {} cannot be called", callee.type_name());
  return (*callee.object())->call(std::move(arguments), *this);
}

}  // namespace longhaul::data::chat
