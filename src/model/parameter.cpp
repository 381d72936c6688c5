#include "model/parameter.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "base/error.h"
#include "tensor/memory_purpose.h"
#include "tensor/random_fill.h"

namespace longhaul::model {
namespace {

// Identity whose backward adds to the parameter's main gradient and hands nothing on.
class UseFunction : public torch::autograd::Function<UseFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& value, const Tensor& grad) {
    context->saved_data["grad"] = grad;
    return value.view_as(value);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    Tensor grad = context->saved_data["grad"].toTensor();
    if (gradients[0].defined()) grad.add_(gradients[0]);
    return {Tensor(), Tensor()};
  }
};

}  // namespace

Tensor Parameter::part_of(const Tensor& storage, size_t i) const {
  const Part& part = parts[i];
  Tensor view = storage;
  for (size_t d = 0; d < part.slice.length.size(); ++d) {
    view = view.narrow(static_cast<int64_t>(d), part.slice.offset[d], part.slice.length[d]);
  }
  return view.view(part.held.length);
}

Tensor Parameter::use() { return UseFunction::apply(value, grad); }

ParameterSet::ParameterSet(std::vector<layout::ParameterSpec> specs, Precision precision, at::Device device)
    : specs_(std::move(specs)), taken_(specs_.size(), false), precision_(precision), device_(device) {}

const layout::ParameterSpec& ParameterSet::take(const std::string& name) {
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].tensor.name != name) continue;
    LONGHAUL_ASSERT(!taken_[i], "parameter {} is built twice", name);
    taken_[i] = true;
    return specs_[i];
  }
  LONGHAUL_ASSERT(false, "no parameter is called {}", name);
}

// Norms and the router compute in fp32 whatever the working precision is (minimax-01.md §2.5, §12).
static bool kept_wide(const layout::ParameterSpec& spec) {
  return spec.tensor.role == layout::Role::kNorm || spec.tensor.role == layout::Role::kRouter ||
         (spec.tensor.role == layout::Role::kBias && spec.tensor.name.ends_with("norm.bias"));
}

Parameter& ParameterSet::store(std::string name, std::vector<Part> parts, at::IntArrayRef sizes) {
  auto parameter = std::make_unique<Parameter>();
  parameter->name = std::move(name);
  parameter->parts = std::move(parts);
  const auto options = at::TensorOptions().device(device_);
  const MemoryPurposeScope of_value(MemoryPurpose::kParameters);
  parameter->value =
      at::zeros(sizes, options.dtype(kept_wide(parameter->parts[0].spec) ? precision_.reduce : precision_.compute)).requires_grad_(true);
  const MemoryPurposeScope of_gradient(MemoryPurpose::kGradients);
  parameter->grad = at::zeros(sizes, options.dtype(precision_.main_gradient));
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

Parameter& ParameterSet::add_stacked(const std::string& storage_name, const std::vector<std::string>& names) {
  std::vector<Part> parts;
  std::vector<int64_t> sizes;
  for (const std::string& name : names) {
    const auto& spec = take(name);
    layout::Rectangle slice = layout::Rectangle::whole(spec.tensor.global_shape);
    if (sizes.empty()) {
      sizes = spec.tensor.global_shape;
    } else {
      slice.offset[0] = sizes[0];
      sizes[0] += spec.tensor.global_shape[0];
    }
    parts.push_back({spec, layout::Rectangle::whole(spec.tensor.global_shape), slice});
  }
  return store(storage_name, std::move(parts), sizes);
}

Parameter& ParameterSet::add_experts(const std::string& storage_name, const std::vector<std::vector<std::string>>& names) {
  std::vector<Part> parts;
  int64_t rows = 0, columns = 0;
  for (size_t e = 0; e < names.size(); ++e) {
    rows = 0;
    for (const std::string& name : names[e]) {
      const auto& spec = take(name);
      const auto& shape = spec.tensor.global_shape;
      parts.push_back({spec, layout::Rectangle::whole(shape), {{static_cast<int64_t>(e), rows, 0}, {1, shape[0], shape[1]}}});
      rows += shape[0];
      columns = shape[1];
    }
  }
  return store(storage_name, std::move(parts), {static_cast<int64_t>(names.size()), rows, columns});
}

void ParameterSet::expect_all_taken() const {
  for (size_t i = 0; i < specs_.size(); ++i) {
    LONGHAUL_ASSERT(taken_[i], "no module holds parameter {}", specs_[i].tensor.name);
  }
}

void ParameterSet::initialise(uint64_t seed) {
  for (const auto& parameter : parameters_) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const auto& spec = parameter->parts[i].spec;
      Tensor view = parameter->part_of(parameter->value.detach(), i);
      switch (spec.init.kind) {
        case layout::Init::Kind::kOnes:
          view.fill_(1);
          break;
        case layout::Init::Kind::kZeros:
          view.zero_();
          break;
        case layout::Init::Kind::kNormal:
          fill_normal(view, RandomStream(seed, "init/" + spec.tensor.name), spec.init.std, spec.tensor.global_shape,
                      parameter->parts[i].held);
          break;
      }
    }
    ++parameter->version;
  }
}

void ParameterSet::zero_gradients() {
  for (const auto& parameter : parameters_) parameter->grad.zero_();
}

Parameter* ParameterSet::holder_of(const std::string& logical_name, size_t* part) const {
  for (const auto& parameter : parameters_) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      if (parameter->parts[i].spec.tensor.name != logical_name) continue;
      if (part != nullptr) *part = i;
      return parameter.get();
    }
  }
  return nullptr;
}

}  // namespace longhaul::model
