#include "optim/optimizers/lamb.h"

#include <cmath>

#include "kernels/optimizer_loops/trust_ratio.h"

namespace longhaul::optim {

Lamb::Lamb(const recipe::OptimOptions& options, Members members)
    : Elementwise(std::move(members), options, Runs::kOfEachTensor) {
  // Every rank takes part in the sums of a tensor, those too that have nothing of it and so no piece.
  std::vector<Partials::Place> held;
  std::vector<bool> first;
  for (const Shard& shard : shards()) {
    const Partials::Place place = norms_.reserve(shard.cut(), 2);
    if (shard.master.numel() > 0) held.push_back(place), first.push_back(shard.first_of_all());
  }
  size_t next = 0;
  for (const Piece& piece : pieces()) {
    places_.push_back(piece.trainable ? held[next] : Partials::Place{});
    first_.push_back(piece.trainable && first[next]);
    next += piece.trainable ? 1 : 0;
  }
  add_phase({"moments", &norms_, [this](const StepSettings& settings) { moments(settings); }});
  add_phase({"update", nullptr, [this](const StepSettings& settings) { update(settings); }});
}

kernels::LambScalars Lamb::scalars(const StepSettings& settings, const Piece& piece) const {
  const double t = static_cast<double>(next_step());
  const double decay = piece.weight_decay * settings.decay_factor;
  const bool l2 = options().lamb_decay == recipe::LambDecay::kL2;
  return {.gradient_scale = settings.gradient_scale,
          .beta1 = options().beta1,
          .beta2 = options().beta2,
          .eps = options().eps,
          .l2 = l2 ? decay : 0,
          .decay = l2 ? 0 : decay,
          .beta3 = kernels::gradient_share(options()),
          .correction = 1 / (1 - std::pow(options().beta1, t)),
          .root_correction = 1 / std::sqrt(1 - std::pow(options().beta2, t)),
          .step = settings.lr * piece.lr_factor,
          .zero_gradient = settings.zero_gradients};
}

Tensor Lamb::update_of(const Views& views, const kernels::LambScalars& own) const {
  return views.states[0] * own.correction / (views.states[1].sqrt() * own.root_correction + own.eps) +
         views.master * own.decay;
}

// On a CPU sums of stretches are added up in their order: the bits do not depend on the number of threads.
void Lamb::moments(const StepSettings& settings) {
  if (on_cpu()) {
    const std::vector<Stretch> all = stretches(/*packing=*/false);
    std::vector<kernels::LambSums> sums(all.size());
    run(all, [&](const Stretch& stretch) {
      kernels::LambSums& own = sums[static_cast<size_t>(&stretch - all.data())];
      with_run(stretch, States::kWritten, [&](const auto& run, const auto& loops) {
        const kernels::LambSums more = loops.lamb_moments(run, scalars(settings, *stretch.piece));
        own.weights += more.weights;
        own.updates += more.updates;
      });
    });
    for (size_t i = 0; i < all.size(); ++i) {
      auto* const numbers = norms_[place_of(*all[i].piece)].mutable_data_ptr<double>();
      numbers[0] += sums[i].weights;
      numbers[1] += sums[i].updates;
    }
    return;
  }
  for (const Piece& piece : pieces()) {
    if (!piece.trainable) continue;
    const Views views = views_of(piece);
    const kernels::LambScalars own = scalars(settings, piece);
    const Tensor g = views.gradient * own.gradient_scale + views.master * own.l2;
    views.states[0].mul_(own.beta1).add_(g, own.beta3);
    views.states[1].mul_(own.beta2).addcmul_(g, g, 1 - own.beta2);
    const auto squares = [](const Tensor& x) {
      return at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).square();
    };
    norms_[place_of(piece)].copy_(at::stack({squares(views.master), squares(update_of(views, own))}));
  }
}

double Lamb::ratio(const Piece& piece) const {
  if (!kernels::has_trust_ratio(options(), piece.weight_decay)) return 1;
  const Tensor numbers = norms_[place_of(piece)].cpu();
  const auto* const sums = numbers.const_data_ptr<double>();
  return kernels::trust_ratio(options(), {.weights = sums[0], .updates = sums[1]});
}

std::vector<OfTensor> Lamb::measured() const {
  std::vector<OfTensor> all;
  for (const Piece& piece : pieces()) {
    if (first_[index_of(piece)]) all.push_back({kTrustRatio, ratio(piece)});
  }
  return all;
}

void Lamb::update(const StepSettings& settings) {
  std::vector<kernels::LambScalars> of_pieces;
  for (const Piece& piece : pieces()) {
    of_pieces.push_back(scalars(settings, piece));
    if (piece.trainable) of_pieces.back().step *= ratio(piece);
  }
  const auto scalars_of = [&](const Piece& piece) -> const kernels::LambScalars& {
    return of_pieces[index_of(piece)];
  };
  if (on_cpu()) {
    return write(settings, [&](const Stretch& stretch) {
      with_run(stretch, States::kRead, [&](const auto& run, const auto& loops) {
        loops.lamb_update(run, scalars_of(*stretch.piece));
      });
    });
  }
  for (const Piece& piece : pieces()) {
    const Views views = views_of(piece);
    if (piece.trainable) views.master.sub_(update_of(views, scalars_of(piece)), scalars_of(piece).step);
    refresh(piece, settings);
  }
}

}  // namespace longhaul::optim
