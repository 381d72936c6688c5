// A model with eight-bit experts, and a reference model whose experts have the numbers that the eight-bit
// ones represent, computed in the plainest way.
#pragma once

#include <cmath>

#include "support/models.h"

namespace longhaul::testing {

inline bool is_of_routed_experts(const model::Parameter& parameter) {
  return parameter.name.ends_with(".experts.gate_up.weight") ||
         parameter.name.ends_with(".experts.down.weight");
}

// A model with the same weights, but with quantised experts.
inline model::Decoder int8_copy_of(model::Decoder& wide) {
  model::Decoder narrow(wide.config(), wide.precision(), at::kCPU, model::Use::kInt8Experts);
  const auto &from = wide.parameters().all(), &to = narrow.parameters().all();
  for (size_t p = 0; p < from.size(); ++p) {
    EXPECT_EQ(to[p]->int8.has_value(), is_of_routed_experts(*from[p])) << from[p]->name;
    const Tensor value = from[p]->value.detach();
    if (!to[p]->int8) to[p]->value.copy_(value);
    for (size_t i = 0; to[p]->int8 && i < to[p]->parts.size(); ++i)
      to[p]->write_narrow(i, from[p]->part_of(value, i));
    to[p]->written();
  }
  return narrow;
}

// Each row of an expert's matrix becomes scale · round(w / scale), scale = max |w| / 127 in fp32.
inline void round_experts_to_int8(model::Decoder& decoder) {
  for (const auto& parameter : decoder.parameters().all()) {
    if (!is_of_routed_experts(*parameter)) continue;
    const Tensor rows =
        parameter->value.detach().to(at::kFloat).reshape({-1, parameter->value.size(-1)}).contiguous();
    const auto* w = rows.const_data_ptr<float>();
    const Tensor rounded = at::empty(rows.sizes(), at::kDouble);
    auto* to = rounded.mutable_data_ptr<double>();
    for (int64_t o = 0; o < rows.size(0); ++o) {
      float largest = 0;
      for (int64_t i = 0; i < rows.size(1); ++i) largest = std::max(largest, std::abs(w[i]));
      const float scale = largest / 127.0f;
      for (int64_t i = 0; i < rows.size(1); ++i)
        *to++ = static_cast<double>(scale) * static_cast<double>(std::nearbyint(*w++ / scale));
    }
    const at::NoGradGuard guard;
    parameter->value.copy_(rounded.view(parameter->value.sizes()));
    parameter->written();
  }
}

}  // namespace longhaul::testing
