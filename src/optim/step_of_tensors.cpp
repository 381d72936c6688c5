#include "optim/step_of_tensors.h"

#include <fmt/format.h>

#include <functional>
#include <map>

#include "base/error.h"
#include "optim/optimizer.h"
#include "recipe/optimizers.h"

namespace longhaul::optim {
namespace {

using recipe::OptimOptions;

[[noreturn]] void refuse_argument(const std::string& argument, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "optimizer_step: bad argument " + argument,
               .expected = std::move(expected),
               .found = std::move(found),
               .where = "optimizer_step",
               .hint = "docs/reference/python-operators.md lists options and states"});
}

struct Number {
  const char* name;
  double least, most;
  std::function<void(OptimOptions& options, double value)> set;
};

Number real(const char* name, double OptimOptions::*field, double most) {
  return {name, 0, most, [field](OptimOptions& options, double value) { options.*field = value; }};
}
Number decay(const char* name, double OptimOptions::*field) { return real(name, field, 0.999999999); }
Number flag(const char* name, bool OptimOptions::*field) {
  return {name, 0, 1, [field](OptimOptions& options, double value) { options.*field = value != 0; }};
}

const std::map<std::string, std::vector<Number>>& numbers_of_optimizers() {
  static const std::map<std::string, std::vector<Number>> numbers = [] {
    using O = OptimOptions;
    const Number beta1 = decay("beta1", &O::beta1), beta2 = decay("beta2", &O::beta2), eps = real("eps", &O::eps, 1),
                 weight_decay = real("weight_decay", &O::weight_decay, 100), momentum = decay("momentum", &O::momentum),
                 square_eps = real("square_eps", &O::square_eps, 1), update_clip = real("update_clip", &O::update_clip, 1e6),
                 nesterov = flag("nesterov", &O::nesterov);
    const Number l2{"l2", 0, 1, [](O& o, double v) { o.lamb_decay = v != 0 ? recipe::LambDecay::kL2 : recipe::LambDecay::kDecoupled; }};
    const Number form{"form", 0, 2, [](O& o, double v) { o.adafactor_form = static_cast<recipe::AdafactorForm>(static_cast<int>(v)); }};
    const Number original{"original_scale", 0, 1,
                          [](O& o, double v) { o.muon_scale = v != 0 ? recipe::MuonScale::kOriginal : recipe::MuonScale::kMatchRms; }};
    const Number iterations{"iterations", 1, 100, [](O& o, double v) { o.muon_iterations = static_cast<int64_t>(v); }};
    return std::map<std::string, std::vector<Number>>{
        {"adamw", {beta1, beta2, eps, weight_decay}},
        {"lamb", {beta1, beta2, eps, weight_decay, flag("nvlamb", &O::nvlamb), l2}},
        {"came",
         {beta1, beta2, decay("beta3", &O::beta3), weight_decay, square_eps, real("residual_eps", &O::residual_eps, 1), update_clip}},
        {"adafactor",
         {momentum, weight_decay, square_eps, update_clip, form, flag("scale_by_weights", &O::scale_by_weights),
          flag("relative_step", &O::relative_step)}},
        {"lion", {beta1, beta2, weight_decay}},
        {"muon", {momentum, weight_decay, nesterov, original, iterations, beta1, beta2, eps}},
        {"sm3", {momentum, weight_decay, square_eps}},
        {"sgd", {momentum, weight_decay, nesterov}}};
  }();
  return numbers;
}

OptimOptions options_of(const std::string& name, std::span<const double> given) {
  const auto found = numbers_of_optimizers().find(name);
  if (found == numbers_of_optimizers().end()) {
    std::string names;
    for (const auto& [each, numbers] : numbers_of_optimizers()) names += (names.empty() ? "" : ", ") + each;
    refuse_argument("name", names, name);
  }
  const std::vector<Number>& numbers = found->second;
  if (given.size() > numbers.size())
    refuse_argument("options", fmt::format("at most {} numbers", numbers.size()), fmt::format("{}", given.size()));
  OptimOptions options{.name = name};
  for (size_t i = 0; i < given.size(); ++i) {
    if (!(given[i] >= numbers[i].least && given[i] <= numbers[i].most)) {
      refuse_argument(fmt::format("options[{}] ({})", i, numbers[i].name), fmt::format("{} to {}", numbers[i].least, numbers[i].most),
                      fmt::format("{}", given[i]));
    }
    numbers[i].set(options, given[i]);
  }
  return options;
}

std::string text_of(const Tensor& tensor) {
  return fmt::format("{} of {}", name_of(tensor.scalar_type()), layout::shape_text(tensor.sizes().vec()));
}

void require_values(std::span<const Tensor> values, std::span<const Tensor> gradients) {
  if (gradients.size() != values.size())
    refuse_argument("gradients", fmt::format("{} tensors, as values", values.size()), fmt::format("{}", gradients.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const Tensor& value = values[i];
    const ScalarType type = value.scalar_type();
    if ((type != at::kFloat && type != at::kDouble) || type != values[0].scalar_type() || value.dim() < 1 || value.dim() > 2)
      refuse_argument(fmt::format("values[{}]", i), "fp32 or fp64, all alike, of one or two dimensions", text_of(value));
    if (gradients[i].scalar_type() != type || gradients[i].sizes() != value.sizes() || gradients[i].device() != value.device())
      refuse_argument(fmt::format("gradients[{}]", i), text_of(value), text_of(gradients[i]));
  }
}

std::string tensor_name(size_t i) { return fmt::format("tensor.{}", i); }

model::ParameterSet set_of(std::span<const Tensor> values, const Precision& precision) {
  std::vector<layout::ParameterSpec> specs;
  for (size_t i = 0; i < values.size(); ++i) {
    layout::ParameterSpec spec;
    spec.tensor = {tensor_name(i), values[i].sizes().vec(), layout::Role::kChannelUp};
    spec.layer = 0;
    spec.decay = true;
    specs.push_back(spec);
  }
  model::ParameterSet set(specs, precision, values[0].device());
  for (size_t i = 0; i < values.size(); ++i) set.add_stacked(tensor_name(i), {tensor_name(i)});
  set.allocate();
  return set;
}

}  // namespace

void step_of_tensors(const std::string& name, std::span<const Tensor> values, std::span<const Tensor> gradients,
                     std::span<const Tensor> states, int64_t step, double lr, std::span<const double> options) {
  const at::NoGradGuard no_grad;
  const OptimOptions of = options_of(name, options);
  if (step < 1) refuse_argument("step", "at least 1", fmt::format("{}", step));
  require_values(values, gradients);
  if (values.empty()) return;
  const Precision precision = Precision::named(values[0].scalar_type() == at::kDouble ? "fp64" : "fp32");
  model::ParameterSet set = set_of(values, precision);
  for (size_t i = 0; i < values.size(); ++i) {
    set.all()[i]->value.detach().copy_(values[i]);
    set.all()[i]->grad.copy_(gradients[i]);
  }
  const auto optimizer = make_optimizer(of, set, precision);
  optimizer->take_masters_from_values();
  std::map<std::string, std::vector<StateTensor>> kept;  // by tensor, in the order of the table
  for (StateTensor& each : optimizer->state()) {
    if (each.kind != "master") kept[each.name].push_back(std::move(each));
  }
  std::vector<StateTensor> own;
  for (size_t i = 0; i < values.size(); ++i) {
    for (StateTensor& each : kept[tensor_name(i)]) own.push_back(std::move(each));
  }
  if (states.size() != own.size())
    refuse_argument("states", fmt::format("{} tensors of {}", own.size(), name), fmt::format("{}", states.size()));
  for (size_t i = 0; i < own.size(); ++i) {
    if (states[i].sizes() != own[i].view.sizes() || states[i].scalar_type() != own[i].view.scalar_type())
      refuse_argument(fmt::format("states[{}] ({} of {})", i, own[i].kind, own[i].name), text_of(own[i].view), text_of(states[i]));
    own[i].view.copy_(states[i]);
  }
  optimizer->set_steps(step - 1);
  optimizer->step({.lr = lr});
  for (size_t i = 0; i < values.size(); ++i) values[i].copy_(set.all()[i]->value.detach());
  for (size_t i = 0; i < own.size(); ++i) states[i].copy_(own[i].view);
}

}  // namespace longhaul::optim
