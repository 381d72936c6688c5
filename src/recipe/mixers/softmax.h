// Softmax attention: grouped queries (arXiv 2305.13245), and positions by rotation of the first channels of
// each head (2104.09864). Its module is model/mixers/softmax_attention.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct ModelConfig;
struct Problem;  // recipe/check.h
struct SequenceMixerEntry;
extern const SequenceMixerEntry kSoftmaxMixer;

// Checks the options that all mixers with softmax attention read: windows and the scaling of rotary
// frequencies.
void check_attention(const ModelConfig& model, std::vector<Problem>& out);

enum class AttentionBias { kNone, kQkv, kAll };
enum class RotaryScaling { kNone, kLinear, kLlama3 };
std::vector<std::string_view> names_of(AttentionBias);
std::vector<std::string_view> names_of(RotaryScaling);

struct SoftmaxOptions {
  int64_t kv_heads = 8;     // divides heads
  int64_t rotary_dim = 64;  // first channels of each head; NeoX pairs (j, j + rotary_dim/2)
  double rotary_base = 10000;
  // Number of keys that each token sees, including itself, as a pattern over the model's layers; 0: all.
  std::vector<int64_t> windows = {0};
  // A window counts the keys before the token, which it sees as well: one key more than its number.
  bool window_plus_one = false;
  bool qk_norm = false;  // RMS norm of each query and key head before its rotation (Qwen3)
  // The heads' output is multiplied by σ of a projection of the layer's input (Qwen3-Next).
  bool output_gate = false;
  AttentionBias bias = AttentionBias::kNone;  // in addition to model.bias, only for matrices of these layers
  RotaryScaling rotary_scaling = RotaryScaling::kNone;
  double rotary_factor = 1;  // rotary scaling: positions reach so many times as far
  double rotary_low = 1;     // llama3: wavelengths above rotary_original / this are stretched by the factor,
  // Those below rotary_original / this are unchanged, and those between are interpolated.
  double rotary_high = 4;
  int64_t rotary_original = 8192;  // llama3: number of positions before the scaling
  double alpha = 0, beta = 0;      // residual factors after these layers; 0: model.alpha and model.beta

  // The keys that a token of this layer sees, itself among them; 0: all.
  int64_t window(int64_t layer) const {
    const int64_t keys = windows[static_cast<size_t>(layer) % windows.size()];
    return keys > 0 && window_plus_one ? keys + 1 : keys;
  }
  // For each pair of a head's channels, the increase of its angle per position.
  std::vector<double> rotary_frequencies() const { return rotary_frequencies(rotary_dim); }
  std::vector<double> rotary_frequencies(int64_t channels) const;  // for heads that rotate so many channels
  bool operator==(const SoftmaxOptions&) const = default;
};

}  // namespace longhaul::recipe
