#include "kernels/adamw/op.h"

namespace longhaul::kernels {

void adamw_aten(const Tensor& master, const Tensor& m, const Tensor& v, const Tensor& gradient,
                const Tensor& value, const AdamwScalars& scalars) {
  const Tensor g = gradient * scalars.gradient_scale;
  m.mul_(scalars.beta1).add_(g, 1 - scalars.beta1);
  v.mul_(scalars.beta2).addcmul_(g, g, 1 - scalars.beta2);
  const Tensor denominator = v.sqrt().mul_(scalars.inverse_root_correction).add_(scalars.eps);
  master.mul_(scalars.kept_weight).addcdiv_(m, denominator, -scalars.step_size);
  if (!value.is_alias_of(master)) value.copy_(master);
}

}  // namespace longhaul::kernels
