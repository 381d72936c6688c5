#include "recipe/mixers/mixture.h"

#include <algorithm>

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

// Entries are asked about refused models too: a mixture of mixtures would never end.
const SequenceMixerEntry& linear_of(const ModelConfig& model) {
  return entry_of(model.mixture.linear == Mixer::kMixture ? Mixer::kSoftmax : model.mixture.linear);
}

void declare_mixture(OptionSet& set, ModelConfig& model) {
  set.add("model.mixture.linear", model.mixture.linear,
          "Sequence mixer of the linear branch of mixture layers, beside a softmax one; each has its own "
          "options.");
  set.add("model.mixture.norm", model.mixture.norm,
          "RMS normalisation, with weights, of the output of each branch of mixture layers before they are "
          "summed.");
  set.add(
      "model.mixture.learned_weights", model.mixture.learned_weights,
      "Whether the branches of mixture layers are summed with two learned numbers a layer, ones at first.");
}

void check_mixture(const ModelConfig& model, std::vector<Problem>& out) {
  if (model.mixture.linear == Mixer::kMixture || model.mixture.linear == Mixer::kSoftmax ||
      model.mixture.linear == Mixer::kMla) {
    out.push_back(
        {{"model.mixture.linear"},
         fmt::format("model.mixture.linear = {} is no linear mixer: one branch is softmax attention already",
                     entry_of(model.mixture.linear).name),
         "model.mixture.linear=gla"});
    return;
  }
  for (const SequenceMixerEntry* branch : {&entry_of(Mixer::kSoftmax), &linear_of(model)}) {
    if (branch->check != nullptr) branch->check(model, out);
  }
}

std::vector<MixerTensor> branch_tensors(const SequenceMixerEntry& branch, const char* name,
                                        const ModelConfig& model) {
  constexpr std::string_view kOwn = "mixer.";
  std::vector<MixerTensor> tensors = branch.tensors(model);
  for (MixerTensor& tensor : tensors)
    tensor.name = fmt::format("mixer.{}.{}", name, tensor.name.substr(kOwn.size()));
  return tensors;
}

std::vector<MixerTensor> mixture_tensors(const ModelConfig& model) {
  std::vector<MixerTensor> tensors = branch_tensors(entry_of(Mixer::kSoftmax), "softmax", model);
  for (MixerTensor& tensor : branch_tensors(linear_of(model), "linear", model))
    tensors.push_back(std::move(tensor));
  if (model.mixture.norm) {
    tensors.push_back({.name = "mixer.softmax_norm", .role = Role::kNorm, .out = model.hidden});
    tensors.push_back({.name = "mixer.linear_norm", .role = Role::kNorm, .out = model.hidden});
  }
  if (model.mixture.learned_weights)
    tensors.push_back({.name = "mixer.weights", .role = Role::kCoefficient, .out = 2});
  return tensors;
}

std::vector<MixerTensor> mixture_shared(const ModelConfig& model) {
  return linear_of(model).shared != nullptr ? linear_of(model).shared(model) : std::vector<MixerTensor>{};
}

OperatorSizes with_attention(const ModelConfig& model, OperatorSizes linear) {
  linear.attention = entry_of(Mixer::kSoftmax).operators(model).attention;
  return linear;
}

std::vector<MixerStateTensor> with_keys_and_values(const ModelConfig& model,
                                                   std::vector<MixerStateTensor> linear) {
  for (MixerStateTensor& tensor : entry_of(Mixer::kSoftmax).state(model)) linear.push_back(std::move(tensor));
  return linear;
}

// The softmax branch goes first, and its backward pass last.
BlockMemory with_softmax(const ModelConfig& model, const BlockSizes& size, const BlockMemory& linear) {
  const BlockMemory softmax = entry_of(Mixer::kSoftmax).memory(model, size);
  // A norm keeps its input and one root per token; learned weights keep what they multiply; the gradient of
  // the normalised value is one more.
  const double norm = model.mixture.norm ? size.hidden + size.tokens * size.wide : 0,
               weighed = model.mixture.learned_weights ? size.hidden : 0;
  const double entered = model.mixture.norm || model.mixture.learned_weights ? size.hidden : 0;
  // After the linear branch: all that it kept is gone, and its gradient for the block's input exists.
  const auto most = [&](double of_linear, double of_softmax, double linear_kept) {
    return std::max(of_linear + entered, of_softmax + entered + size.hidden - linear_kept - norm - weighed);
  };
  return {.kept = softmax.kept + linear.kept + 2 * (norm + weighed),
          .backward = most(linear.backward, softmax.backward, linear.kept),
          .cheap = softmax.cheap + linear.cheap,
          .again = most(linear.again, softmax.again, linear.kept - linear.cheap),
          .evaluation = std::max(softmax.evaluation, linear.evaluation + size.hidden) +
                        (model.mixture.norm ? size.hidden : 0)};
}

OperatorSizes mixture_operators(const ModelConfig& model) {
  return with_attention(model, linear_of(model).operators(model));
}
std::vector<MixerStateTensor> mixture_state(const ModelConfig& model) {
  return with_keys_and_values(model, linear_of(model).state(model));
}
BlockMemory mixture_memory(const ModelConfig& model, const BlockSizes& size) {
  return with_softmax(model, size, linear_of(model).memory(model, size));
}

OperatorSizes first_operators(const ModelConfig& model) {
  const auto own = linear_of(model).of_first_layer.operators;
  return own != nullptr ? with_attention(model, own(model)) : mixture_operators(model);
}
std::vector<MixerStateTensor> first_state(const ModelConfig& model) {
  const auto own = linear_of(model).of_first_layer.state;
  return own != nullptr ? with_keys_and_values(model, own(model)) : mixture_state(model);
}
BlockMemory first_memory(const ModelConfig& model, const BlockSizes& size) {
  const auto own = linear_of(model).of_first_layer.memory;
  return own != nullptr ? with_softmax(model, size, own(model, size)) : mixture_memory(model, size);
}

}  // namespace

constinit const SequenceMixerEntry kMixtureMixer{
    .name = "mixture",
    .declare = declare_mixture,
    .check = check_mixture,
    .operators = mixture_operators,
    .tensors = mixture_tensors,
    .shared = mixture_shared,
    .state = mixture_state,
    .memory = mixture_memory,
    .of_first_layer = {.operators = first_operators, .state = first_state, .memory = first_memory}};

}  // namespace longhaul::recipe
