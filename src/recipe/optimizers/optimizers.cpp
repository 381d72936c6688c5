#include "recipe/optimizers/optimizers.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::recipe {

extern const OptimizerEntry kAdamw, kLamb, kCame, kAdafactor, kLion, kSm3, kMuon, kSgd;

namespace {

constexpr const OptimizerEntry* kOptimizers[] = {&kAdamw, &kLamb, &kCame, &kAdafactor,
                                                 &kLion,  &kSm3,  &kMuon, &kSgd};

}  // namespace

std::span<const OptimizerEntry* const> optimizers() { return kOptimizers; }

const OptimizerEntry* find_optimizer(std::string_view name) {
  const auto* const found = std::ranges::find(kOptimizers, name, &OptimizerEntry::name);
  return found == std::end(kOptimizers) ? nullptr : *found;
}

const OptimizerEntry& optimizer_entry(std::string_view name) {
  const OptimizerEntry* found = find_optimizer(name);
  LONGHAUL_ASSERT(found != nullptr, "no optimizer is called {}", name);
  return *found;
}

double momentum_of(const OptimOptions& options) {
  return options.momentum >= 0 ? options.momentum : optimizer_entry(options.name).momentum;
}

WidthRule width_rule_of(const OptimOptions& options) {
  const auto rule = optimizer_entry(options.name).width_rule;
  return rule == nullptr ? WidthRule::kUnknown : rule(options);
}

std::optional<OptimizerRefusal> refusal_of(const OptimOptions& options) {
  const auto refusal = optimizer_entry(options.name).refusal;
  return refusal == nullptr ? std::nullopt : refusal(options);
}

bool reads(const OptimizerEntry& entry, std::string_view option) {
  if (std::ranges::find(entry.options, option, &OptimizerOption::name) != entry.options.end()) return true;
  return !entry.beside.empty() && reads(optimizer_entry(entry.beside), option);
}

std::vector<std::string_view> readers_of(const OptimizerOption& option) {
  std::vector<std::string_view> names;
  for (const OptimizerEntry* entry : kOptimizers) {
    if (std::ranges::find(entry->options, option.name, &OptimizerOption::name) != entry->options.end())
      names.push_back(entry->name);
  }
  return names;
}

double number_of(const OptimOptions& options, const OptimizerOption& option) {
  return std::visit([&](auto field) { return static_cast<double>(options.*field); }, option.field);
}

void set_number(OptimOptions& options, const OptimizerOption& option, double number) {
  const auto set = [&](auto field) {
    using Value = std::remove_reference_t<decltype(options.*field)>;
    options.*field =
        static_cast<Value>(static_cast<std::conditional_t<std::is_enum_v<Value>, int, Value>>(number));
  };
  std::visit(set, option.field);
}

std::vector<OptimizerState> states_of(const OptimOptions& options) {
  std::vector<OptimizerState> states;
  for (const OptimizerState& state : optimizer_entry(options.name).states) {
    if (!state.with_momentum || momentum_of(options) > 0) states.push_back(state);
  }
  return states;
}

StateElements state_elements(const OptimOptions& options, const std::vector<int64_t>& shape) {
  int64_t each = 1;
  for (const int64_t size : shape) each *= size;
  const bool matrix = shape.size() == 2;
  StateElements elements;
  for (const OptimizerState& state : states_of(options)) {
    using enum OptimizerState::Of;
    if (state.of == kFirstMoment) elements.first += each;
    if (state.of == kSecondMoment || (state.of == kVector && !matrix)) elements.second += each;
    if (matrix && state.of == kRows) elements.factors += shape[0];
    if (matrix && state.of == kColumns) elements.factors += shape[1];
  }
  return elements;
}

}  // namespace longhaul::recipe
