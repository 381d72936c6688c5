// HGRN2: a linear recurrence with forget gates whose lower bounds are learned and rise with depth (arXiv
// 2404.07904; docs/sources/linear-attention.md §5.2). Its module, and the equations, are in
// model/mixers/hgrn2.h.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kHgrn2Mixer;

struct Hgrn2Options {
  int64_t expand = 0;  // key channels of a head; 0: as many as it has value channels
  double norm_eps = 1e-6;
  int64_t key_channels(int64_t head_dim) const { return expand > 0 ? expand : head_dim; }
  bool operator==(const Hgrn2Options&) const = default;
};

}  // namespace longhaul::recipe
