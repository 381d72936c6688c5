#include "optim/optimizers/lion.h"

namespace longhaul::optim {

Lion::Lion(const recipe::OptimOptions& options, Members members) : Elementwise(std::move(members), options) {
  add_phase({"update", nullptr, [this](const StepSettings& settings) { update(settings); }});
}

kernels::LionScalars Lion::scalars(const StepSettings& settings, const Piece& piece) const {
  const double lr = settings.lr * piece.lr_factor;
  return {.gradient_scale = settings.gradient_scale,
          .beta1 = options().beta1,
          .beta2 = options().beta2,
          .kept_weight = 1 - lr * settings.decay_factor * piece.weight_decay,
          .lr = lr,
          .fade = options().sign_fade,
          .zero_gradient = settings.zero_gradients};
}

void Lion::update(const StepSettings& settings) {
  if (on_cpu()) {
    return write(settings, [&](const Stretch& stretch) {
      with_run(stretch, States::kWritten, [&](const auto& run, const auto& loops) {
        loops.lion(run, scalars(settings, *stretch.piece));
      });
    });
  }
  for (const Piece& piece : pieces()) {
    if (piece.trainable) {
      const auto [master, gradient, states] = views_of(piece);
      const kernels::LionScalars own = scalars(settings, piece);
      const Tensor g = gradient * own.gradient_scale, c = states[0] * own.beta1 + g * (1 - own.beta1);
      master.mul_(own.kept_weight).sub_(own.fade > 0 ? c / c.abs().clamp_min(own.fade) : c.sign(), own.lr);
      states[0].mul_(own.beta2).add_(g, 1 - own.beta2);
    }
    refresh(piece, settings);
  }
}

}  // namespace longhaul::optim
