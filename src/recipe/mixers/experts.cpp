#include "recipe/mixers/experts.h"

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(RouterScore) { return {"softmax", "sigmoid"}; }
std::vector<std::string_view> names_of(Dropped) { return {"least", "last"}; }

namespace {

void declare_router(OptionSet& set, RouterOptions& router) {
  set.add("model.router_score", router.score,
          "What a router makes of its logits: a softmax over all experts, or a sigmoid of each by itself.");
  set.add("model.router_normalised", router.normalised,
          "Whether the weights of a token's experts sum to one; otherwise they are the scores themselves.");
  set.add(
         "model.router_bias_rate", router.bias_rate,
         "How far the bias of a router's choice moves in each step, up for experts with fewer tokens than the mean and down for the others; 0: no bias.")
      .at_least(0)
      .at_most(1);
  set.add("model.capacity_factor", router.capacity_factor,
          "An expert takes at most this many times an even share of a sequence's choices in training; 0: it takes all.")
      .at_least(0)
      .at_most(1 << 13);
  set.add(
      "model.dropped", router.dropped,
      "Which choices an expert without room drops: those with the smallest weights (least), or of the last tokens of the sequence (last).");
}

void declare_experts(OptionSet& set, ModelConfig& model) {
  set.add("model.experts", model.experts, "Experts of every channel mixer; 0 makes it dense.")
      .at_least(0)
      .at_most(1 << 13)
      .also_called({"num_local_experts", "num_experts"});
  set.add("model.experts_per_token", model.experts_per_token, "Experts that each token is sent to.")
      .at_least(1)
      .at_most(1 << 13)
      .also_called({"num_experts_per_tok", "top_k_experts"});
  set.add(
         "model.auxiliary_loss", model.auxiliary_loss,
         "Coefficient of the loss that evens out the experts' load in each sequence by itself: sum over experts of experts times the share of its choices times the mean router probability, times its tokens.")
      .at_least(0)
      .at_most(1000)
      .also_called({"router_aux_loss_coef", "aux_loss"});
  set.add("model.z_loss", model.z_loss, "Coefficient of the mean squared log-sum-exp of the router logits.").at_least(0).at_most(1000);
  declare_router(set, model.router);
}

void check_experts(const ModelConfig& model, std::vector<Problem>& out) {
  if (model.experts_per_token > model.experts) {
    out.push_back({{"model.experts_per_token", "model.experts"},
                   fmt::format("model.experts_per_token = {} is more than model.experts = {}", model.experts_per_token, model.experts),
                   fmt::format("model.experts_per_token={}", model.experts)});
  }
  if (model.channel != Channel::kSwiglu) {
    out.push_back(
        {{"model.experts", "model.channel"}, "experts are SwiGLU; model.channel = gelu is for dense layers", "model.channel=swiglu"});
  }
}

bool experts_biases(const ModelConfig&) { return false; }

std::vector<MixerTensor> experts_tensors(const ModelConfig& model) {
  using enum MixerTensor::Cut;
  const MixerTensor up{
      .name = "up", .role = Role::kExpertUp, .out = model.intermediate, .in = model.hidden, .cut = kRows, .of_expert = true};
  MixerTensor gate = up;
  gate.name = "gate";
  gate.role = Role::kExpertGate;
  std::vector<MixerTensor> tensors = {{.name = "router", .role = Role::kRouter, .out = model.experts, .in = model.hidden}};
  if (model.router.bias_rate > 0)
    tensors.push_back({.name = "router", .role = Role::kRouter, .out = model.experts, .without_gradient = true});
  tensors.insert(
      tensors.end(),
      {gate, below(up),
       MixerTensor{
           .name = "down", .role = Role::kExpertDown, .out = model.hidden, .in = model.intermediate, .cut = kColumns, .of_expert = true}});
  return tensors;
}

BlockMemory experts_memory(const ModelConfig& model, const BlockSizes& size) {
  const auto k = static_cast<double>(model.experts_per_token), experts = static_cast<double>(model.experts);
  const double rows = k * size.hidden, a = k * size.channels(model.intermediate), z = 2 * a;
  // Probabilities and log-sums, weights, choices and places in the experts' order.
  const double routing = size.tokens * (experts + 1 + k) * size.wide + size.tokens * k * (8 + 8);
  // Of the residual, z, the experts' input and weights; the gradient of their output has taken the output's place.
  const double backward = size.hidden + z + rows + size.tokens * k * size.wide;
  return {.kept = routing + 2 * rows + z + a,
          .backward = backward,
          .cheap = rows + a,
          .again = backward + rows + a + size.hidden,  // what was normed too, of which the rows are made
          .evaluation = routing + size.tokens * k * 8 + 2 * rows + a + 5 * size.hidden};
}

}  // namespace

constinit const ChannelMixerEntry kExpertsMixer{.name = "experts",
                                                .biases = experts_biases,
                                                .declare = declare_experts,
                                                .check = check_experts,
                                                .tensors = experts_tensors,
                                                .memory = experts_memory};

}  // namespace longhaul::recipe
