// LCSM: a common form of linear complexity sequence models: Expand, Oscillation and Shrink (arXiv 2405.17383;
// docs/sources/linear-attention.md §7), with one memory of `state` rows for all channels of the layer. Its
// module, and the equations, are in model/mixers/lcsm.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kLcsmMixer;

enum class LcsmSource { kInput, kFixed };
// The factor of the memory's entry in row k and channel d, in the order of the published numbers 0 to 12;
// then Mamba's.
enum class LcsmOscillation {
  kMatrix,          // a parameter [k, d]
  kInputBoth,       // from x, for k and for d, multiplied
  kInputValue,      // from x, for d
  kInputKey,        // from x, for k
  kKey,             // a parameter [k]
  kValue,           // a parameter [d]
  kInputKeyMatrix,  // from x for k, times a parameter [k, d]
  kInputValueMatrix,
  kInputValueKey,  // from x for d, times a parameter [k]
  kInputKeyValue,
  kNone,
  kRotation,    // rotation of rows in pairs, by position
  kCumulative,  // a softmax over the tokens so far, for k
  kStateSpace,  // exp(−Δ_d A_k)
};
enum class LcsmActivation { kNone, kRelu, kSigmoid, kOnePlusElu, kSilu, kElu, kSquaredRelu, kSquare };
std::vector<std::string_view> names_of(LcsmSource);
std::vector<std::string_view> names_of(LcsmOscillation);
std::vector<std::string_view> names_of(LcsmActivation);

struct LcsmOptions {
  int64_t state = 64;  // rows of the memory
  LcsmSource expand = LcsmSource::kInput, shrink = LcsmSource::kInput;
  LcsmOscillation oscillation = LcsmOscillation::kInputKey;
  LcsmActivation activation = LcsmActivation::kNone;
  double tau = 16;    // o = σ(z)^(1/τ); 0: fixed slopes
  int64_t rank = 16;  // rank of the matrices that make Δ
  double norm_eps = 1e-5;

  int64_t rows() const { return oscillation == LcsmOscillation::kRotation ? 2 * state : state; }
  bool by_rows() const;       // no factor depends on row and channel together, so the recurrence has one head
  bool key_logits() const;    // z of each row is computed from x
  bool value_logits() const;  // z of each channel is computed from x
  struct Shape {
    int64_t out = 0, in = 0;  // in = 0: a vector; both 0: there is none
  };
  Shape parameter(int64_t channels) const;  // parameter of the oscillation
  bool operator==(const LcsmOptions&) const = default;
};

}  // namespace longhaul::recipe
