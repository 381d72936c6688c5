// Mamba-2's mixer, a structured state space model with one decay per token and head (SSD, arXiv 2405.21060).
// Its module, and the equations, are in model/mixers/mamba2.h.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kMamba2Mixer;

struct Mamba2Options {
  int64_t state = 128;  // channels of B and C, which are keys and queries; all heads of a group share them
  int64_t groups = 1;
  int64_t norm_groups = 1;  // groups of heads that are normalised separately
  int64_t convolution = 4;  // taps
  double norm_eps = 1e-5;
  bool operator==(const Mamba2Options&) const = default;
};

}  // namespace longhaul::recipe
