// Mixture of SwiGLU experts without dropping (minimax-01.md §2.5). Its module is model/experts.h.
#pragma once

namespace longhaul::recipe {

struct ChannelMixerEntry;
extern const ChannelMixerEntry kExpertsMixer;

}  // namespace longhaul::recipe
