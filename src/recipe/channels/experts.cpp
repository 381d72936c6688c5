#include "recipe/channels/experts.h"

#include <algorithm>

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(RouterScore) { return {"softmax", "sigmoid", "sqrt_softplus"}; }
std::vector<std::string_view> names_of(Dropped) { return {"least", "last"}; }
std::vector<std::string_view> names_of(CapacityOf) { return {"sequence", "batch", "lent"}; }
std::vector<std::string_view> names_of(RouterChoice) {
  return {"score", "sinkhorn", "random", "round_robin", "biased", "quantile"};
}
std::vector<std::string_view> names_of(BalanceOf) { return {"sequence", "batch", "batch_so_far"}; }
std::vector<std::string_view> names_of(BalanceForm) { return {"switch", "gshard", "hugging_face"}; }

namespace {

void declare_router(OptionSet& set, RouterOptions& router) {
  set.add("model.router_score", router.score,
          "What a router makes of its logits: a softmax over all experts, or a sigmoid or √softplus of each "
          "by itself.");
  set.add("model.router_normalised", router.normalised,
          "Whether the weights of a token's experts sum to one; otherwise they are the scores themselves.");
  set.add("model.router_scale", router.scale,
          "What the weights of a token's experts are multiplied by, normalised or not.")
      .above(0)
      .at_most(1000)
      .also_called({"routed_scaling_factor"});
  set.add("model.router_groups", router.groups,
          "Groups of neighbouring experts; a token's experts come from the model.router_groups_per_token "
          "best of them, judged by the sum of their best "
          "scores (DeepSeek-V3). 1: any experts.")
      .at_least(1)
      .at_most(1 << 13)
      .also_called({"n_group", "num_expert_group"});
  set.add("model.router_groups_per_token", router.groups_per_token,
          "Groups that a token's experts may come from; divides model.experts_per_token.")
      .at_least(1)
      .at_most(1 << 13)
      .also_called({"topk_group"});
  set.add("model.router_bias_rate", router.bias_rate,
          "How far the bias of a router's choice moves in each step, up for experts with fewer tokens than "
          "the mean and down for the others; 0: no bias.")
      .at_least(0)
      .at_most(1);
  set.add("model.router_jitter", router.jitter,
          "In training every channel of a router's input is multiplied by a random number from [1 - jitter, "
          "1 + jitter), the same in every layout of "
          "ranks and when a layer is run again; 0: as it is.")
      .at_least(0)
      .at_most(0.99)
      .also_called({"router_jitter_noise", "moe_input_jitter_eps"});
  set.add("model.router_choice", router.choice,
          "What the choice of experts in training goes by: the scores, or the scores balanced over each "
          "sequence by Sinkhorn's iteration, so that experts "
          "get nearly the same number of its tokens (weights are those of the scores; "
          "model.auxiliary_loss=0). Otherwise it goes by the scores. For benchmarks, "
          "whatever the scores: random numbers or experts in turn (round_robin), which load experts evenly, "
          "or random numbers with a bias of each expert "
          "(biased), which loads them unevenly, the same ones always; such a router is not trained to "
          "choose. Or the logits less a threshold of each "
          "expert, which follows what would have given every expert the same number of a sequence's tokens "
          "(quantile; behind training too; "
          "model.auxiliary_loss=0).");
  set.add("model.router_choice_std", router.choice_std,
          "Standard deviation of the experts' biases in model.router_choice = biased, beside that of the "
          "random numbers of every token, which is 1; the "
          "larger, the less even are the loads.")
      .at_least(0)
      .at_most(1000)
      .also_called({"moe_router_force_biased"})
      .for_comparisons();
  set.add("model.router_quantile_memory", router.quantile_memory,
          "What a step leaves of the thresholds of model.router_choice = quantile; the rest is what the "
          "step's sequences ask for.")
      .at_least(0)
      .at_most(0.9999);
  set.add("model.capacity_factor", router.capacity_factor,
          "An expert takes at most this many times an even share of a sequence's choices in training; 0: it "
          "takes all.")
      .at_least(0)
      .at_most(1 << 13);
  set.add("model.capacity_of", router.capacity_of,
          "Whose choices share an expert's room: those of a sequence; those of all sequences of a step, so "
          "that one may use what others leave (the global "
          "router of MiniMax-01: batch, each by its share of all choices; lent, each its own room first, and "
          "a share of what others leave behind that; both take "
          "train.micro_batch · replicas = train.batch).")
      .for_comparisons();
  set.add("model.capacity_parts", router.capacity_parts,
          "Runs of tokens into which a sequence is cut, each with its share of the room. Where ranks share a "
          "sequence and each has whole runs (parallel.cp · "
          "parallel.tp, twice that with zigzag) nothing is communicated (sub-sequence dropping).")
      .at_least(1)
      .at_most(1 << 20);
  set.add("model.dropped", router.dropped,
          "Which choices an expert without room drops: those with the smallest weights (least), or of the "
          "last tokens of the sequence (last).");
}

void declare_experts(OptionSet& set, ModelConfig& model) {
  set.add("model.experts", model.experts, "Experts of every channel mixer; 0 makes it dense.")
      .at_least(0)
      .at_most(1 << 13)
      .also_called({"num_local_experts", "num_experts", "n_routed_experts"});
  set.add("model.experts_per_token", model.experts_per_token, "Experts that each token is sent to.")
      .at_least(1)
      .at_most(1 << 13)
      .also_called({"num_experts_per_tok", "top_k_experts"});
  set.add("model.auxiliary_loss", model.auxiliary_loss,
          "Coefficient of the loss that evens out the experts' load, in each sequence by itself or as "
          "model.auxiliary_loss_of says: sum over experts of experts times the share of its choices times "
          "the mean router probability, times its tokens; or as model.auxiliary_loss_form says.")
      .at_least(0)
      .at_most(1000)
      .also_called({"router_aux_loss_coef", "aux_loss"});
  set.add("model.auxiliary_loss_of", model.router.balance_of,
          "Whose share of the choices model.auxiliary_loss evens out: each sequence's by itself; those of "
          "all sequences of a step (batch: takes "
          "train.micro_batch · replicas = train.batch); or of those that the step's micro-batches have "
          "brought so far on all replicas (batch_so_far: any "
          "train.micro_batch, of which and of the number of replicas it then depends).");
  set.add("model.auxiliary_loss_form", model.router.balance_form,
          "How model.auxiliary_loss is counted for a token when all is balanced: switch: the coefficient "
          "itself, of each layer; gshard: as printed (1/E, shares of "
          "tokens), coefficient · k/E² of each layer; hugging_face: coefficient · k once, of all layers "
          "joined into one (router_aux_loss_coef of transformers; "
          "takes parallel.pp=1).");
  set.add("model.sequence_auxiliary_loss", model.router.sequence_loss,
          "Coefficient of a second balance loss, of each sequence by itself, beside that of "
          "model.auxiliary_loss_of = batch or batch_so_far; in the same form.")
      .at_least(0)
      .at_most(1000);
  set.add("model.z_loss", model.z_loss, "Coefficient of the mean squared log-sum-exp of the router logits.")
      .at_least(0)
      .at_most(1000);
  set.add("model.dense_layers", model.dense_layers,
          "Layers of a model with experts, counted from 0, whose channel mixer is dense all the same.")
      .at_least(0)
      .at_most(10000)
      .also_called({"mlp_only_layers", "first_k_dense_replace"});
  set.add("model.dense_intermediate", model.dense_intermediate,
          "Inner width of the channel mixers of model.dense_layers; 0: model.intermediate.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 22);
  set.add("model.shared_experts", model.shared_experts,
          "Experts that every token passes through beside those that it is sent to.")
      .at_least(0)
      .at_most(1 << 10)
      .also_called({"n_shared_experts", "num_shared_experts"});
  set.add("model.shared_intermediate", model.shared_intermediate,
          "Inner width of one shared expert; 0: model.intermediate.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 22)
      .also_called({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"});
  set.add("model.shared_gate", model.shared_gate,
          "Whether what the shared experts make of a token is multiplied by a sigmoid of a learned number of "
          "it (Qwen2-MoE).");
  declare_router(set, model.router);
}

void check_experts(const ModelConfig& model, std::vector<Problem>& out) {
  if (model.experts_per_token > model.experts) {
    out.push_back({{"model.experts_per_token", "model.experts"},
                   fmt::format("model.experts_per_token = {} is more than model.experts = {}",
                               model.experts_per_token, model.experts),
                   fmt::format("model.experts_per_token={}", model.experts)});
  }
  const RouterOptions& router = model.router;
  if (model.experts_per_token == 1 && model.experts > 1 && router.normalised) {
    out.push_back({{"model.experts_per_token", "model.router_normalised"},
                   "model.experts_per_token = 1 with model.router_normalised = true gives every expert the "
                   "weight 1, whatever its score, so the loss would "
                   "teach the router nothing",
                   "model.router_normalised=false (the weight is the score, as in Switch), or "
                   "model.experts_per_token=2"});
  }
  if (router.balance_form == BalanceForm::kHuggingFace && model.auxiliary_loss > 0 &&
      model.predict_ahead > 0) {
    out.push_back({{"model.auxiliary_loss_form", "model.predict_ahead"},
                   fmt::format("model.auxiliary_loss_form = hugging_face joins the routers of all layers, "
                               "and the modules of model.predict_ahead = {} are none of them",
                               model.predict_ahead),
                   "model.auxiliary_loss_form=switch, or model.predict_ahead=0"});
  }
  if (model.experts % router.groups != 0 || router.groups_per_token > router.groups ||
      model.experts_per_token % router.groups_per_token != 0 ||
      model.experts_per_token / router.groups_per_token > model.experts / router.groups) {
    out.push_back(
        {{"model.router_groups", "model.router_groups_per_token", "model.experts", "model.experts_per_token"},
         fmt::format("{} of {} groups of {} experts cannot give a token {} experts: groups are equal, and "
                     "each gives as many",
                     router.groups_per_token, router.groups, model.experts, model.experts_per_token),
         "model.router_groups=1 model.router_groups_per_token=1"});
  }
  if (router.capacity_of != CapacityOf::kSequence && router.capacity_parts > 1) {
    out.push_back({{"model.capacity_of", "model.capacity_parts"},
                   fmt::format("model.capacity_of = {} shares the room of all sequences, and "
                               "model.capacity_parts = {} cuts that of one",
                               name_of_value(router.capacity_of), router.capacity_parts),
                   "model.capacity_parts=1, or model.capacity_of=sequence"});
  }
  if (router.sequence_loss > 0 && (router.balance_of == BalanceOf::kSequence || model.auxiliary_loss == 0)) {
    out.push_back({{"model.sequence_auxiliary_loss", "model.auxiliary_loss_of", "model.auxiliary_loss"},
                   fmt::format("model.sequence_auxiliary_loss = {} is a second loss, beside "
                               "model.auxiliary_loss of the batch; here it would be the only one",
                               router.sequence_loss),
                   "model.sequence_auxiliary_loss=0 and its coefficient in model.auxiliary_loss, or "
                   "model.auxiliary_loss_of=batch_so_far"});
  }
  if (router.choice != RouterChoice::kScore) {
    const bool balances =
        router.choice == RouterChoice::kSinkhorn || router.choice == RouterChoice::kQuantile;
    const auto refuse = [&](const char* key, const std::string& found, const std::string& reason,
                            const std::string& hint) {
      out.push_back(
          {{"model.router_choice", key},
           fmt::format("model.router_choice = {} {} the choices by itself, and {} = {} {}",
                       name_of_value(router.choice), balances ? "balances" : "makes", key, found, reason),
           hint + ", or model.router_choice=score"});
    };
    if (model.auxiliary_loss > 0 && balances)
      refuse("model.auxiliary_loss", fmt::format("{}", model.auxiliary_loss), "would balance them too",
             "model.auxiliary_loss=0");
    if (router.bias_rate > 0)
      refuse("model.router_bias_rate", fmt::format("{}", router.bias_rate),
             balances ? "would balance them too" : "would have no part in them", "model.router_bias_rate=0");
    if (router.groups > 1)
      refuse("model.router_groups", fmt::format("{}", router.groups),
             balances ? "would take most experts out of the balance" : "would have no part in them",
             "model.router_groups=1 model.router_groups_per_token=1");
    if (router.choice == RouterChoice::kQuantile && model.experts_per_token >= model.experts)
      refuse("model.experts_per_token", fmt::format("{}", model.experts_per_token), "leaves no expert out",
             "model.experts_per_token=2 with more model.experts");
  }
  if (model.shared_gate && model.shared_experts == 0) {
    out.push_back({{"model.shared_gate", "model.shared_experts"},
                   "model.shared_gate = true, and there are no shared experts",
                   "model.shared_experts=1"});
  }
  for (const int64_t layer : model.dense_layers) {
    if (layer < model.layers) continue;
    out.push_back(
        {{"model.dense_layers", "model.layers"},
         fmt::format("model.dense_layers names layer {} of {}, counted from 0", layer, model.layers),
         "model.dense_layers=0"});
    break;
  }
  if (model.channel != Channel::kSwiglu) {
    out.push_back({{"model.experts", "model.channel"},
                   fmt::format("experts are SwiGLU; model.channel = {} is for dense layers",
                               name_of_value(model.channel)),
                   "model.channel=swiglu"});
  }
}

bool experts_biases(const ModelConfig&) { return false; }

std::vector<MixerTensor> experts_tensors(const ModelConfig& model) {
  using enum MixerTensor::Cut;
  const MixerTensor up{.name = "up",
                       .role = Role::kExpertUp,
                       .out = model.intermediate,
                       .in = model.hidden,
                       .cut = kRows,
                       .of_expert = true};
  MixerTensor gate = up;
  gate.name = "gate";
  gate.role = Role::kExpertGate;
  std::vector<MixerTensor> tensors = {
      {.name = "router", .role = Role::kRouter, .out = model.experts, .in = model.hidden}};
  if (model.router.biased())
    tensors.push_back(
        {.name = "router", .role = Role::kRouter, .out = model.experts, .without_gradient = true});
  tensors.insert(tensors.end(), {gate, below(up),
                                 MixerTensor{.name = "down",
                                             .role = Role::kExpertDown,
                                             .out = model.hidden,
                                             .in = model.intermediate,
                                             .cut = kColumns,
                                             .of_expert = true}});
  if (model.shared_experts == 0) return tensors;
  const int64_t width = model.shared_width();
  tensors.insert(
      tensors.end(),
      {MixerTensor{
           .name = "shared.gate", .role = Role::kChannelGate, .out = width, .in = model.hidden, .cut = kRows},
       below({.name = "shared.up", .role = Role::kChannelUp, .out = width, .in = model.hidden, .cut = kRows}),
       MixerTensor{.name = "shared.down",
                   .role = Role::kChannelDown,
                   .out = model.hidden,
                   .in = width,
                   .cut = kColumns}});
  if (model.shared_gate)
    tensors.push_back({.name = "shared_gate", .role = Role::kGate, .out = 1, .in = model.hidden});
  return tensors;
}

BlockMemory experts_memory(const ModelConfig& model, const BlockSizes& size) {
  const auto k = static_cast<double>(model.experts_per_token), experts = static_cast<double>(model.experts);
  const double rows = k * size.hidden, a = k * size.channels(model.intermediate), z = 2 * a;
  // A router's jittered input is kept in place of the plain one, unless others keep that too.
  const double made =
      model.router.jitter > 0 ? size.tokens * static_cast<double>(model.hidden) * size.wide : 0;
  const bool both = model.shared_experts > 0 || model.wiring == Wiring::kParallel;
  const double jittered = made > 0 && !both ? made - size.hidden : made;
  // Probabilities and log-sums, weights, choices and places in the experts' order.
  const double routing = size.tokens * (experts + 1 + k) * size.wide + size.tokens * k * (8 + 8);
  // Of the residual, z, the experts' input and weights; the gradient of their output has replaced the output.
  const double backward = size.hidden + z + rows + size.tokens * k * size.wide;
  // The shared experts: gate and up, their product, and with a gate their output and the gate before and
  // after its sigmoid.
  const double shared_a = size.channels(model.shared_width()), shared_z = 2 * shared_a;
  const double gated = model.shared_gate ? size.hidden + 2 * size.channels(1) : 0;
  const double shared_backward =
      (model.shared_experts > 0 ? size.hidden : 0) + shared_z + (model.shared_gate ? size.hidden : 0);
  return {.kept = routing + jittered + 2 * rows + z + a + shared_z + shared_a + gated,
          // In the backward pass the shared experts come first, because they come last in the forward pass.
          .backward =
              std::max(backward + (model.shared_experts > 0 ? size.hidden : 0) - shared_z - shared_a - gated,
                       shared_backward),
          .cheap = rows + a + shared_a + jittered,
          .again = std::max(backward + rows + a + size.hidden,
                            // also the normalised input, from which the rows are made
                            shared_backward + shared_a + size.hidden),
          .evaluation = routing + size.tokens * k * 8 + std::max(2 * rows + a, size.hidden + shared_a) +
                        5 * size.hidden};
}

}  // namespace

constinit const ChannelMixerEntry kExpertsMixer{.name = "experts",
                                                .biases = experts_biases,
                                                .declare = declare_experts,
                                                .check = check_experts,
                                                .tensors = experts_tensors,
                                                .memory = experts_memory};

}  // namespace longhaul::recipe
