// The choices of op.h, for its loops too, which know no tensors.
#pragma once

namespace longhaul::kernels {

enum class FeatureMap { kNone, kSilu, kRelu, kSigmoid };
enum class Turn { kNone, kCosine, kRotary };

}  // namespace longhaul::kernels
