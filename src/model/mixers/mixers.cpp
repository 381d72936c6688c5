#include "model/mixers/mixers.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "model/experts/experts.h"
#include "model/mixers/delta_net.h"
#include "model/mixers/dense_channel.h"
#include "model/mixers/hgrn.h"
#include "model/mixers/hgrn2.h"
#include "model/mixers/latent_attention.h"
#include "model/mixers/lcsm.h"
#include "model/mixers/lightning_attention.h"
#include "model/mixers/mamba2.h"
#include "model/mixers/mixture.h"
#include "model/mixers/recurrent_mixer.h"
#include "model/mixers/softmax_attention.h"
#include "recipe/mixers.h"

namespace longhaul::model {
namespace {

template <class Kind>
using Make = std::unique_ptr<Kind> (*)(const recipe::ModelConfig&, const BlockPlace&, ParameterSet&);

template <class Kind, class Module>
std::unique_ptr<Kind> make(const recipe::ModelConfig& config, const BlockPlace& place,
                           ParameterSet& parameters) {
  return std::make_unique<Module>(config, place, parameters);
}

template <auto plan>
std::unique_ptr<SequenceMixer> make_recurrent(const recipe::ModelConfig& config, const BlockPlace& place,
                                              ParameterSet& parameters) {
  return std::make_unique<RecurrentMixer>(plan(config), config, place, parameters);
}

std::unique_ptr<SequenceMixer> make_tnl(const recipe::ModelConfig& config, const BlockPlace& place,
                                        ParameterSet& parameters) {
  const bool learned = !recipe::entry_of(recipe::Mixer::kTnl).shared(config).empty();
  return std::make_unique<RecurrentMixer>(recipe::tnl_plan(config, place.layer), config, place, parameters,
                                          learned ? "tnl.frequencies.weight" : "");
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
    {recipe::Mixer::kTnl, make_tnl},
    {recipe::Mixer::kRetnet, make_recurrent<recipe::retnet_plan>},
    {recipe::Mixer::kGla, make_recurrent<recipe::gla_plan>},
    {recipe::Mixer::kCosformer, make_recurrent<recipe::cosformer_plan>},
    {recipe::Mixer::kCosformer2, make_recurrent<recipe::cosformer2_plan>},
    {recipe::Mixer::kLightnet, make_recurrent<recipe::lightnet_plan>},
    {recipe::Mixer::kMetala, make_recurrent<recipe::metala_plan>},
    {recipe::Mixer::kMamba2, make<SequenceMixer, Mamba2>},
    {recipe::Mixer::kHgrn, make<SequenceMixer, Hgrn>},
    {recipe::Mixer::kGatedDeltaNet, make<SequenceMixer, GatedDeltaNet>},
    {recipe::Mixer::kKda, make<SequenceMixer, Kda>},
    {recipe::Mixer::kLcsm, make<SequenceMixer, Lcsm>},
    {recipe::Mixer::kMixture, make<SequenceMixer, Mixture>},
    {recipe::Mixer::kDeltaNet, make<SequenceMixer, DeltaNet>},
    {recipe::Mixer::kMla, make<SequenceMixer, LatentAttention>},
};

constexpr Listed<recipe::ChannelMixer, ChannelMixer> kChannelModules[] = {
    {recipe::ChannelMixer::kDense, make<ChannelMixer, DenseChannel>},
    {recipe::ChannelMixer::kExperts, make<ChannelMixer, Experts>},
};

}  // namespace

std::unique_ptr<SequenceMixer> make_mixer(recipe::Mixer mixer, const recipe::ModelConfig& config,
                                          const BlockPlace& place, ParameterSet& parameters) {
  const auto* const found =
      std::ranges::find(kSequenceModules, mixer, &Listed<recipe::Mixer, SequenceMixer>::name);
  LONGHAUL_ASSERT(found != std::end(kSequenceModules), "no module for {}", place.name);
  LONGHAUL_ASSERT(config.causal || recipe::entry_of(mixer).bidirectional, "{} has no form without an order",
                  place.name);
  return found->make(config, place, parameters);
}

std::unique_ptr<ChannelMixer> make_channel_mixer(recipe::ChannelMixer mixer,
                                                 const recipe::ModelConfig& config, const BlockPlace& place,
                                                 ParameterSet& parameters) {
  if (mixer == recipe::ChannelMixer::kNone) return nullptr;
  const auto* const found =
      std::ranges::find(kChannelModules, mixer, &Listed<recipe::ChannelMixer, ChannelMixer>::name);
  LONGHAUL_ASSERT(found != std::end(kChannelModules), "no module for the channel mixer of {}", place.name);
  return found->make(config, place, parameters);
}

}  // namespace longhaul::model
