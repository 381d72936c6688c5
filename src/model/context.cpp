#include "model/context.h"

#include <torch/csrc/autograd/custom_function.h>

namespace longhaul::model {
namespace {

class JoinFunction : public torch::autograd::Function<JoinFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& activation, const Tensor& loss) {
    context->save_for_backward({loss});
    return activation.view_as(activation);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    return {gradients[0], at::ones_like(context->get_saved_variables()[0])};
  }
};

}  // namespace

Tensor Context::join_auxiliary_loss(const std::string& block, const Tensor& activation, const Tensor& loss) {
  auxiliary_losses[block] = loss.detach();
  return JoinFunction::apply(activation, loss);
}

}  // namespace longhaul::model
