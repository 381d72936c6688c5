#include "optim/optimizers/sgd.h"

#include "recipe/optimizers/optimizers.h"

namespace longhaul::optim {

Sgd::Sgd(const recipe::OptimOptions& options, Members members) : Elementwise(std::move(members), options) {
  add_phase({"update", nullptr, [this](const StepSettings& settings) { update(settings); }});
}

kernels::SgdScalars Sgd::scalars(const StepSettings& settings, const Piece& piece) const {
  const double lr = settings.lr * piece.lr_factor;
  return {.gradient_scale = settings.gradient_scale,
          .momentum = recipe::momentum_of(options()),
          .kept_weight = 1 - lr * settings.decay_factor * piece.weight_decay,
          .lr = lr,
          .nesterov = options().nesterov,
          .zero_gradient = settings.zero_gradients};
}

void Sgd::update(const StepSettings& settings) {
  if (on_cpu()) {
    return write(settings, [&](const Stretch& stretch) {
      with_run(stretch, States::kWritten, [&](const auto& run, const auto& loops) {
        loops.sgd(run, scalars(settings, *stretch.piece));
      });
    });
  }
  for (const Piece& piece : pieces()) {
    if (piece.trainable) {
      const auto [master, gradient, states] = views_of(piece);
      const kernels::SgdScalars own = scalars(settings, piece);
      const Tensor g = gradient * own.gradient_scale;
      if (!states.empty()) states[0].mul_(own.momentum).add_(g);
      const Tensor step = states.empty() ? g : own.nesterov ? g + states[0] * own.momentum : states[0];
      master.mul_(own.kept_weight).sub_(step, own.lr);
    }
    refresh(piece, settings);
  }
}

}  // namespace longhaul::optim
