// What decoding keeps of the tokens it has seen: an fp32 recurrence state for each recurrent layer, keys and values for each
// softmax layer, in pages. One sequence; the size of a recurrence state does not depend on its length.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/paged.h"
#include "tensor/tensor.h"

namespace longhaul::model {

struct MixerState {
  Tensor recurrence_1hkv;              // fp32 (fp64 in fp64 models); undefined before the first token
  kernels::KeyValueCache keys_values;  // of all tokens so far, rotated
};

struct DecoderState {
  int64_t tokens = 0;  // seen so far: the position of the next one
  std::vector<MixerState> layers;
};

}  // namespace longhaul::model
