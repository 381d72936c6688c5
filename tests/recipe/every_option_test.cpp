// Every declared option, parsed from a recipe, changes the field it names and no other option. A new option needs a row here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "recipe/load.h"
#include "recipe/mixers.h"

namespace longhaul::recipe {
namespace {

struct Row {
  std::string key;
  std::string value;                           // as TOML; not the default
  std::function<bool(const Recipe&)> arrived;  // in the field that the name means
  std::string partner;                         // other keys without which the value is refused
  std::string why;                             // that partner is needed
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"description", "\"for a test\"", [](const Recipe& r) { return r.description == "for a test"; }, "", ""},

      {"model.preset", "\"linear-bench\"", [](const Recipe& r) { return r.model.preset == "linear-bench"; }, "", ""},
      {"model.family", "\"llama\"", [](const Recipe& r) { return r.model.family == "llama"; }, "", ""},
      {"model.layers", "3", [](const Recipe& r) { return r.model.layers == 3; }, "", ""},
      {"model.hidden", "96", [](const Recipe& r) { return r.model.hidden == 96; }, "", ""},
      {"model.vocabulary", "9000", [](const Recipe& r) { return r.model.vocabulary == 9000; }, "", ""},
      {"model.heads", "16", [](const Recipe& r) { return r.model.heads == 16; }, "", ""},
      {"model.kv_heads", "2", [](const Recipe& r) { return r.model.softmax.kv_heads == 2; }, "", ""},
      {"model.head_dim", "80", [](const Recipe& r) { return r.model.head_dim == 80; }, "", ""},
      {"model.mixers", "[\"lightning\", \"softmax\"]",
       [](const Recipe& r) {
         return r.model.mixers == std::vector{Mixer::kLightning, Mixer::kSoftmax};
       },
       "", ""},
      {"model.causal", "false", [](const Recipe& r) { return !r.model.causal; }, "train.objective = \"masked\"",
       "every token would read the one it is to predict"},
      {"model.channel", "\"gelu\"", [](const Recipe& r) { return r.model.channel == Channel::kGelu; }, "", ""},
      {"model.intermediate", "100", [](const Recipe& r) { return r.model.intermediate == 100; }, "", ""},
      {"model.experts", "6", [](const Recipe& r) { return r.model.experts == 6; }, "", ""},
      {"model.experts_per_token", "3", [](const Recipe& r) { return r.model.experts_per_token == 3; }, "", ""},
      {"model.auxiliary_loss", "0.5", [](const Recipe& r) { return r.model.auxiliary_loss == 0.5; }, "", ""},
      {"model.z_loss", "0.25", [](const Recipe& r) { return r.model.z_loss == 0.25; }, "", ""},
      {"model.norm", "\"layer\"", [](const Recipe& r) { return r.model.norm == Norm::kLayer; }, "", ""},
      {"model.norm_eps", "1e-4", [](const Recipe& r) { return r.model.norm_eps == 1e-4; }, "", ""},
      {"model.lightning_norm_eps", "1e-3", [](const Recipe& r) { return r.model.lightning.norm_eps == 1e-3; }, "", ""},
      {"model.softmax.windows", "[0, 64]", [](const Recipe& r) { return r.model.softmax.windows == std::vector<int64_t>{0, 64}; }, "", ""},
      {"model.softmax.qk_norm", "true", [](const Recipe& r) { return r.model.softmax.qk_norm; }, "", ""},
      {"model.softmax.bias", "\"qkv\"", [](const Recipe& r) { return r.model.softmax.bias == AttentionBias::kQkv; }, "", ""},
      {"model.softmax.alpha", "1.5", [](const Recipe& r) { return r.model.softmax.alpha == 1.5; }, "", ""},
      {"model.softmax.beta", "0.5", [](const Recipe& r) { return r.model.softmax.beta == 0.5; }, "", ""},
      {"model.softmax.rotary_scaling", "\"llama3\"",
       [](const Recipe& r) { return r.model.softmax.rotary_scaling == RotaryScaling::kLlama3; }, "", ""},
      {"model.softmax.rotary_factor", "8", [](const Recipe& r) { return r.model.softmax.rotary_factor == 8; }, "", ""},
      {"model.softmax.rotary_low", "2", [](const Recipe& r) { return r.model.softmax.rotary_low == 2; }, "", ""},
      {"model.softmax.rotary_high", "5", [](const Recipe& r) { return r.model.softmax.rotary_high == 5; }, "", ""},
      {"model.softmax.rotary_original", "4096", [](const Recipe& r) { return r.model.softmax.rotary_original == 4096; }, "", ""},
      {"model.lightning.base_slopes", "\"hugging_face\"",
       [](const Recipe& r) { return r.model.lightning.base_slopes == BaseSlopes::kHuggingFace; }, "", ""},
      {"model.lightning.alpha", "1.5", [](const Recipe& r) { return r.model.lightning.alpha == 1.5; }, "", ""},
      {"model.lightning.beta", "0.5", [](const Recipe& r) { return r.model.lightning.beta == 0.5; }, "", ""},
      {"model.channel_alpha", "1.5", [](const Recipe& r) { return r.model.channel_alpha == 1.5; }, "", ""},
      {"model.channel_beta", "0.5", [](const Recipe& r) { return r.model.channel_beta == 0.5; }, "", ""},
      {"model.hgrn2.expand", "48", [](const Recipe& r) { return r.model.hgrn2.expand == 48; }, "", ""},
      {"model.hgrn2.norm_eps", "1e-3", [](const Recipe& r) { return r.model.hgrn2.norm_eps == 1e-3; }, "", ""},
      {"model.tnl.version", "\"v2\"", [](const Recipe& r) { return r.model.tnl.version == TnlVersion::kV2; }, "", ""},
      {"model.tnl.slopes", "\"fla\"", [](const Recipe& r) { return r.model.tnl.slopes == TnlSlopes::kFla; }, "", ""},
      {"model.tnl.layer_temperature", "false", [](const Recipe& r) { return !r.model.tnl.layer_temperature; }, "", ""},
      {"model.tnl.positions", "false", [](const Recipe& r) { return !r.model.tnl.positions; }, "", ""},
      {"model.tnl.value_silu", "true", [](const Recipe& r) { return r.model.tnl.value_silu; }, "", ""},
      {"model.tnl.gate", "false", [](const Recipe& r) { return !r.model.tnl.gate; }, "", ""},
      {"model.tnl.gate_rank", "7", [](const Recipe& r) { return r.model.tnl.gate_rank == 7; }, "", ""},
      {"model.tnl.norm_eps", "1e-3", [](const Recipe& r) { return r.model.tnl.norm_eps == 1e-3; }, "", ""},
      {"model.retnet.value_dim", "48", [](const Recipe& r) { return r.model.retnet.value_dim == 48; }, "", ""},
      {"model.retnet.rotary_base", "500.0", [](const Recipe& r) { return r.model.retnet.rotary_base == 500; }, "", ""},
      {"model.retnet.norm_weight", "true", [](const Recipe& r) { return r.model.retnet.norm_weight; }, "", ""},
      {"model.retnet.norm_eps", "1e-3", [](const Recipe& r) { return r.model.retnet.norm_eps == 1e-3; }, "", ""},
      {"model.gla.key_dim", "48", [](const Recipe& r) { return r.model.gla.key_dim == 48; }, "", ""},
      {"model.gla.forget_rank", "8", [](const Recipe& r) { return r.model.gla.forget_rank == 8; }, "", ""},
      {"model.gla.temperature", "4.0", [](const Recipe& r) { return r.model.gla.temperature == 4; }, "", ""},
      {"model.gla.norm_eps", "1e-3", [](const Recipe& r) { return r.model.gla.norm_eps == 1e-3; }, "", ""},
      {"model.cosformer.longest", "100", [](const Recipe& r) { return r.model.cosformer.longest == 100; }, "", ""},
      {"model.cosformer2.base", "500.0", [](const Recipe& r) { return r.model.cosformer2.base == 500; }, "", ""},
      {"model.cosformer2.gate_rank", "7", [](const Recipe& r) { return r.model.cosformer2.gate_rank == 7; }, "", ""},
      {"model.cosformer2.norm_eps", "1e-3", [](const Recipe& r) { return r.model.cosformer2.norm_eps == 1e-3; }, "", ""},
      {"model.lightnet.expand", "48", [](const Recipe& r) { return r.model.lightnet.expand == 48; }, "", ""},
      {"model.lightnet.positions", "true", [](const Recipe& r) { return r.model.lightnet.positions; }, "", ""},
      {"model.lightnet.grid", "[4, 6]", [](const Recipe& r) { return r.model.lightnet.grid == std::vector<int64_t>{4, 6}; }, "", ""},
      {"model.lightnet.gate_rank", "7", [](const Recipe& r) { return r.model.lightnet.gate_rank == 7; }, "", ""},
      {"model.lightnet.norm_weight", "false", [](const Recipe& r) { return !r.model.lightnet.norm_weight; }, "", ""},
      {"model.lightnet.norm_eps", "1e-3", [](const Recipe& r) { return r.model.lightnet.norm_eps == 1e-3; }, "", ""},
      {"model.metala.key_dim", "48", [](const Recipe& r) { return r.model.metala.key_dim == 48; }, "", ""},
      {"model.metala.convolution", "0", [](const Recipe& r) { return r.model.metala.convolution == 0; }, "", ""},
      {"model.metala.temperature", "4.0", [](const Recipe& r) { return r.model.metala.temperature == 4; }, "", ""},
      {"model.metala.gate_bias", "false", [](const Recipe& r) { return !r.model.metala.gate_bias; }, "", ""},
      {"model.lightning.state", "\"model\"", [](const Recipe& r) { return r.model.lightning.state == LightningState::kModel; }, "", ""},
      {"model.lightning.silu_wide", "true", [](const Recipe& r) { return r.model.lightning.silu_wide; }, "", ""},
      {"model.sequence_auxiliary_loss", "0.25", [](const Recipe& r) { return r.model.router.sequence_loss == 0.25; },
       "model.experts = 4\nmodel.auxiliary_loss_of = \"batch_so_far\"", "a second loss, beside model.auxiliary_loss"},
      {"model.metala.norm_eps", "1e-3", [](const Recipe& r) { return r.model.metala.norm_eps == 1e-3; }, "", ""},
      {"model.mamba2.state", "48", [](const Recipe& r) { return r.model.mamba2.state == 48; }, "", ""},
      {"model.mamba2.groups", "2", [](const Recipe& r) { return r.model.mamba2.groups == 2; }, "", ""},
      {"model.mamba2.norm_groups", "2", [](const Recipe& r) { return r.model.mamba2.norm_groups == 2; }, "", ""},
      {"model.mamba2.convolution", "3", [](const Recipe& r) { return r.model.mamba2.convolution == 3; }, "", ""},
      {"model.mamba2.norm_eps", "1e-3", [](const Recipe& r) { return r.model.mamba2.norm_eps == 1e-3; }, "", ""},
      {"model.hgrn.complex", "false", [](const Recipe& r) { return !r.model.hgrn.complex; }, "", ""},
      {"model.hgrn.norm_eps", "1e-3", [](const Recipe& r) { return r.model.hgrn.norm_eps == 1e-3; }, "", ""},
      {"model.gated_deltanet.key_heads", "4", [](const Recipe& r) { return r.model.gated_deltanet.key_heads == 4; }, "", ""},
      {"model.gated_deltanet.key_dim", "48", [](const Recipe& r) { return r.model.gated_deltanet.key_dim == 48; }, "", ""},
      {"model.gated_deltanet.convolution", "3", [](const Recipe& r) { return r.model.gated_deltanet.convolution == 3; }, "", ""},
      {"model.gated_deltanet.negative_eigenvalues", "true", [](const Recipe& r) { return r.model.gated_deltanet.negative_eigenvalues; }, "", ""},
      {"model.gated_deltanet.norm_eps", "1e-3", [](const Recipe& r) { return r.model.gated_deltanet.norm_eps == 1e-3; }, "", ""},
      {"model.deltanet.key_dim", "48", [](const Recipe& r) { return r.model.deltanet.key_dim == 48; }, "", ""},
      {"model.deltanet.convolution", "3", [](const Recipe& r) { return r.model.deltanet.convolution == 3; }, "", ""},
      {"model.deltanet.output_gate", "true", [](const Recipe& r) { return r.model.deltanet.output_gate; }, "", ""},
      {"model.deltanet.negative_eigenvalues", "true", [](const Recipe& r) { return r.model.deltanet.negative_eigenvalues; }, "", ""},
      {"model.deltanet.norm_eps", "1e-3", [](const Recipe& r) { return r.model.deltanet.norm_eps == 1e-3; }, "", ""},
      {"model.kda.key_dim", "48", [](const Recipe& r) { return r.model.kda.key_dim == 48; }, "", ""},
      {"model.kda.rank", "24", [](const Recipe& r) { return r.model.kda.rank == 24; }, "", ""},
      {"model.kda.convolution", "3", [](const Recipe& r) { return r.model.kda.convolution == 3; }, "", ""},
      {"model.kda.negative_eigenvalues", "true", [](const Recipe& r) { return r.model.kda.negative_eigenvalues; }, "", ""},
      {"model.kda.norm_eps", "1e-3", [](const Recipe& r) { return r.model.kda.norm_eps == 1e-3; }, "", ""},
      {"model.mla.kv_rank", "48", [](const Recipe& r) { return r.model.mla.kv_rank == 48; }, "", ""},
      {"model.mla.query_rank", "96", [](const Recipe& r) { return r.model.mla.query_rank == 96; }, "", ""},
      {"model.mla.key_dim", "48", [](const Recipe& r) { return r.model.mla.key_dim == 48; }, "", ""},
      {"model.mla.rotary_dim", "32", [](const Recipe& r) { return r.model.mla.rotary_dim == 32; }, "", ""},
      {"model.mla.value_dim", "48", [](const Recipe& r) { return r.model.mla.value_dim == 48; }, "", ""},
      {"model.mla.norm_eps", "1e-3", [](const Recipe& r) { return r.model.mla.norm_eps == 1e-3; }, "", ""},
      {"model.lcsm.state", "48", [](const Recipe& r) { return r.model.lcsm.state == 48; }, "", ""},
      {"model.lcsm.expand", "\"fixed\"", [](const Recipe& r) { return r.model.lcsm.expand == LcsmSource::kFixed; }, "", ""},
      {"model.lcsm.shrink", "\"fixed\"", [](const Recipe& r) { return r.model.lcsm.shrink == LcsmSource::kFixed; }, "", ""},
      {"model.lcsm.oscillation", "\"rotation\"",
       [](const Recipe& r) { return r.model.lcsm.oscillation == LcsmOscillation::kRotation; }, "", ""},
      {"model.lcsm.activation", "\"silu\"", [](const Recipe& r) { return r.model.lcsm.activation == LcsmActivation::kSilu; }, "", ""},
      {"model.lcsm.tau", "4.0", [](const Recipe& r) { return r.model.lcsm.tau == 4; }, "", ""},
      {"model.lcsm.rank", "8", [](const Recipe& r) { return r.model.lcsm.rank == 8; }, "", ""},
      {"model.lcsm.norm_eps", "1e-3", [](const Recipe& r) { return r.model.lcsm.norm_eps == 1e-3; }, "", ""},
      {"model.wiring", "\"post_norm\"", [](const Recipe& r) { return r.model.wiring == Wiring::kPostNorm; }, "", ""},
      {"model.alpha", "2.5", [](const Recipe& r) { return r.model.alpha == 2.5; }, "", ""},
      {"model.beta", "0.75", [](const Recipe& r) { return r.model.beta == 0.75; }, "", ""},
      {"model.position", "\"none\"", [](const Recipe& r) { return r.model.position == Position::kNone; }, "", ""},
      {"model.rotary_dim", "32", [](const Recipe& r) { return r.model.softmax.rotary_dim == 32; }, "", ""},
      {"model.rotary_base", "500000.0", [](const Recipe& r) { return r.model.softmax.rotary_base == 500000; }, "", ""},
      {"model.max_positions", "4096", [](const Recipe& r) { return r.model.max_positions == 4096; }, "", ""},
      {"model.toeplitz", "7", [](const Recipe& r) { return r.model.toeplitz == 7; }, "", ""},
      {"model.bias", "true", [](const Recipe& r) { return r.model.bias; }, "model.channel = \"gelu\"", "SwiGLU has no biases"},
      {"model.tie_embeddings", "true", [](const Recipe& r) { return r.model.tie_embeddings; }, "", ""},
      {"model.layer_factor", "\"hugging_face\"",
       [](const Recipe& r) { return r.model.lightning.layer_factor == LayerFactor::kHuggingFace; }, "", ""},
      {"model.initialisation", "\"normal\"", [](const Recipe& r) { return r.model.initialisation == Initialisation::kNormal; }, "", ""},
      {"model.initial_std", "0.5", [](const Recipe& r) { return r.model.initial_std == 0.5; }, "", ""},

      {"data.source", "[\"a\", \"b\"]",
       [](const Recipe& r) {
         return r.data.source == std::vector<std::string>{"a", "b"};
       },
       "", ""},
      {"data.validation", "[\"v\"]", [](const Recipe& r) { return r.data.validation == std::vector<std::string>{"v"}; }, "", ""},
      {"data.skip_bad_lines", "true", [](const Recipe& r) { return r.data.skip_bad_lines; }, "", ""},
      {"data.keep_binary", "true", [](const Recipe& r) { return r.data.keep_binary; }, "", ""},
      {"data.weights", "[0.5]", [](const Recipe& r) { return r.data.weights == std::vector{0.5}; }, "", ""},
      {"data.mix", "[{ at_tokens = 0, weights = [1.0] }, { at_tokens = 5, weights = [2.0] }]",
       [](const Recipe& r) {
         return r.data.mix == std::vector<DataMixPoint>{{0, {1}}, {5, {2}}};
       },
       "", ""},
      {"data.include", "[\".md\"]", [](const Recipe& r) { return r.data.include == std::vector<std::string>{".md"}; }, "", ""},
      {"data.jsonl_field", "\"content\"", [](const Recipe& r) { return r.data.jsonl_field == "content"; }, "", ""},
      {"data.loss_on", "\"parts\"", [](const Recipe& r) { return r.data.loss_on == LossOn::kParts; }, "", ""},
      {"data.tokenizer", "\"bytes\"", [](const Recipe& r) { return r.data.tokenizer == "bytes"; }, "", ""},
      {"data.vocabulary", "300", [](const Recipe& r) { return r.data.vocabulary == 300; }, "", ""},
      {"data.end_of_document", "\"<eos>\"", [](const Recipe& r) { return r.data.end_of_document == "<eos>"; }, "", ""},
      {"data.stop_tokens", "[\"<|im_end|>\"]", [](const Recipe& r) { return r.data.stop_tokens == std::vector<std::string>{"<|im_end|>"}; }, "", ""},
      {"data.held_out_percent", "7", [](const Recipe& r) { return r.data.held_out_percent == 7; }, "", ""},
      {"data.remove_copies", "false", [](const Recipe& r) { return !r.data.remove_copies; }, "", ""},
      {"data.document_boundaries", "false", [](const Recipe& r) { return !r.data.document_boundaries; }, "", ""},
      {"data.seed", "11", [](const Recipe& r) { return r.data.seed == 11; }, "", ""},
      {"data.prefetch", "9", [](const Recipe& r) { return r.data.prefetch == 9; }, "", ""},
      {"data.cache", "\"/c\"", [](const Recipe& r) { return r.data.cache == "/c"; }, "", ""},

      {"train.objective", "\"masked\"", [](const Recipe& r) { return r.train.objective == Objective::kMasked; }, "", ""},
      {"train.masked_share", "0.5", [](const Recipe& r) { return r.train.masked_share == 0.5; }, "", ""},
      {"train.steps", "77", [](const Recipe& r) { return r.train.steps == 77; }, "", ""},
      {"train.seed", "12", [](const Recipe& r) { return r.train.seed == 12; }, "", ""},
      {"train.dtype", "\"fp64\"", [](const Recipe& r) { return r.train.dtype == Dtype::kFp64; }, "", ""},
      {"train.device", "\"cpu\"", [](const Recipe& r) { return r.train.device == "cpu"; }, "", ""},
      {"train.freeze", "[\"layers.0.*\"]", [](const Recipe& r) { return r.model.frozen == std::vector<std::string>{"layers.0.*"}; }, "", ""},
      {"train.offload", "\"file\"", [](const Recipe& r) { return r.train.offload == Offload::kFile; }, "", ""},
      {"train.offload_folder", "\"/scratch\"", [](const Recipe& r) { return r.train.offload_folder == "/scratch"; }, "", ""},
      {"train.elastic", "true", [](const Recipe& r) { return r.train.elastic; }, "", ""},
      {"train.recompute", "\"full\"", [](const Recipe& r) { return r.train.recompute == Recompute::kFull; }, "", ""},
      {"train.threads", "5", [](const Recipe& r) { return r.train.threads == 5; }, "", ""},
      {"train.batch", "24", [](const Recipe& r) { return r.train.batch == 24; }, "", ""},
      {"train.micro_batch", "2", [](const Recipe& r) { return r.train.micro_batch == 2; }, "", ""},
      {"train.sequence", "1000", [](const Recipe& r) { return r.train.sequence == 1000; }, "", ""},
      {"train.checkpoint_every", "41", [](const Recipe& r) { return r.train.checkpoint_every == 41; }, "", ""},
      {"train.checkpoint_keep", "42", [](const Recipe& r) { return r.train.checkpoint_keep == 42; }, "", ""},
      {"train.checkpoint_keep_every", "43", [](const Recipe& r) { return r.train.checkpoint_keep_every == 43; }, "", ""},
      {"train.mean_hours_to_failure", "7.5", [](const Recipe& r) { return r.train.mean_hours_to_failure == 7.5; }, "", ""},
      {"train.checkpoint_memory_every", "3", [](const Recipe& r) { return r.train.checkpoint_memory_every == 3; }, "", ""},
      {"train.checkpoint_replica_rate", "25.5", [](const Recipe& r) { return r.train.checkpoint_replica_rate == 25.5; }, "", ""},
      {"train.checkpoint_replicas", "2", [](const Recipe& r) { return r.train.checkpoint_replicas == 2; }, "", ""},
      {"train.checkpoint_self_test", "true", [](const Recipe& r) { return r.train.checkpoint_self_test; }, "", ""},
      {"train.evaluate_every", "44", [](const Recipe& r) { return r.train.evaluate_every == 44; }, "", ""},
      {"train.evaluate_tokens", "45", [](const Recipe& r) { return r.train.evaluate_tokens == 45; }, "", ""},
      {"train.until_time", "\"+90m\"", [](const Recipe& r) { return r.train.until_time == "+90m"; }, "", ""},
      {"train.log_every", "46", [](const Recipe& r) { return r.train.log_every == 46; }, "", ""},
      {"train.skip_nonfinite", "false", [](const Recipe& r) { return !r.train.skip_nonfinite; }, "", ""},
      {"train.nonfinite_limit", "47", [](const Recipe& r) { return r.train.nonfinite_limit == 47; }, "", ""},

      {"optim.name", "\"came\"", [](const Recipe& r) { return r.optim.name == "came"; }, "", ""},
      {"optim.beta3", "0.5", [](const Recipe& r) { return r.optim.beta3 == 0.5; }, "", ""},
      {"optim.update_clip", "2.5", [](const Recipe& r) { return r.optim.update_clip == 2.5; }, "", ""},
      {"optim.square_eps", "1e-9", [](const Recipe& r) { return r.optim.square_eps == 1e-9; }, "", ""},
      {"optim.residual_eps", "1e-6", [](const Recipe& r) { return r.optim.residual_eps == 1e-6; }, "", ""},
      {"optim.fresh_states", "true", [](const Recipe& r) { return r.optim.fresh_states; }, "", ""},
      {"optim.momentum", "0.75", [](const Recipe& r) { return r.optim.momentum == 0.75; }, "", ""},
      {"optim.nesterov", "false", [](const Recipe& r) { return !r.optim.nesterov; }, "", ""},
      {"optim.sign_fade", "1e-4", [](const Recipe& r) { return r.optim.sign_fade == 1e-4; }, "", ""},
      {"optim.nvlamb", "true", [](const Recipe& r) { return r.optim.nvlamb; }, "", ""},
      {"optim.lamb_decay", "\"l2\"", [](const Recipe& r) { return r.optim.lamb_decay == LambDecay::kL2; }, "", ""},
      {"optim.adafactor_form", "\"torch\"", [](const Recipe& r) { return r.optim.adafactor_form == AdafactorForm::kTorch; }, "", ""},
      {"optim.scale_by_weights", "false", [](const Recipe& r) { return !r.optim.scale_by_weights; }, "", ""},
      {"optim.relative_step", "false", [](const Recipe& r) { return !r.optim.relative_step; }, "", ""},
      {"optim.muon_scale", "\"original\"", [](const Recipe& r) { return r.optim.muon_scale == MuonScale::kOriginal; }, "", ""},
      {"optim.state_dtype", "\"int8\"", [](const Recipe& r) { return r.optim.state_dtype == StateDtype::kInt8; }, "", ""},
      {"optim.state_block", "64", [](const Recipe& r) { return r.optim.state_block == 64; }, "", ""},
      {"optim.state_least", "100", [](const Recipe& r) { return r.optim.state_least == 100; }, "", ""},
      {"optim.muon_iterations", "6", [](const Recipe& r) { return r.optim.muon_iterations == 6; }, "", ""},
      {"optim.group", "[{ tensors = [\"embedding\", \"head\"], name = \"adamw\", lr_factor = 0.5 }, { tensors = \"norm\", beta1 = 0.5 }]",
       [](const Recipe& r) {
         const OptimGroup first{.tensors = {Role::kEmbedding, Role::kHead}, .name = "adamw", .lr_factor = 0.5},
             second{.tensors = {Role::kNorm}, .beta1 = 0.5};
         return r.optim.groups == std::vector{first, second};
       },
       "", ""},
      {"optim.outer", "\"co2\"", [](const Recipe& r) { return r.optim.outer.method == Outer::kCo2; }, "", ""},
      {"optim.outer_every", "6", [](const Recipe& r) { return r.optim.outer.every == 6; }, "optim.outer = \"co2\"", "belongs to outer loops"},
      {"optim.outer_momentum", "0.375", [](const Recipe& r) { return r.optim.outer.momentum == 0.375; }, "", ""},
      {"optim.outer_lr", "0.75", [](const Recipe& r) { return r.optim.outer.lr == 0.75; }, "", ""},
      {"optim.outer_by_lr", "true", [](const Recipe& r) { return r.optim.outer.by_lr; }, "", ""},
      {"optim.outer_clip", "0.5", [](const Recipe& r) { return r.optim.outer.clip == 0.5; }, "", ""},
      {"optim.outer_gap", "\"per_tensor\"", [](const Recipe& r) { return r.optim.outer.gap == OuterGap::kPerTensor; }, "", ""},
      {"optim.outer_gap_value", "1.5", [](const Recipe& r) { return r.optim.outer.gap_value == 1.5; }, "", ""},
      {"optim.outer_overlap", "false", [](const Recipe& r) { return !r.optim.outer.overlap; }, "", ""},
      {"optim.outer_guard", "false", [](const Recipe& r) { return !r.optim.outer.guard; }, "", ""},
      {"optim.outer_synchronous_start", "false", [](const Recipe& r) { return !r.optim.outer.synchronous_start; }, "", ""},
      {"optim.outer_delay", "2", [](const Recipe& r) { return r.optim.outer.delay == 2; }, "", ""},
      {"optim.outer_fragments", "3", [](const Recipe& r) { return r.optim.outer.fragments == 3; }, "", ""},
      {"optim.outer_wire", "\"bfloat16\"", [](const Recipe& r) { return r.optim.outer.wire == OuterWire::kBfloat16; }, "", ""},
      {"optim.outer_mix", "0.25", [](const Recipe& r) { return r.optim.outer.mix == 0.25; }, "", ""},
      {"optim.average", "0.5", [](const Recipe& r) { return r.optim.average == 0.5; }, "", ""},
      {"optim.lr", "0.125", [](const Recipe& r) { return r.optim.lr == 0.125; }, "", ""},
      {"optim.beta1", "0.25", [](const Recipe& r) { return r.optim.beta1 == 0.25; }, "", ""},
      {"optim.beta2", "0.375", [](const Recipe& r) { return r.optim.beta2 == 0.375; }, "", ""},
      {"optim.eps", "1e-3", [](const Recipe& r) { return r.optim.eps == 1e-3; }, "", ""},
      {"optim.weight_decay", "0.625", [](const Recipe& r) { return r.optim.weight_decay == 0.625; }, "", ""},
      {"optim.clip_norm", "3.5", [](const Recipe& r) { return r.optim.clip_norm == 3.5; }, "", ""},
      {"optim.weight_decay_from", "0.25", [](const Recipe& r) { return r.optim.weight_decay_from == 0.25; }, "", ""},
      {"optim.weight_decay_rise", "\"cosine\"", [](const Recipe& r) { return r.optim.weight_decay_rise == Rise::kCosine; }, "", ""},
      {"optim.warmup_from", "0.125", [](const Recipe& r) { return r.optim.warmup_from == 0.125; }, "", ""},
      {"optim.warmup_rise", "\"one_minus_sqrt\"", [](const Recipe& r) { return r.optim.warmup_rise == Rise::kOneMinusSqrt; }, "", ""},
      {"optim.decay_power", "2.5", [](const Recipe& r) { return r.optim.decay_power == 2.5; }, "", ""},
      {"optim.warmup_steps", "51", [](const Recipe& r) { return r.optim.warmup_steps == 51; }, "", ""},
      {"optim.correct_residuals", "true", [](const Recipe& r) { return r.optim.correct_residuals; }, "", ""},
      {"optim.wsd_fall", "\"one_minus_sqrt\"", [](const Recipe& r) { return r.optim.wsd_fall == WsdFall::kOneMinusSqrt; }, "", ""},
      {"optim.schedule", "\"wsd\"", [](const Recipe& r) { return r.optim.schedule == Schedule::kWsd; }, "", ""},
      {"optim.decay_steps", "52", [](const Recipe& r) { return r.optim.decay_steps == 52; }, "", ""},
      {"optim.final_lr_fraction", "0.5", [](const Recipe& r) { return r.optim.final_lr_fraction == 0.5; }, "", ""},
      {"optim.stages", "[{ from_step = 5, lr = 0.5, batch = 16 }, { from_step = 9, batch = 24 }]",
       [](const Recipe& r) {
         const OptimStage first{.from_step = 5, .lr = 0.5, .batch = 16}, second{.from_step = 9, .batch = 24};
         return r.optim.stages == std::vector{first, second};
       },
       "", ""},

      {"sample.prompt", "\"Once\"", [](const Recipe& r) { return r.sample.prompt == "Once"; }, "", ""},
      {"sample.tokens", "61", [](const Recipe& r) { return r.sample.tokens == 61; }, "", ""},
      {"sample.temperature", "1.5", [](const Recipe& r) { return r.sample.temperature == 1.5; }, "", ""},
      {"sample.top_k", "62", [](const Recipe& r) { return r.sample.top_k == 62; }, "", ""},
      {"sample.top_p", "0.5", [](const Recipe& r) { return r.sample.top_p == 0.5; }, "", ""},
      {"sample.seed", "63", [](const Recipe& r) { return r.sample.seed == 63; }, "", ""},

      {"parallel.backend", "\"gloo\"", [](const Recipe& r) { return r.parallel.backend == Backend::kGloo; }, "", ""},
      {"parallel.timeout", "45.5", [](const Recipe& r) { return r.parallel.timeout == 45.5; }, "", ""},
      {"parallel.join_timeout", "20", [](const Recipe& r) { return r.parallel.join_timeout == 20; }, "", ""},
      {"parallel.workers", "4", [](const Recipe& r) { return r.parallel.workers == 4; }, "optim.outer = \"co2\"", "belongs to outer loops"},
      {"parallel.ranks", "2", [](const Recipe& r) { return r.parallel.ranks == 2; }, "", ""},
      {"parallel.tp", "2", [](const Recipe& r) { return r.parallel.tp == 2; }, "", ""},
      {"parallel.pp", "2", [](const Recipe& r) { return r.parallel.pp == 2; }, "", ""},
      {"parallel.cp", "2", [](const Recipe& r) { return r.parallel.cp == 2; }, "", ""},
      {"parallel.ep", "2", [](const Recipe& r) { return r.parallel.ep == 2; }, "", ""},
      {"parallel.etp", "2", [](const Recipe& r) { return r.parallel.etp == 2; }, "", ""},
      {"parallel.zero", "2", [](const Recipe& r) { return r.parallel.zero == 2; }, "", ""},
      {"parallel.zero_copies", "2", [](const Recipe& r) { return r.parallel.zero_copies == 2; }, "parallel.zero = 1", "share nothing"},
      {"parallel.context", "\"ring\"", [](const Recipe& r) { return r.parallel.context.softmax == ContextMethod::kRing; }, "", ""},
      {"parallel.linear_context", "\"all-scan\"",
       [](const Recipe& r) { return r.parallel.context.linear == LinearContextMethod::kAllScan; }, "", ""},
      {"parallel.context_split", "\"contiguous\"",
       [](const Recipe& r) { return r.parallel.context.split == ContextSplit::kContiguous; }, "", ""},
      {"parallel.schedule", "\"zb-h1\"", [](const Recipe& r) { return r.parallel.pipeline.schedule == PipelineSchedule::kZbH1; }, "", ""},
      {"parallel.chunks", "2", [](const Recipe& r) { return r.parallel.pipeline.chunks == 2; }, "", ""},
      {"parallel.pairs_in_turns", "false", [](const Recipe& r) { return !r.parallel.pairs_in_turns; }, "", ""},
      {"parallel.stage_layers", "[1, 3]", [](const Recipe& r) { return r.parallel.pipeline.stage_layers == std::vector<int64_t>{1, 3}; }, "", ""},

      {"train.task", "\"recall\"", [](const Recipe& r) { return r.train.task == "recall"; }, "", ""},
      {"lora.rank", "4", [](const Recipe& r) { return r.model.lora.rank == 4; }, "", ""},
      {"lora.alpha", "32", [](const Recipe& r) { return r.model.lora.alpha == 32; }, "", ""},
      {"lora.targets", "[\"query\", \"value\"]",
       [](const Recipe& r) {
         return r.model.lora.targets == std::vector<std::string>{"query", "value"};
       },
       "", ""},
      {"lora.kind", "\"dora\"", [](const Recipe& r) { return r.model.lora.kind == AdapterKind::kDora; }, "", ""},

      {"recall.kind", "\"copy\"", [](const Recipe& r) { return r.recall.kind == RecallKind::kCopy; }, "", ""},
      {"recall.pairs", "5", [](const Recipe& r) { return r.recall.pairs == 5; }, "", ""},
      {"recall.vocabulary", "100", [](const Recipe& r) { return r.recall.vocabulary == 100; }, "", ""},
      {"recall.nearness", "0.5", [](const Recipe& r) { return r.recall.nearness == 0.5; }, "", ""},
      {"recall.examples", "1000", [](const Recipe& r) { return r.recall.examples == 1000; }, "", ""},
      {"recall.seed", "7", [](const Recipe& r) { return r.recall.seed == 7; }, "", ""},
      {"recall.held_out", "64", [](const Recipe& r) { return r.recall.held_out == 64; }, "", ""},
      {"model.mixture.linear", "\"kda\"", [](const Recipe& r) { return r.model.mixture.linear == Mixer::kKda; }, "", ""},
      {"model.mixture.norm", "false", [](const Recipe& r) { return !r.model.mixture.norm; }, "", ""},
      {"model.mixture.learned_weights", "true", [](const Recipe& r) { return r.model.mixture.learned_weights; }, "", ""},
      {"model.softmax.output_gate", "true", [](const Recipe& r) { return r.model.softmax.output_gate; }, "", ""},
      {"model.gla.key_heads", "2", [](const Recipe& r) { return r.model.gla.key_heads == 2; }, "", ""},
      {"model.gla.feature_map", "\"relu\"", [](const Recipe& r) { return r.model.gla.feature_map == FeatureMap::kRelu; }, "", ""},
      {"model.gla.tied_keys", "true", [](const Recipe& r) { return r.model.gla.tied_keys; }, "", ""},
      {"model.gla.output_gate", "false", [](const Recipe& r) { return !r.model.gla.output_gate; }, "", ""},
      {"model.gla.bias", "true", [](const Recipe& r) { return r.model.gla.bias; }, "", ""},
      {"model.gated_deltanet.heads", "6", [](const Recipe& r) { return r.model.gated_deltanet.heads == 6; }, "", ""},
      {"model.gated_deltanet.head_dim", "48", [](const Recipe& r) { return r.model.gated_deltanet.head_dim == 48; }, "", ""},
      {"model.dense_layers", "[0, 2]", [](const Recipe& r) { return r.model.dense_layers == std::vector<int64_t>{0, 2}; }, "", ""},
      {"model.dense_intermediate", "300", [](const Recipe& r) { return r.model.dense_intermediate == 300; }, "", ""},
      {"model.shared_experts", "2", [](const Recipe& r) { return r.model.shared_experts == 2; }, "", ""},
      {"model.shared_intermediate", "70", [](const Recipe& r) { return r.model.shared_intermediate == 70; }, "", ""},
      {"model.shared_gate", "true", [](const Recipe& r) { return r.model.shared_gate; }, "", ""},
      {"model.router_scale", "2.5", [](const Recipe& r) { return r.model.router.scale == 2.5; }, "", ""},
      {"model.router_groups", "4", [](const Recipe& r) { return r.model.router.groups == 4; }, "", ""},
      {"model.router_groups_per_token", "2", [](const Recipe& r) { return r.model.router.groups_per_token == 2; }, "", ""},
      {"model.predict_ahead", "2", [](const Recipe& r) { return r.model.predict_ahead == 2; }, "", ""},
      {"model.predict_ahead_weight", "0.1", [](const Recipe& r) { return r.model.predict_ahead_weight == 0.1; }, "", ""},
      {"model.mup_base_hidden", "128", [](const Recipe& r) { return r.model.mup_base_hidden == 128; }, "", ""},
      {"model.router_score", "\"sigmoid\"", [](const Recipe& r) { return r.model.router.score == RouterScore::kSigmoid; }, "", ""},
      {"model.router_normalised", "false", [](const Recipe& r) { return !r.model.router.normalised; }, "", ""},
      {"model.router_bias_rate", "0.5", [](const Recipe& r) { return r.model.router.bias_rate == 0.5; }, "", ""},
      {"model.router_jitter", "0.01", [](const Recipe& r) { return r.model.router.jitter == 0.01; }, "", ""},
      {"model.router_choice", "\"sinkhorn\"", [](const Recipe& r) { return r.model.router.choice == RouterChoice::kSinkhorn; }, "", ""},
      {"model.router_choice_std", "2.5", [](const Recipe& r) { return r.model.router.choice_std == 2.5; }, "", ""},
      {"model.router_quantile_memory", "0.5", [](const Recipe& r) { return r.model.router.quantile_memory == 0.5; }, "", ""},
      {"model.auxiliary_loss_of", "\"batch\"", [](const Recipe& r) { return r.model.router.balance_of == BalanceOf::kBatch; }, "", ""},
      {"model.auxiliary_loss_form", "\"gshard\"", [](const Recipe& r) { return r.model.router.balance_form == BalanceForm::kGshard; }, "", ""},
      {"model.capacity_factor", "1.25", [](const Recipe& r) { return r.model.router.capacity_factor == 1.25; }, "", ""},
      {"model.capacity_of", "\"batch\"", [](const Recipe& r) { return r.model.router.capacity_of == CapacityOf::kBatch; }, "", ""},
      {"model.capacity_parts", "8", [](const Recipe& r) { return r.model.router.capacity_parts == 8; }, "", ""},
      {"model.dropped", "\"last\"", [](const Recipe& r) { return r.model.router.dropped == Dropped::kLast; }, "", ""},
      {"parallel.dispatcher", "\"all-gather\"", [](const Recipe& r) { return r.parallel.experts.dispatcher == Dispatcher::kAllGather; }, "", ""},
      {"parallel.tp_chunks", "4", [](const Recipe& r) { return r.parallel.tp_chunks == 4; }, "", ""},
      {"parallel.pad_to_capacity", "true", [](const Recipe& r) { return r.parallel.experts.padded; },
       "model.experts = 4\nmodel.capacity_factor = 1", "without a capacity there is nothing to pad to"},
      {"parallel.token_groups", "2", [](const Recipe& r) { return r.parallel.experts.token_groups == 2; }, "", ""},
      {"parallel.delay_expert_gradients", "true", [](const Recipe& r) { return r.parallel.experts.delay_gradients; }, "", ""},

      {"observe.tensorboard", "false", [](const Recipe& r) { return !r.observe.tensorboard; }, "", ""},
      {"observe.report", "false", [](const Recipe& r) { return !r.observe.report; }, "", ""},
      {"observe.compression_baseline", "false", [](const Recipe& r) { return !r.observe.compression_baseline; }, "", ""},
      {"observe.trace_every", "10", [](const Recipe& r) { return r.observe.trace_every == 10; }, "", ""},
      {"observe.entry_skew_every", "7", [](const Recipe& r) { return r.observe.entry_skew_every == 7; }, "", ""},
      {"observe.updates_every", "20", [](const Recipe& r) { return r.observe.updates_every == 20; }, "", ""},
      {"observe.batch_noise_every", "50", [](const Recipe& r) { return r.observe.batch_noise_every == 50; }, "", ""},
      {"optim.batch_growth", "1.5", [](const Recipe& r) { return r.optim.batch_growth == 1.5; },
       "observe.batch_noise_every = 10\noptim.batch_most = 64", "it needs measurements, and room to grow"},
      {"optim.batch_most", "64", [](const Recipe& r) { return r.optim.batch_most == 64; }, "", ""},
      {"optim.batch_lr_power", "0.5", [](const Recipe& r) { return r.optim.batch_lr_power == 0.5; }, "", ""},
      {"guard.on_spike", "\"roll_back\"", [](const Recipe& r) { return r.guard.on_spike == OnSpike::kRollBack; }, "", ""},
      {"guard.spike_back", "50", [](const Recipe& r) { return r.guard.spike_back == 50; }, "", ""},
      {"guard.rollbacks", "1", [](const Recipe& r) { return r.guard.rollbacks == 1; }, "", ""},
      {"guard.rate_factor", "0.5", [](const Recipe& r) { return r.guard.rate_factor == 0.5; }, "", ""},
      {"guard.replicas_every", "7", [](const Recipe& r) { return r.guard.replicas_every == 7; }, "", ""},
      {"guard.states_every", "8", [](const Recipe& r) { return r.guard.states_every == 8; }, "", ""},
      {"guard.products_every", "9", [](const Recipe& r) { return r.guard.products_every == 9; }, "", ""},
      {"guard.replay_every", "10", [](const Recipe& r) { return r.guard.replay_every == 10; }, "", ""},
  };
  return all;
}

std::map<std::string, Value> values_of(Recipe recipe) {
  std::map<std::string, Value> values;
  const OptionSet options = options_of(recipe);
  for (const Option& option : options.all()) values.emplace(option.name, option.get());
  return values;
}

TEST(RecipeEveryOption, HasARow) {
  Recipe recipe;
  const OptionSet options = options_of(recipe);
  std::set<std::string> known;
  for (const Row& row : rows()) {
    EXPECT_TRUE(known.insert(row.key).second) << row.key << " twice";
    EXPECT_EQ(row.partner.empty(), row.why.empty()) << row.key;
  }
  std::set<std::string> declared;
  for (const Option& option : options.all()) declared.insert(option.name);
  EXPECT_EQ(known, declared);
}

TEST(RecipeEveryOption, ChangesTheFieldItNamesAndNoOtherOption) {
  for (const Row& row : rows()) {
    const std::string partner = row.partner.empty() ? "" : row.partner + "\n";
    const LoadedRecipe before = load_text(partner, "r.toml");
    const LoadedRecipe after = load_text(partner + row.key + " = " + row.value + "\n", "r.toml");
    EXPECT_FALSE(row.arrived(before.recipe)) << row.key << ": the value is the default";
    EXPECT_TRUE(row.arrived(after.recipe)) << row.key << " does not arrive";
    const auto old_values = values_of(before.recipe), new_values = values_of(after.recipe);
    for (const auto& [key, value] : new_values) {
      const bool by_preset = row.key == "model.preset" && key.starts_with("model.");
      if (key == row.key || by_preset) continue;
      EXPECT_EQ(value, old_values.at(key)) << row.key << " changes " << key;
    }
    EXPECT_NE(new_values.at(row.key), old_values.at(row.key)) << row.key;
    // From the command line as well.
    std::vector<std::string> words = {row.key + "=" + row.value};
    EXPECT_TRUE(row.arrived(load_text(partner, "r.toml", words).recipe)) << row.key << " as an argument";
  }
}

// `--steps 5` is answered with what it means: for the last part of every name.
TEST(RecipeEveryOption, IsMeantByItsLastPart) {
  Recipe recipe;
  const OptionSet options = options_of(recipe);
  for (const Option& option : options.all()) {
    std::string part = option.name.substr(option.name.find('.') == std::string::npos ? 0 : option.name.find('.') + 1);
    EXPECT_THAT(options.meant_by("--" + part), ::testing::Contains(option.name));
    std::replace(part.begin(), part.end(), '_', '-');
    EXPECT_THAT(options.meant_by("--" + part), ::testing::Contains(option.name));
  }
  EXPECT_THAT(options.meant_by("--seed"), ::testing::UnorderedElementsAre("train.seed", "data.seed", "sample.seed", "recall.seed"));
  EXPECT_THAT(options.meant_by("--train.steps"), ::testing::ElementsAre("train.steps"));
  EXPECT_THAT(options.meant_by("--learning-rate"), ::testing::ElementsAre("optim.lr"));
  EXPECT_THAT(options.meant_by("--zzzzqqqq"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace longhaul::recipe
