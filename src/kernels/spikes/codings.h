// Codings: how a count becomes spikes over time (SpikingBrain, arXiv 2509.05276 §3). Every coding gives the
// counts back exactly: count = zero_t + Σ_s weight_s · spike_s.
//
//   binary            spikes 0, 1         one for each unit            steps: the largest count
//   ternary           spikes −1, 0, 1     one for each unit            steps: the largest size
//   unsigned bits     spikes 0, 1         binary digits, highest first
//   signed bits       spikes −1, 0, 1     binary digits of the size, times the sign
//   two's complement  spikes 0, 1         digits, the first of which weighs −2^(steps − 1)
//
// Binary and unsigned bits have no negative counts: a token that has some is shifted by its smallest, which
// is its zero_t. Ternary and signed bits may be centred: a token without negative counts is shifted by half
// its largest, which halves the steps, and lets what was silent fire.
#pragma once

#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

enum class Coding { kBinary, kTernary, kUnsignedBits, kSignedBits, kTwosComplement };
std::string_view name_of(Coding coding);

struct SpikeTrain {
  Tensor spike_stc;              // int8 [steps, tokens, channels]
  std::vector<int64_t> weights;  // of each step
  Tensor zero_t;                 // int64 [tokens]: what is added to each count
};
// count_tc: whole numbers [tokens, channels], of any type, below 2^31.
SpikeTrain encode(const Tensor& count_tc, Coding coding, bool centred = false);
Tensor decode(const SpikeTrain& train);  // int64 [tokens, channels]

// Without making the train: the spikes of each count, int64 [tokens, channels], and the steps of each token,
// int64 [tokens]. Not centred.
Tensor spikes_of(const Tensor& count_tc, Coding coding);
Tensor steps_of(const Tensor& count_tc, Coding coding);

}  // namespace longhaul::kernels
