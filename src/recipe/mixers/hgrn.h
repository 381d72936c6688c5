// HGRN, the first version (arXiv 2311.04823; docs/sources/linear-attention.md §5.1): an elementwise
// recurrence of complex numbers. Its module, and the equations, are in model/mixers/hgrn.h.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kHgrnMixer;

struct HgrnOptions {
  bool complex = true;  // false: the real variant, without rotations
  double norm_eps = 1e-5;
  int64_t parts() const { return complex ? 2 : 1; }  // real numbers per channel
  bool operator==(const HgrnOptions&) const = default;
};

}  // namespace longhaul::recipe
