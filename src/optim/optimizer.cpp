#include "optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "layout/width.h"
#include "optim/optimizers/adafactor.h"
#include "optim/optimizers/adamw.h"
#include "optim/optimizers/came.h"
#include "optim/optimizers/grouped.h"
#include "optim/optimizers/lamb.h"
#include "optim/optimizers/lion.h"
#include "optim/optimizers/muon.h"
#include "optim/optimizers/sgd.h"
#include "optim/optimizers/sm3.h"
#include "recipe/optimizers/optimizers.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::optim {

Members::Members(model::ParameterSet& set, Precision of, uint64_t seed_of_run)
    : parameters(set), precision(of), seed(seed_of_run) {
  for (const auto& parameter : set.all()) {
    const Tensor& value = parameter->own_value;
    const bool shared = !parameter->trainable() || value.scalar_type() == precision.master;
    masters.push_back(shared ? value : at::empty_like(value, value.options().dtype(precision.master)));
    if (!shared) masters.back().copy_(value);
  }
}

Optimizer::Optimizer(Members members) : members_(std::move(members)) {}

void Optimizer::take_masters_from_values() {
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Tensor& value = parameters()[i]->own_value;
    if (!master(i).is_alias_of(value)) master(i).copy_(value);
  }
}

void Optimizer::refresh_value(size_t parameter) const {
  const Tensor &value = parameters()[parameter]->own_value, &master = members_.masters[parameter];
  if (!master.is_alias_of(value)) value.copy_(master);
}

void Optimizer::refresh_values() {
  for (size_t i = 0; i < parameters().size(); ++i) {
    refresh_value(i);
    parameters()[i]->written();
  }
}

void Optimizer::refresh_members(const StepSettings& settings, Parts which) const {
  for (size_t p = 0; p < parameters().size(); ++p) {
    const model::Parameter& parameter = *parameters()[p];
    if (!parameter.trainable()) continue;
    for (size_t part = 0; part < parameter.parts.size(); ++part) {
      const layout::ParameterSpec& spec = parameter.parts[part].spec;
      if (!members_.has(spec) || (which == Parts::kFrozen && spec.trainable)) continue;
      const layout::Range run = parameter.own_run_of(part);
      const auto cut = [&](const Tensor& storage) { return storage.narrow(0, run.begin, run.length); };
      if (!members_.masters[p].is_alias_of(parameter.own_value))
        cut(parameter.own_value).copy_(cut(members_.masters[p]));
      if (settings.zero_gradients) cut(parameter.own_grad).zero_();
    }
  }
}

std::vector<Shard> Optimizer::shards() const {
  std::vector<Shard> result;
  for (size_t p = 0; p < parameters().size(); ++p) {
    model::Parameter& parameter = *parameters()[p];
    if (!parameter.trainable()) continue;
    for (size_t part = 0; part < parameter.parts.size(); ++part) {
      const layout::ParameterSpec& spec = parameter.parts[part].spec;
      if (!spec.trainable || !members_.has(spec)) continue;
      result.push_back({&parameter, part, parameter.own_part_of(members_.masters[p], part),
                        parameter.own_part_of(parameter.own_grad, part)});
    }
  }
  return result;
}

void Optimizer::set_steps(int64_t steps) {
  LONGHAUL_ASSERT(steps >= 0, "steps {}", steps);
  steps_ = steps;
}

void Optimizer::adopt(Optimizer& of_some, double lr_factor) {
  for (size_t moment = 0; moment < of_some.phases_.size(); ++moment) {
    if (moment == phases_.size()) phases_.emplace_back();
    for (Phase& phase : of_some.phases_[moment]) {
      const auto run = [this, &of_some, lr_factor, own = phase.run](StepSettings settings) {
        of_some.steps_ = steps_;
        settings.lr *= lr_factor;
        own(settings);
      };
      phases_[moment].push_back({phase.name, phase.partials, run});
    }
  }
}

void Optimizer::step(const StepSettings& settings, const Reducer& reduce) {
  const at::NoGradGuard no_grad;
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  for (const std::vector<Phase>& together : phases_) {
    std::vector<Partials*> partials;
    for (const Phase& phase : together) {
      if (phase.partials == nullptr) continue;
      phase.partials->clear(members_.parameters.device());
      partials.push_back(phase.partials);
    }
    for (const Phase& phase : together) phase.run(settings);
    if (reduce) Partials::reduce(partials, reduce);
  }
  for (const auto& parameter : parameters()) {
    if (parameter->trainable()) parameter->written();
  }
  ++steps_;
}

void Optimizer::append_masters(std::vector<StateTensor>& to) const {
  for (size_t p = 0; p < parameters().size(); ++p) append_masters(to, p);
}

void Optimizer::append_masters(std::vector<StateTensor>& to, size_t parameter) const {
  const model::Parameter& holder = *parameters()[parameter];
  for (size_t part = 0; part < holder.parts.size(); ++part) {
    if (!members_.has(holder.parts[part].spec)) continue;
    to.push_back(
        state_of_part(holder, part, "master", holder.own_part_of(members_.masters[parameter], part)));
  }
}

namespace {

template <class T>
std::unique_ptr<Optimizer> make(const recipe::OptimOptions& options, Members members) {
  return std::make_unique<T>(options, std::move(members));
}

// The class of each entry of recipe/optimizers.
const std::map<std::string_view, decltype(&make<AdamW>)> kMakers = {
    {"adamw", make<AdamW>}, {"lamb", make<Lamb>}, {"came", make<Came>}, {"adafactor", make<Adafactor>},
    {"lion", make<Lion>},   {"sm3", make<Sm3>},   {"muon", make<Muon>}, {"sgd", make<Sgd>}};

void require_known(const std::string& name) {
  if (recipe::find_optimizer(name) != nullptr) return;
  std::vector<std::string_view> names;
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) names.push_back(entry->name);
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown optimizer",
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .found = name,
               .where = "optim.name",
               .hint = "optim.name=adamw"});
}

std::unique_ptr<Optimizer> make_named(const recipe::OptimOptions& options, Members members) {
  require_known(options.name);
  if (const std::optional<recipe::OptimizerRefusal> refusal = recipe::refusal_of(options)) {
    const std::string wanted = fmt::format("optim.{}={}", refusal->option, refusal->expected);
    throw Error({.code = ExitCode::kUsage,
                 .what = std::string(refusal->reason),
                 .expected = wanted,
                 .found = fmt::format("another optim.{}", refusal->option),
                 .where = fmt::format("optim.{}", refusal->with),
                 .hint = wanted});
  }
  const auto maker = kMakers.find(options.name);
  LONGHAUL_ASSERT(maker != kMakers.end(), "{} has an entry and no class", options.name);
  return maker->second(options, std::move(members));
}

}  // namespace

namespace {

// Each tensor's factor is that of the rule it follows.
void take_width_factors(const recipe::OptimOptions& options, model::ParameterSet& parameters) {
  for (const auto& parameter : parameters.all()) {
    for (model::Part& part : parameter->parts) {
      layout::ParameterSpec& spec = part.spec;
      if (spec.width_factor == 1) continue;
      const size_t rule =
          recipe::rule_of(options, spec.tensor.role, spec.layer, spec.tensor.global_shape, spec.set);
      spec.lr_factor = layout::lr_factor_of_width(spec.width, spec.width_factor,
                                                  recipe::optim_rule(options, rule).options);
    }
  }
}

void require_wide_elsewhere(const recipe::OptimOptions& options, at::Device device) {
  const auto narrow = [](const auto& each) {
    return !each.state_dtype.empty() && each.state_dtype != "float32";
  };
  const bool wanted =
      options.state_dtype != recipe::StateDtype::kFloat32 || std::ranges::any_of(options.groups, narrow);
  if (!wanted || device.is_cpu()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "narrow states have no implementation on this device",
               .expected = "optim.state_dtype = float32, or train.device = cpu",
               .found = fmt::format("device {}", device.str()),
               .where = "optim.state_dtype",
               .hint = "optim.state_dtype=float32"});
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const recipe::OptimOptions& options,
                                          model::ParameterSet& parameters, Precision precision,
                                          uint64_t seed) {
  take_width_factors(options, parameters);
  const MemoryPurposeScope scope(MemoryPurpose::kOptimizer);
  require_wide_elsewhere(options, parameters.device());
  require_known(options.name);
  if (options.groups.empty() && !recipe::optimizer_entry(options.name).whole_matrices)
    return make_named(options, {parameters, precision, seed});
  return std::make_unique<Grouped>(options, Members(parameters, precision, seed), make_named);
}

}  // namespace longhaul::optim
