#include "model/mixers.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "model/dense_channel.h"
#include "model/experts.h"
#include "model/hgrn2.h"
#include "model/lightning_attention.h"
#include "model/softmax_attention.h"

namespace longhaul::model {
namespace {

template <class Kind>
using Make = std::unique_ptr<Kind> (*)(const recipe::ModelConfig&, int64_t layer, ParameterSet&);

template <class Kind, class Module>
std::unique_ptr<Kind> make(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters) {
  return std::make_unique<Module>(config, layer, parameters);
}

template <class Name, class Kind>
struct Listed {
  Name name;
  Make<Kind> make;
};

constexpr Listed<recipe::Mixer, SequenceMixer> kSequenceModules[] = {
    {recipe::Mixer::kSoftmax, make<SequenceMixer, SoftmaxAttention>},
    {recipe::Mixer::kLightning, make<SequenceMixer, LightningAttention>},
    {recipe::Mixer::kHgrn2, make<SequenceMixer, Hgrn2>},
};

constexpr Listed<recipe::ChannelMixer, ChannelMixer> kChannelModules[] = {
    {recipe::ChannelMixer::kDense, make<ChannelMixer, DenseChannel>},
    {recipe::ChannelMixer::kExperts, make<ChannelMixer, Experts>},
};

}  // namespace

std::unique_ptr<SequenceMixer> make_mixer(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters) {
  const auto* const found = std::ranges::find(kSequenceModules, config.mixer(layer), &Listed<recipe::Mixer, SequenceMixer>::name);
  LONGHAUL_ASSERT(found != std::end(kSequenceModules), "no module for the mixer of layer {}", layer);
  return found->make(config, layer, parameters);
}

std::unique_ptr<ChannelMixer> make_channel_mixer(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters) {
  const auto* const found = std::ranges::find(kChannelModules, config.channel_mixer(), &Listed<recipe::ChannelMixer, ChannelMixer>::name);
  LONGHAUL_ASSERT(found != std::end(kChannelModules), "no module for the channel mixer of layer {}", layer);
  return found->make(config, layer, parameters);
}

}  // namespace longhaul::model
