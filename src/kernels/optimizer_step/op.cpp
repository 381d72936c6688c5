#include "kernels/optimizer_step/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kernels/documents.h"
#include "kernels/optimizer_step/problem.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kOp = "optimizer_step";
constexpr double kAlmostOne = 0.999999999;

constexpr StepOption kBeta1{"beta1", 0.9, 0, kAlmostOne}, kBeta2{"beta2", 0.95, 0, kAlmostOne},
    kBeta3{"beta3", 0.995, 0, kAlmostOne};
constexpr StepOption kEps{"eps", 1e-8, 1e-300, 1}, kWeightDecay{"weight_decay", 0.1, 0, 100},
    kUpdateClip{"update_clip", 1, 1e-300, 1e6};
constexpr StepOption kSquareEps{"square_eps", 1e-30, 1e-300, 1},
    kResidualEps{"residual_eps", 1e-16, 1e-300, 1};
constexpr StepOption kNesterov{"nesterov", 1, 0, 1, true};
constexpr StepOption momentum_of(double published) { return {"momentum", published, 0, kAlmostOne}; }

constexpr StepOption kOfAdamw[] = {kBeta1, kBeta2, kEps, kWeightDecay};
constexpr StepOption kOfLamb[] = {
    kBeta1, kBeta2, kEps, kWeightDecay, {"nvlamb", 0, 0, 1, true}, {"l2", 0, 0, 1, true}};
constexpr StepOption kOfCame[] = {
    kBeta1,      kBeta2,     kBeta3,       kWeightDecay,
    kUpdateClip, kSquareEps, kResidualEps, {"correct_residuals", 0, 0, 1, true}};
constexpr StepOption kOfAdafactor[] = {momentum_of(0),
                                       kWeightDecay,
                                       {"form", 0, 0, 2, true},  // fairseq, torch, big_vision
                                       {"scale_by_weights", 1, 0, 1, true},
                                       {"relative_step", 1, 0, 1, true},
                                       kUpdateClip,
                                       kSquareEps};
constexpr StepOption kOfLion[] = {kBeta1, kBeta2, kWeightDecay, {"sign_fade", 0, 0, 1e6}};
constexpr StepOption kOfMuon[] = {momentum_of(0.95),
                                  kWeightDecay,
                                  kNesterov,
                                  {"original_scale", 0, 0, 1, true},
                                  {"iterations", 5, 1, 100, true},
                                  {"bf16_products", 0, 0, 1, true}};
constexpr StepOption kOfSm3[] = {momentum_of(0.9), kWeightDecay, kSquareEps};
constexpr StepOption kOfSgd[] = {momentum_of(0.9), kWeightDecay, kNesterov};

constexpr StepRule kStepRules[] = {
    {"adamw", kOfAdamw}, {"lamb", kOfLamb}, {"came", kOfCame}, {"adafactor", kOfAdafactor},
    {"lion", kOfLion},   {"muon", kOfMuon}, {"sm3", kOfSm3},   {"sgd", kOfSgd}};

const StepRule& rule_named(const std::string& name) {
  const auto found = std::ranges::find(kStepRules, name, &StepRule::name);
  if (found != std::end(kStepRules)) return *found;
  std::vector<std::string_view> names;
  for (const StepRule& rule : kStepRules) names.push_back(rule.name);
  refuse_argument(kOp, "name", fmt::format("{}", fmt::join(names, ", ")), name);
}

struct StateShape {
  std::string_view kind;
  std::vector<int64_t> sizes;
};

// The table of op.h.
std::vector<StateShape> states_of(const StepOptions& options, const std::vector<int64_t>& sizes) {
  const std::string_view name = options.rule().name;
  if (name == "adamw" || name == "lamb") return {{"m", sizes}, {"v", sizes}};
  std::vector<StateShape> states;
  if (name == "lion" || name == "came" || name == "muon" || options["momentum"] > 0)
    states.push_back({"momentum", sizes});
  if (name == "lion" || name == "sgd" || name == "muon") return states;
  const bool bounds = name == "sm3";
  if (sizes.size() < 2) {
    states.push_back({bounds ? "sum_of_squares" : "second_moment", sizes});
    return states;
  }
  std::vector<int64_t> rows(sizes.begin(), sizes.end() - 1), columns = rows;
  columns.back() = sizes.back();
  states.push_back({bounds ? "row_bound" : "row_mean", rows});
  states.push_back({bounds ? "column_bound" : "column_mean", columns});
  if (name == "came")
    states.push_back({"row_residual", rows}), states.push_back({"column_residual", columns});
  return states;
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

void check_values(const StepOptions& options, const std::vector<Tensor>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Tensor& value = values[i];
    const bool right = (value.is_cpu() || value.is_meta()) && value.device() == values[0].device() &&
                       value.scalar_type() == values[0].scalar_type() &&
                       (value.scalar_type() == at::kFloat || value.scalar_type() == at::kDouble);
    if (!right)
      refuse_argument(kOp, indexed("values", i).c_str(),
                      "fp32, or all of them fp64, on the CPU (master weights; round copies from them)",
                      shape_text(value));
    if (options.rule().name == "muon" && value.dim() < 2)
      refuse_argument(kOp, indexed("values", i).c_str(),
                      "muon: matrices [n, m], or stacks of them; give the others to adamw",
                      shape_text(value));
  }
}

void check_arguments(const OptimizerStep& call, const StepOptions& options) {
  check_values(options, call.values);
  if (call.gradients.size() != call.values.size())
    refuse_argument(kOp, "gradients", fmt::format("{}, one for each of values", call.values.size()),
                    std::to_string(call.gradients.size()));
  size_t next = 0;
  for (size_t i = 0; i < call.values.size(); ++i) {
    const Tensor& value = call.values[i];
    require_like(indexed("gradients", i), "", call.gradients[i], value.sizes().vec(), value);
    for (const StateShape& state : states_of(options, value.sizes().vec())) {
      if (next < call.states.size())
        require_like(indexed("states", next), fmt::format("{} of {}: ", state.kind, indexed("values", i)),
                     call.states[next], state.sizes, value);
      ++next;
    }
  }
  if (next != call.states.size())
    refuse_argument(
        kOp, "states",
        fmt::format("{} of {} for these {} values", next, options.rule().name, call.values.size()),
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

template <class Real>
Real*& place_of(StepMatrix<Real>& matrix, std::string_view kind) {
  if (kind == "m") return matrix.first;
  if (kind == "v") return matrix.second;
  if (kind == "momentum") return matrix.momentum;
  if (kind == "row_mean" || kind == "row_bound") return matrix.row_mean;
  if (kind == "column_mean" || kind == "column_bound") return matrix.column_mean;
  if (kind == "row_residual") return matrix.row_residual;
  return kind == "column_residual" ? matrix.column_residual : matrix.whole;
}

template <class Real>
void run(const OptimizerStep& call, const StepOptions& options) {
  StepProblem<Real> problem{.matrices = {}, .options = options, .step = call.step, .lr = call.lr};
  SideBySide memory;
  size_t next = 0;
  for (size_t i = 0; i < call.values.size(); ++i) {
    const Tensor& value = call.values[i];
    const std::vector<int64_t> sizes = value.sizes().vec();
    StepMatrix<Real> matrix{.vector = sizes.size() < 2, .rows = 1, .columns = value.numel()};
    if (!matrix.vector) matrix.rows = sizes[sizes.size() - 2], matrix.columns = sizes.back();
    matrix.value = memory.written<Real>(value), matrix.gradient = memory.read<Real>(call.gradients[i]);
    std::vector<std::pair<std::string_view, Real*>> states;
    for (const StateShape& state : states_of(options, sizes))
      states.emplace_back(state.kind, memory.written<Real>(call.states[next++]));
    const int64_t elements = matrix.elements();
    for (int64_t k = 0; elements > 0 && k < value.numel() / elements; ++k) {
      StepMatrix<Real> each = matrix;
      each.value += k * elements, each.gradient += k * elements;
      for (const auto& [kind, memory_of_state] : states) {
        const int64_t length = kind.starts_with("row_")      ? matrix.rows
                               : kind.starts_with("column_") ? matrix.columns
                                                             : elements;
        place_of(each, kind) = memory_of_state + k * length;
      }
      problem.matrices.push_back(each);
    }
  }
  const std::string_view name = options.rule().name;
  (name == "came"        ? step_of_came<Real>
   : name == "adafactor" ? step_of_adafactor<Real>
   : name == "sm3"       ? step_of_sm3<Real>
   : name == "muon"      ? step_of_muon<Real>
                         : step_of_elements<Real>)(problem);
  memory.give_back();
}

}  // namespace

std::span<const StepRule> step_rules() { return kStepRules; }

StepOptions::StepOptions(const StepRule& rule, const std::vector<double>& given)
    : rule_(&rule), numbers_(given) {
  const auto named = [&](size_t i) { return fmt::format("{} (options[{}])", rule.options[i].name, i); };
  if (given.size() > rule.options.size()) {
    std::vector<std::string_view> names;
    for (const StepOption& option : rule.options) names.push_back(option.name);
    refuse_argument(
        kOp, "options",
        fmt::format("at most {} numbers for {}: {}", names.size(), rule.name, fmt::join(names, ", ")),
        std::to_string(given.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const StepOption& option = rule.options[i];
    if (given[i] >= option.least && given[i] <= option.most &&
        (!option.whole || given[i] == std::floor(given[i])))
      continue;
    refuse_argument(kOp, named(i).c_str(),
                    fmt::format("{}{} to {}", option.whole ? "a whole number from " : "a number from ",
                                option.least, option.most),
                    fmt::format("{}", given[i]));
  }
  for (size_t i = given.size(); i < rule.options.size(); ++i) numbers_.push_back(rule.options[i].initial);
}

double StepOptions::operator[](std::string_view name) const {
  const auto found = std::ranges::find(rule_->options, name, &StepOption::name);
  LONGHAUL_ASSERT(found != rule_->options.end(), "{} has no option {}", rule_->name, name);
  return numbers_[static_cast<size_t>(found - rule_->options.begin())];
}

void optimizer_step(const OptimizerStep& call) {
  const StepOptions options(rule_named(call.name), call.options);
  check_arguments(call, options);
  if (options.rule().name == "adafactor" && options["form"] == 1 && options["momentum"] > 0)
    refuse_argument(kOp, "momentum (options[0])", "0: torch's form of adafactor has none",
                    fmt::format("{}", options["momentum"]));
  if (call.values.empty() || call.values[0].is_meta()) return;
  const at::NoGradGuard no_grad;
  call.values[0].scalar_type() == at::kDouble ? run<double>(call, options) : run<float>(call, options);
}

std::vector<NamedState> optimizer_states(const std::string& name, const std::vector<Tensor>& values,
                                         const std::vector<double>& options) {
  const StepOptions of_rule(rule_named(name), options);
  check_values(of_rule, values);
  std::vector<NamedState> states;
  for (const Tensor& value : values) {
    for (const StateShape& state : states_of(of_rule, value.sizes().vec()))
      states.push_back({state.kind, at::zeros(state.sizes, value.options().requires_grad(false))});
  }
  return states;
}

}  // namespace longhaul::kernels
