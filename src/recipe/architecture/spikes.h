// SpikeOptions: [spikes] of a recipe: the inputs of a layer's matrices as whole numbers of spikes
// (SpikingBrain, arXiv 2509.05276 §3). Of every token's input x [channels]
//
//   threshold = mean |x| / k, kept within [1e-5, 1e4]      count = round(x / threshold), ties to even
//   the product reads count · threshold in place of x, and gradients pass as if it read x
//
// The coding says how a count becomes spikes over time: it changes what is counted and how long it takes,
// never a result, since every coding gives the counts back exactly (kernels/spikes/codings.h). Plain data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;
struct Problem;  // recipe/check.h
struct Recipe;

// In the order of the names; kNone: no spikes.
enum class SpikeCoding { kNone, kBinary, kTernary, kUnsignedBits, kSignedBits, kTwosComplement };
// Weights of the same matrices: as the model has them, or rounded to 8 bits with a scale for every 128
// inputs.
enum class SpikeWeights { kWide, kInt8 };
std::vector<std::string_view> names_of(SpikeCoding);
std::vector<std::string_view> names_of(SpikeWeights);

struct SpikeOptions {
  SpikeCoding coding = SpikeCoding::kNone;
  double k = 3;
  SpikeWeights weights = SpikeWeights::kWide;

  bool wanted() const { return coding != SpikeCoding::kNone; }
  bool operator==(const SpikeOptions&) const = default;
};

inline constexpr double kMostSpikeK = 64;

void declare(OptionSet& set, SpikeOptions& spikes);
void check_spikes(const Recipe& recipe, std::vector<Problem>& out);

}  // namespace longhaul::recipe
