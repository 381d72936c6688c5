// Softmax attention: grouped queries (arXiv 2305.13245), positions by rotation of the first channels of each head (2104.09864). Its module
// is model/mixers/softmax_attention.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct ModelConfig;
struct Problem;  // recipe/check.h
struct SequenceMixerEntry;
extern const SequenceMixerEntry kSoftmaxMixer;

// Of the options that all mixers with softmax attention read: windows and the stretching of frequencies.
void check_attention(const ModelConfig& model, std::vector<Problem>& out);

enum class AttentionBias { kNone, kQkv, kAll };
enum class RotaryScaling { kNone, kLinear, kLlama3 };
std::vector<std::string_view> names_of(AttentionBias);
std::vector<std::string_view> names_of(RotaryScaling);

struct SoftmaxOptions {
  int64_t kv_heads = 8;     // divides heads
  int64_t rotary_dim = 64;  // first channels of each head; NeoX pairs (j, j + rotary_dim/2)
  double rotary_base = 10000;
  std::vector<int64_t> windows = {0};         // keys that each token sees, itself among them, as a pattern over the model's layers; 0: all
  bool qk_norm = false;                       // RMS norm of each query and key head before it is rotated (Qwen3)
  bool output_gate = false;                   // σ of a projection of the layer's input times what the heads give (Qwen3-Next)
  AttentionBias bias = AttentionBias::kNone;  // beside model.bias, of these layers' matrices alone
  RotaryScaling rotary_scaling = RotaryScaling::kNone;
  double rotary_factor = 1;        // of the scaling: positions reach so many times as far
  double rotary_low = 1;           // llama3: waves longer than rotary_original / this are stretched by the factor,
  double rotary_high = 4;          // shorter ones than rotary_original / this are left, those between in between
  int64_t rotary_original = 8192;  // llama3: positions before the stretching
  double alpha = 0, beta = 0;      // residual factors behind these layers; 0: model.alpha and model.beta

  int64_t window(int64_t layer) const { return windows[static_cast<size_t>(layer) % windows.size()]; }
  // Of each pair of a head's channels, by which its angle grows with a position.
  std::vector<double> rotary_frequencies() const { return rotary_frequencies(rotary_dim); }
  std::vector<double> rotary_frequencies(int64_t channels) const;  // of heads that rotate so many
  bool operator==(const SoftmaxOptions&) const = default;
};

}  // namespace longhaul::recipe
