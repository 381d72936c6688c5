// Decoder against an independent forward and backward pass (support/plain_decoder.h): logits, losses and
// every gradient, in fp64. ctest: timeout=120
#include <gtest/gtest.h>

#include "model/mixers/mamba2.h"
#include "support/plain_decoder.h"
#include "support/variant_models.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

// What the small models leave out: every layer lightning, biases beside lightning, Hugging Face's slopes,
// three of five experts in a pre-norm model; factors of one's own, LayerNorm without bias, GeLU and no
// positions in a post-norm one; HGRN2 as deep as it goes, behind another mixer, with biases, experts and as
// many keys as values.
std::vector<NamedConfig> models() {
  std::vector<NamedConfig> all = small_models();
  recipe::ModelConfig lightning = small_config();
  lightning.mixers = {recipe::Mixer::kLightning};
  lightning.heads = 6;
  lightning.bias = true;
  lightning.lightning.layer_factor = recipe::LayerFactor::kHuggingFace;
  lightning.lightning.norm_eps = 1e-3;
  lightning.experts = 5;
  lightning.experts_per_token = 3;
  lightning.auxiliary_loss = 0.3;
  lightning.z_loss = 0.2;
  all.push_back({"lightning_experts_pre_norm", lightning});
  for (const auto form : {recipe::BalanceForm::kGshard, recipe::BalanceForm::kHuggingFace}) {
    lightning.router.balance_form = form;
    lightning.auxiliary_loss = 2;
    all.push_back({"lightning_experts_" + std::string(names_of(form)[static_cast<size_t>(form)]), lightning});
  }
  lightning.router.balance_form = recipe::BalanceForm::kSwitch;
  lightning.router.score = recipe::RouterScore::kSqrtSoftplus;
  all.push_back({"lightning_experts_sqrt_softplus", lightning});
  recipe::ModelConfig narrow = small_config();  // in fp64 there is nothing to round
  narrow.mixers = {recipe::Mixer::kLightning};
  narrow.lightning.state = recipe::LightningState::kModel;
  all.push_back({"lightning_state_of_the_model", narrow});
  narrow.lightning = {.silu_wide = true};
  all.push_back({"lightning_silu_wide", narrow});
  recipe::ModelConfig metala = gated_lineage();
  metala.metala.gate_bias = false;
  all.push_back({"metala_without_gate_bias", metala});
  recipe::ModelConfig post = small_config();
  post.wiring = recipe::Wiring::kPostNorm;
  post.mixers = {recipe::Mixer::kSoftmax, recipe::Mixer::kLightning};
  post.alpha = 1.7;
  post.beta = 0.6;
  post.norm = recipe::Norm::kLayer;
  post.norm_eps = 1e-3;
  post.channel = recipe::Channel::kGelu;
  post.position = recipe::Position::kNone;
  all.push_back({"layer_norm_post_norm", post});
  recipe::ModelConfig gated = small_config();
  gated.layers = 4;
  gated.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kHgrn2, recipe::Mixer::kHgrn2,
                  recipe::Mixer::kHgrn2};
  gated.wiring = recipe::Wiring::kPostNorm;
  gated.bias = true;
  gated.hgrn2.norm_eps = 1e-3;
  gated.experts = 3;
  all.push_back({"hgrn2_experts_post_norm", gated});
  gated.wiring = recipe::Wiring::kParallel;
  all.push_back({"hgrn2_experts_parallel", gated});
  for (const recipe::TnlSlopes slopes :
       {recipe::TnlSlopes::kPaper, recipe::TnlSlopes::kFla, recipe::TnlSlopes::kXmixers}) {
    all.push_back(
        {"tnl_slopes_" + std::string(names_of(slopes)[static_cast<size_t>(slopes)]), tnl_of_slopes(slopes)});
  }
  recipe::ModelConfig delta = delta_without_decay();
  delta.deltanet = {.convolution = 2, .output_gate = true, .norm_eps = 1e-3};
  all.push_back({"delta_without_decay_gated", delta});
  recipe::ModelConfig cosformer = small_config();
  cosformer.mixers = {recipe::Mixer::kCosformer};
  all.push_back({"cosformer", cosformer});
  recipe::ModelConfig lineage = gated_lineage();  // the other choice of every option
  lineage.mixers = {recipe::Mixer::kLightnet, recipe::Mixer::kMetala, recipe::Mixer::kRetnet,
                    recipe::Mixer::kHgrn, recipe::Mixer::kMamba2};
  lineage.layers = 5;
  lineage.lightnet = {.norm_weight = false};
  lineage.metala = {.key_dim = 3, .convolution = 0, .temperature = 4, .norm_eps = 1e-3};
  lineage.hgrn = {.complex = false, .norm_eps = 1e-3};
  lineage.mamba2 = {.state = 5, .groups = 2, .norm_groups = 2, .convolution = 1, .norm_eps = 1e-3};
  lineage.wiring = recipe::Wiring::kPostNorm;
  all.push_back({"lineage_post_norm", lineage});
  recipe::ModelConfig whole = without_order();
  all.push_back({"without_order", whole});
  whole.lightnet.grid = {2, 4};
  all.push_back({"on_a_grid", whole});
  whole.toeplitz = 3;
  all.push_back({"toeplitz_on_a_grid", whole});
  whole.lightnet.grid = {2, 1, 2};  // fewer places than some documents have tokens
  whole.lightnet.positions = false;
  all.push_back({"toeplitz_on_a_grid_of_three_axes", whole});
  whole.lightnet.grid = {};
  all.push_back({"toeplitz_without_order", whole});
  whole = without_order();
  whole.lightnet.expand = 7;
  whole.lightnet.grid = {2, 2, 2};
  whole.causal = true;
  all.push_back({"on_a_grid_of_three_axes_causal", whole});
  whole = without_order();
  whole.lightnet = {.norm_weight = false};
  whole.position = recipe::Position::kNone;
  whole.experts = 3;
  all.push_back({"without_order_and_positions", whole});
  for (size_t type = 0; type < names_of(recipe::LcsmOscillation()).size(); ++type) {
    recipe::ModelConfig memory = small_config();
    memory.layers = 2;
    memory.mixers = {recipe::Mixer::kLcsm, recipe::Mixer::kSoftmax};
    memory.bias = type == 1;
    memory.channel = type == 1 ? recipe::Channel::kGelu : memory.channel;
    memory.lcsm.state = 3;
    memory.lcsm.rank = 2;
    memory.lcsm.tau = 2;
    memory.lcsm.oscillation = static_cast<recipe::LcsmOscillation>(type);
    memory.lcsm.activation =
        static_cast<recipe::LcsmActivation>(type % names_of(recipe::LcsmActivation()).size());
    const std::string name = "lcsm_" + std::string(names_of(recipe::LcsmOscillation())[type]);
    all.push_back({name, memory});
    if (type <= 5) {
      memory.lcsm.tau = 0;
      all.push_back({name + "_slopes", memory});
    }
    if (type > 10) continue;
    (type % 2 == 0 ? memory.lcsm.expand : memory.lcsm.shrink) = recipe::LcsmSource::kFixed;
    memory.lcsm.tau = 4;
    all.push_back({name + "_fixed", memory});
  }
  recipe::ModelConfig groups = grouped_router();  // two of three, each judged by its best
  groups.experts = 6;
  groups.router.groups = 3;
  groups.router.groups_per_token = 2;
  all.push_back({"two_groups", groups});
  // Softmax attention beside every linear mixer.
  for (size_t i = 0; i < names_of(recipe::Mixer()).size(); ++i) {
    const auto linear = static_cast<recipe::Mixer>(i);
    if (linear == recipe::Mixer::kSoftmax || linear == recipe::Mixer::kMixture) continue;
    recipe::ModelConfig mixture = small_config();
    mixture.layers = 2;
    mixture.mixers = {recipe::Mixer::kMixture};
    mixture.mixture = {.linear = linear, .norm = i % 3 > 0, .learned_weights = i % 2 > 0};
    all.push_back({"mixture_" + std::string(names_of(linear)[i]), mixture});
  }
  return all;
}

class ForwardPass : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(ForwardPass, EqualsThePublishedDefinitions) {
  const recipe::ModelConfig& config = GetParam().config;
  Decoder decoder = filled_decoder(config);
  auto layout = layout::make_packed(std::vector<int64_t>{7, 1, 5, 6});
  layout.row_offsets = {0, 8, 19};
  const Tensor ids = id_tensor(random_ids(layout.tokens(), config.vocabulary, 31)),
               labels = id_tensor(random_ids(layout.tokens(), config.vocabulary, 32));
  labels[3] = layout::kIgnoreLabel;

  const LogicalTensors leaves = leaves_of(decoder.parameters());
  const PlainDecoder::Result expected = PlainDecoder(config, leaves, layout).run(ids, labels);
  (expected.loss + expected.auxiliary).backward();

  LocalOps ops;
  Context context(ops, decoder.precision());
  decoder.parameters().zero_gradients();
  const Tensor hidden = decoder.hidden(context, ids, layout), loss = decoder.loss(context, hidden, labels);
  loss.backward();
  double auxiliary = 0;
  for (const auto& [block, value] : context.auxiliary_losses) auxiliary += value.item<double>();

  EXPECT_LT(relative_error(decoder.logits(hidden), expected.logits_tv), 1e-10);
  EXPECT_LT(relative_error(loss, expected.loss), 1e-10);
  EXPECT_NEAR(auxiliary, expected.auxiliary.item<double>(), 1e-10);
  if (config.experts > 0) {
    EXPECT_GT(auxiliary, 0.1);
  }
  for (const auto& [name, leaf] : leaves) {
    size_t part = 0;
    const Parameter* holder = decoder.parameters().holder_of(name, &part);
    const Tensor found = holder->part_of(holder->grad, part),
                 wanted = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
    const double scale = std::max(wanted.abs().max().item<double>(), 1e-3);  // of the keys' biases it is 0
    EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-10 * scale) << name;
  }
}

// Keys that are small: the sums that cosFormer divides by are then far below one, and nothing else than such
// sums may be changed.
TEST(ForwardPassOfSmallSums, CosformerDividesByThem) {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kCosformer};
  Decoder decoder = filled_decoder(config);
  int64_t made_small = 0;
  for (const auto& parameter : decoder.parameters().all()) {
    for (size_t part = 0; part < parameter->parts.size(); ++part) {
      if (!parameter->parts[part].spec.tensor.name.ends_with("mixer.key.weight")) continue;
      parameter->part_of(parameter->value.detach(), part).mul_(1e-4);
      parameter->written();
      ++made_small;
    }
  }
  EXPECT_EQ(made_small, config.layers);
  const auto layout = layout::make_packed(std::vector<int64_t>{7, 4});
  const Tensor ids = id_tensor(random_ids(layout.tokens(), config.vocabulary, 31)),
               labels = id_tensor(random_ids(layout.tokens(), config.vocabulary, 32));
  const at::NoGradGuard no_gradient;
  const PlainDecoder::Result expected =
      PlainDecoder(config, leaves_of(decoder.parameters()), layout).run(ids, labels);
  LocalOps ops;
  Context context(ops, decoder.precision());
  EXPECT_LT(relative_error(decoder.logits(decoder.hidden(context, ids, layout)), expected.logits_tv), 1e-10);
}

// Of heads that share keys and queries by groups each tensor rank has those of its own: what the ranks make
// adds up to what one makes. Channels are normed by groups that a rank has whole.
TEST(Mamba2OfTensorRanks, AddsUpToTheWhole) {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kMamba2};
  config.heads = 4;
  config.layers = 1;
  config.mamba2 = {.state = 5, .groups = 2, .norm_groups = 4, .norm_eps = 1e-3};
  const auto layout = layout::make_packed(std::vector<int64_t>{7, 4});
  const Tensor hidden = random_tensor({layout.tokens(), config.hidden}, 5);
  const auto of_rank = [&](int64_t ranks, int64_t rank) {
    const layout::MeshRank place{.mesh = {ranks, {.tp = ranks}}, .rank = rank};
    std::vector<layout::ParameterSpec> specs = layout::parameters_of(config, place);
    std::erase_if(specs, [](const layout::ParameterSpec& spec) {
      return !spec.tensor.name.starts_with("layers.0.mixer.");
    });
    ParameterSet parameters(specs, Precision::named("fp64"), at::kCPU, Use::kInference, place);
    Mamba2 mixer(config, {.layer = 0, .name = "layers.0.mixer"}, parameters);
    parameters.allocate();
    parameters.initialise(3);
    LocalOps ops;
    Context context(ops, Precision::named("fp64"));
    return mixer.forward(context, hidden, layout::SequenceView(layout), nullptr);
  };
  const at::NoGradGuard no_gradient;
  const Tensor whole = of_rank(1, 0), parts = of_rank(2, 0) + of_rank(2, 1);
  EXPECT_GT(whole.abs().max().item<double>(), 1e-3);
  EXPECT_LT(relative_error(parts, whole), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Models, ForwardPass, ::testing::ValuesIn(models()),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace longhaul::model
