// The sequence mixers, in the order of the list in mixers.cpp, and their names in recipes.
#pragma once

#include <string_view>
#include <vector>

namespace longhaul::recipe {

enum class Mixer {
  kSoftmax,
  kLightning,
  kHgrn2,
  kTnl,
  kRetnet,
  kGla,
  kCosformer,
  kCosformer2,
  kLightnet,
  kMetala,
  kMamba2,
  kHgrn,
  kGatedDeltaNet,
  kKda,
  kLcsm,
  kMixture,
  kDeltaNet,
  kMla
};
std::vector<std::string_view> names_of(Mixer);

}  // namespace longhaul::recipe
