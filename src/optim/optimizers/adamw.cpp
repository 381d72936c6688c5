#include "optim/optimizers/adamw.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "kernels/adamw/cuda_call.h"
#include "kernels/dispatch.h"

namespace longhaul::optim {

AdamW::AdamW(const recipe::OptimOptions& options, Members members, AdamwImplementation implementation)
    : Elementwise(std::move(members), options) {
  implementation_ = implementation != AdamwImplementation::kAutomatic ? implementation : choose();
  LONGHAUL_ASSERT(implementation_ != AdamwImplementation::kFused || on_cpu(),
                  "the fused update works on CPU tensors");
  add_phase({"update", nullptr, [this](const StepSettings& settings) { update(settings); }});
}

AdamwImplementation AdamW::choose() {
  constexpr AdamwImplementation kImplementations[] = {AdamwImplementation::kCuda, AdamwImplementation::kFused,
                                                      AdamwImplementation::kTensorOperations};
  static constexpr std::string_view kNames[] = {"cuda", "fused", "tensor operations"};
  return kImplementations[kernels::Dispatcher("adamw", kNames).choose([&](size_t i) -> kernels::Refusal {
    if (i == 1) return on_cpu() ? "" : "the tensors are not on the CPU";
    if (i == 2) return "";
    if (pieces().empty()) return "nothing is trained";
    const Tensor& any = master(pieces().front().parameter);
    return any.scalar_type() == at::kFloat ? kernels::refuse_cuda(any, /*bf16_only=*/false)
                                           : kernels::Refusal("the state is not fp32");
  })];
}

kernels::AdamwScalars AdamW::scalars(const StepSettings& settings, const Piece& piece) const {
  const double t = static_cast<double>(next_step()), lr = settings.lr * piece.lr_factor;
  return {.gradient_scale = settings.gradient_scale,
          .beta1 = options().beta1,
          .beta2 = options().beta2,
          .eps = options().eps,
          .kept_weight = 1 - lr * settings.decay_factor * piece.weight_decay,
          .step_size = lr / (1 - std::pow(options().beta1, t)),
          .inverse_root_correction = 1 / std::sqrt(1 - std::pow(options().beta2, t)),
          .zero_gradient = settings.zero_gradients};
}

void AdamW::update(const StepSettings& settings) {
  if (implementation_ == AdamwImplementation::kCuda) return update_on_gpu(settings);
  if (implementation_ == AdamwImplementation::kFused)
    return write(settings,
                 [&](const Stretch& stretch) { update_stretch(stretch, scalars(settings, *stretch.piece)); });
  for (const Piece& piece : pieces()) {
    const Views views = views_of(piece);
    if (piece.trainable)
      kernels::adamw_aten(views.master, views.states[0], views.states[1], views.gradient, views.master,
                          scalars(settings, piece));
    refresh(piece, settings);
  }
}

// One call for all tensors of one learning rate.
void AdamW::update_on_gpu(const StepSettings& settings) {
  std::map<double, std::vector<kernels::cuda::AdamwTensor>> by_lr_factor;
  std::map<double, kernels::AdamwScalars> scalars_of;
  for (const Piece& piece : pieces()) {
    const model::Parameter& parameter = *parameters()[piece.parameter];
    if (!piece.trainable) {
      if (settings.zero_gradients) parameter.own_grad.narrow(0, piece.begin, piece.length).zero_();
      continue;
    }
    const kernels::AdamwScalars own = scalars_of[piece.lr_factor] = scalars(settings, piece);
    const auto at = [&](const Tensor& tensor) {
      return static_cast<float*>(tensor.data_ptr()) + piece.begin;
    };
    const auto state = [&](size_t kind) { return static_cast<float*>(piece.states[kind].data_ptr()); };
    const bool copied = parameter.value.scalar_type() == at::kBFloat16;
    by_lr_factor[piece.lr_factor].push_back(
        {.master = at(master(piece.parameter)),
         .m = state(0),
         .v = state(1),
         .gradient = at(parameter.own_grad),
         .value = copied ? static_cast<kernels::cuda::Bf16*>(parameter.own_value.data_ptr()) + piece.begin
                         : nullptr,
         .count = piece.length,
         .kept_weight = static_cast<float>(own.kept_weight)});
  }
  for (const auto& [lr_factor, tensors] : by_lr_factor) {
    const kernels::AdamwScalars& own = scalars_of.at(lr_factor);
    const kernels::cuda::AdamwStep numbers{
        .beta1 = static_cast<float>(own.beta1),
        .beta2 = static_cast<float>(own.beta2),
        .eps = static_cast<float>(own.eps),
        .step_size = static_cast<float>(own.step_size),
        .inverse_root_correction = static_cast<float>(own.inverse_root_correction),
        .zero_gradient = own.zero_gradient};
    kernels::cuda_calls<kernels::AdamwCuda>().step(tensors, numbers, static_cast<float>(own.gradient_scale),
                                                   master(pieces().front().parameter));
  }
}

void AdamW::update_stretch(const Stretch& stretch, const kernels::AdamwScalars& own) {
  const kernels::ElementLoops& loops = kernels::element_loops();
  const auto update = [&](auto loop, const auto& run) {
    loop(run.master, run.first, run.second, run.gradient, run.value, run.count, own);
  };
  with_run(stretch, States::kWritten, [&]<class Real>(const kernels::UpdateRun<Real>& run, const auto&) {
    if constexpr (std::is_same_v<Real, double>)
      update(loops.adamw_fp64, run);
    else
      update(loops.adamw_fp32, run);
  });
}

}  // namespace longhaul::optim
