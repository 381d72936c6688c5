// No channel mixer: a layer is its sequence mixer, with one norm (Mamba-2).
#pragma once

namespace longhaul::recipe {

struct ChannelMixerEntry;
extern const ChannelMixerEntry kNoChannelMixer;

}  // namespace longhaul::recipe
