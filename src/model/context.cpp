#include "model/context.h"

#include <algorithm>

#include "kernels/differentiable.h"

namespace longhaul::model {

namespace {

Tensor reported(const Tensor& loss, double scale) {
  return scale == 1 ? loss.detach() : loss.detach().mul(scale);
}

}  // namespace

Tensor Context::join_weighted_loss(const std::string& block, const Tensor& activation, const Tensor& loss,
                                   double scale) {
  auxiliary_losses[block] = reported(loss, scale);
  return kernels::differentiable("join_auxiliary_loss", {activation, loss}, [&]() -> kernels::Recorded {
    return {.results = {activation.view_as(activation)},
            .backward = [gradient = at::full_like(loss.detach(), scale)](const kernels::BackwardCall& call) {
              return std::vector<Tensor>{call.gradients[0], gradient};
            }};
  })[0];
}

void Context::tell_auxiliary_loss(const std::string& block, const Tensor& loss) {
  Tensor& told = auxiliary_losses[block];
  told = told.defined() ? told + reported(loss, auxiliary_scale) : reported(loss, auxiliary_scale);
}

int64_t Context::first_sequence(const layout::SequenceView& view) const {
  return micro_batch * std::max<int64_t>(1, std::ssize(view.layout.row_offsets) - 1);
}

Context Context::again() const {
  Context context = *this;
  context.auxiliary_losses.clear();
  context.statistics.clear();
  context.recorded_routes = nullptr;
  context.recorded_weights = nullptr;
  context.inspect = nullptr;
  context.after_layer = nullptr;
  return context;
}

}  // namespace longhaul::model
