// The dense channel mixer: SwiGLU (arXiv 2002.05202), or up – tanh-GeLU – down. Its options are the model's
// own (model.channel, model.intermediate); its module is model/mixers/dense_channel.h.
#pragma once

namespace longhaul::recipe {

struct ChannelMixerEntry;
extern const ChannelMixerEntry kDenseMixer;

}  // namespace longhaul::recipe
