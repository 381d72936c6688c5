#include "kernels/optimizer_step/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "kernels/documents.h"
#include "kernels/optimizer_step/problem.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kOp = "optimizer_step";
// The last number of an optimizer of whole matrices. It is no option of a recipe, where train.dtype says it.
constexpr recipe::OptimizerOption kBf16Products = {
    .name = "bf16_products", .field = static_cast<bool recipe::OptimOptions::*>(nullptr), .help = {}};
template <class Real>
using Step = void (*)(const StepProblem<Real>&);

// The arithmetic of each entry of recipe/optimizers.
struct NamedStep {
  std::string_view name;
  Step<float> fp32;
  Step<double> fp64;
};
constexpr NamedStep kSteps[] = {
    {"adamw", step_of_adamw, step_of_adamw}, {"lamb", step_of_lamb, step_of_lamb},
    {"came", step_of_came, step_of_came},    {"adafactor", step_of_adafactor, step_of_adafactor},
    {"lion", step_of_lion, step_of_lion},    {"sm3", step_of_sm3, step_of_sm3},
    {"muon", step_of_muon, step_of_muon},    {"sgd", step_of_sgd, step_of_sgd}};

const NamedStep& step_named(const std::string& name) {
  const auto found = std::ranges::find(kSteps, name, &NamedStep::name);
  if (found != std::end(kSteps)) return *found;
  std::vector<std::string_view> names;
  for (const NamedStep& step : kSteps) names.push_back(step.name);
  refuse_argument(kOp, "name", fmt::format("{}", fmt::join(names, ", ")), name);
}

// The numbers of a call, as a recipe has them.
struct StepOptions {
  recipe::OptimOptions options;
  bool bf16_products = false;
};

[[noreturn]] void refuse_option(std::string_view name, size_t index, const std::string& expected,
                                double found) {
  refuse_argument(kOp, fmt::format("{} (options[{}])", name, index).c_str(), expected,
                  fmt::format("{}", found));
}

void require_in_range(const recipe::OptimizerOption& option, size_t index, double number) {
  const double least = option.published ? -1 : option.least;
  const bool right = (option.above ? number > least : number >= least) && number <= option.most &&
                     (!option.whole() || number == std::floor(number));
  if (right) return;
  refuse_option(option.name, index,
                option.above ? fmt::format("a number above {} and at most {}", least, option.most)
                             : fmt::format("a {}number from {} to {}", option.whole() ? "whole " : "", least,
                                           option.most),
                number);
}

// kUsage for too many numbers, and for numbers out of range.
StepOptions options_of(const OptimizerStep& call) {
  const recipe::OptimizerEntry& entry = recipe::optimizer_entry(step_named(call.name).name);
  std::vector<std::string_view> names;
  for (const recipe::OptimizerOption* option : entry.options) names.push_back(option->name);
  if (entry.whole_matrices) names.emplace_back(kBf16Products.name);
  if (call.options.size() > names.size())
    refuse_argument(
        kOp, "options",
        fmt::format("at most {} numbers for {}: {}", names.size(), entry.name, fmt::join(names, ", ")),
        std::to_string(call.options.size()));
  StepOptions result{.options = {.name = call.name}};
  for (size_t i = 0; i < call.options.size(); ++i) {
    const bool of_entry = i < entry.options.size();
    require_in_range(of_entry ? *entry.options[i] : kBf16Products, i, call.options[i]);
    if (of_entry)
      recipe::set_number(result.options, *entry.options[i], call.options[i]);
    else
      result.bf16_products = call.options[i] != 0;
  }
  if (const auto refusal = recipe::refusal_of(result.options)) {
    const auto at = static_cast<size_t>(std::ranges::find(names, refusal->option) - names.begin());
    refuse_option(refusal->option, at, fmt::format("{}: {}", refusal->expected, refusal->reason),
                  recipe::number_of(result.options, *entry.options[at]));
  }
  return result;
}

struct StateShape {
  std::string_view kind;
  std::vector<int64_t> sizes;
  recipe::OptimizerState::Of of;
};

// The states of a tensor, or of a stack of matrices, with their shapes.
std::vector<StateShape> state_shapes(const recipe::OptimOptions& options, const std::vector<int64_t>& sizes) {
  using enum recipe::OptimizerState::Of;
  const bool vector = sizes.size() < 2;
  std::vector<StateShape> shapes;
  for (const recipe::OptimizerState& state : recipe::states_of(options)) {
    const bool along = state.of == kRows || state.of == kColumns;
    if (vector ? along : state.of == kVector) continue;
    std::vector<int64_t> own = sizes;
    if (along) own.erase(own.end() - (state.of == kRows ? 1 : 2));
    shapes.push_back({state.kind, std::move(own), state.of});
  }
  return shapes;
}

std::string indexed(const char* list, size_t i) { return fmt::format("{}[{}]", list, i); }

std::string expected_like(const std::vector<int64_t>& sizes, const Tensor& like) {
  return fmt::format("[{}] {} on {}", fmt::join(sizes, ", "), name_of(like.scalar_type()),
                     like.device().str());
}

void require_like(const std::string& argument, const std::string& what, const Tensor& found,
                  const std::vector<int64_t>& sizes, const Tensor& like) {
  if (found.sizes() == at::IntArrayRef(sizes) && found.scalar_type() == like.scalar_type() &&
      found.device() == like.device())
    return;
  refuse_argument(kOp, argument.c_str(), what + expected_like(sizes, like), shape_text(found));
}

void check_values(const recipe::OptimOptions& options, const std::vector<Tensor>& values) {
  const bool matrices = recipe::optimizer_entry(options.name).whole_matrices;
  for (size_t i = 0; i < values.size(); ++i) {
    const Tensor& value = values[i];
    const bool right = (value.is_cpu() || value.is_meta()) && value.device() == values[0].device() &&
                       value.scalar_type() == values[0].scalar_type() &&
                       (value.scalar_type() == at::kFloat || value.scalar_type() == at::kDouble);
    if (!right)
      refuse_argument(kOp, indexed("values", i).c_str(),
                      "fp32, or all of them fp64, on the CPU (master weights; round copies from them)",
                      shape_text(value));
    if (matrices && value.dim() < 2)
      refuse_argument(kOp, indexed("values", i).c_str(),
                      fmt::format("{}: matrices [n, m], or stacks of them; give the others to {}",
                                  options.name, recipe::optimizer_entry(options.name).beside),
                      shape_text(value));
  }
}

void check_arguments(const OptimizerStep& call, const recipe::OptimOptions& options) {
  check_values(options, call.values);
  if (call.gradients.size() != call.values.size())
    refuse_argument(kOp, "gradients", fmt::format("{}, one for each of values", call.values.size()),
                    std::to_string(call.gradients.size()));
  size_t next = 0;
  for (size_t i = 0; i < call.values.size(); ++i) {
    const Tensor& value = call.values[i];
    require_like(indexed("gradients", i), "", call.gradients[i], value.sizes().vec(), value);
    for (const StateShape& state : state_shapes(options, value.sizes().vec())) {
      if (next < call.states.size())
        require_like(indexed("states", next), fmt::format("{} of {}: ", state.kind, indexed("values", i)),
                     call.states[next], state.sizes, value);
      ++next;
    }
  }
  if (next != call.states.size())
    refuse_argument(kOp, "states",
                    fmt::format("{} of {} for these {} values", next, options.name, call.values.size()),
                    std::to_string(call.states.size()));
  if (call.step < 1) refuse_argument(kOp, "step", "1 or more", std::to_string(call.step));
  if (!(call.lr >= 0) || !std::isfinite(call.lr))
    refuse_argument(kOp, "lr", "0 or more", fmt::format("{}", call.lr));
}

// Written tensors whose numbers do not lie side by side are worked on as copies.
class SideBySide {
 public:
  template <class Real>
  Real* written(const Tensor& tensor) {
    if (tensor.is_contiguous()) return tensor.mutable_data_ptr<Real>();
    copies_.emplace_back(tensor, tensor.contiguous());
    return copies_.back().second.mutable_data_ptr<Real>();
  }
  template <class Real>
  Real* read(const Tensor& tensor) {  // loops leave it alone where they are told to
    kept_.push_back(tensor.contiguous());
    return const_cast<Real*>(kept_.back().const_data_ptr<Real>());
  }
  void give_back() {
    for (const auto& [to, from] : copies_) to.copy_(from);
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> copies_;
  std::vector<Tensor> kept_;
};

// `nth`: of the states of its kind, in the order of the entry.
template <class Real>
Real*& place_of(StepMatrix<Real>& matrix, recipe::OptimizerState::Of of, size_t nth) {
  using enum recipe::OptimizerState::Of;
  if (of == kRows) return matrix.row_states.at(nth);
  if (of == kColumns) return matrix.column_states.at(nth);
  LONGHAUL_ASSERT(nth == 0, "the operator has no place for {} states of one kind", nth + 1);
  return of == kFirstMoment ? matrix.first : of == kSecondMoment ? matrix.second : matrix.whole;
}

template <class Real>
void run(const OptimizerStep& call, const StepOptions& options, Step<Real> step) {
  StepProblem<Real> problem{.matrices = {},
                            .options = options.options,
                            .bf16_products = options.bf16_products,
                            .step = call.step,
                            .lr = call.lr};
  SideBySide memory;
  size_t next = 0;
  for (size_t i = 0; i < call.values.size(); ++i) {
    const Tensor& value = call.values[i];
    const std::vector<int64_t> sizes = value.sizes().vec();
    StepMatrix<Real> matrix{.vector = sizes.size() < 2, .rows = 1, .columns = value.numel()};
    if (!matrix.vector) matrix.rows = sizes[sizes.size() - 2], matrix.columns = sizes.back();
    matrix.value = memory.written<Real>(value), matrix.gradient = memory.read<Real>(call.gradients[i]);
    const std::vector<StateShape> shapes = state_shapes(options.options, sizes);
    std::vector<Real*> states;
    for (size_t k = 0; k < shapes.size(); ++k) states.push_back(memory.written<Real>(call.states[next++]));
    const int64_t elements = matrix.elements();
    for (int64_t k = 0; elements > 0 && k < value.numel() / elements; ++k) {
      StepMatrix<Real> each = matrix;
      each.value += k * elements, each.gradient += k * elements;
      for (size_t s = 0; s < shapes.size(); ++s) {
        using enum recipe::OptimizerState::Of;
        const int64_t length = shapes[s].of == kRows      ? matrix.rows
                               : shapes[s].of == kColumns ? matrix.columns
                                                          : elements;
        const auto before = std::span(shapes).first(s);
        const auto nth = std::ranges::count(before, shapes[s].of, &StateShape::of);
        place_of(each, shapes[s].of, static_cast<size_t>(nth)) = states[s] + k * length;
      }
      problem.matrices.push_back(each);
    }
  }
  step(problem);
  memory.give_back();
}

}  // namespace

void optimizer_step(const OptimizerStep& call) {
  const NamedStep& step = step_named(call.name);
  const StepOptions options = options_of(call);
  check_arguments(call, options.options);
  if (call.values.empty() || call.values[0].is_meta()) return;
  const at::NoGradGuard no_grad;
  if (call.values[0].scalar_type() == at::kDouble)
    run<double>(call, options, step.fp64);
  else
    run<float>(call, options, step.fp32);
}

std::vector<NamedState> optimizer_states(const std::string& name, const std::vector<Tensor>& values,
                                         const std::vector<double>& numbers) {
  const recipe::OptimOptions options = options_of(OptimizerStep{.name = name, .options = numbers}).options;
  check_values(options, values);
  std::vector<NamedState> states;
  for (const Tensor& value : values) {
    for (const StateShape& state : state_shapes(options, value.sizes().vec()))
      states.push_back({state.kind, at::zeros(state.sizes, value.options().requires_grad(false))});
  }
  return states;
}

}  // namespace longhaul::kernels
