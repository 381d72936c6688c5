#include "model/context.h"

#include <algorithm>

#include "kernels/differentiable.h"

namespace longhaul::model {
Tensor Context::join_auxiliary_loss(const std::string& block, const Tensor& activation, const Tensor& loss) {
  auxiliary_losses[block] = loss.detach();
  return kernels::differentiable("join_auxiliary_loss", {activation, loss}, [&]() -> kernels::Recorded {
    return {.results = {activation.view_as(activation)}, .backward = [one = at::ones_like(loss)](const kernels::BackwardCall& call) {
              return std::vector<Tensor>{call.gradients[0], one};
            }};
  })[0];
}

void Context::tell_auxiliary_loss(const std::string& block, const Tensor& loss) {
  Tensor& told = auxiliary_losses[block];
  told = told.defined() ? told + loss.detach() : loss.detach();
}

int64_t Context::first_sequence(const layout::SequenceView& view) const {
  return micro_batch * std::max<int64_t>(1, std::ssize(view.layout.row_offsets) - 1);
}

Context Context::again() const {
  Context context = *this;
  context.auxiliary_losses.clear();
  context.statistics.clear();
  context.recorded_routes = nullptr;
  context.inspect = nullptr;
  return context;
}

}  // namespace longhaul::model
