// The options of op.h as types without tensors, which the loops use too.
#pragma once

namespace longhaul::kernels {

enum class FeatureMap { kNone, kSilu, kRelu, kSigmoid };
enum class Turn { kNone, kCosine, kRotary };

}  // namespace longhaul::kernels
