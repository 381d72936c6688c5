#include "layout/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "layout/adapters.h"
#include "layout/freezing.h"
#include "layout/split.h"
#include "layout/width.h"
#include "recipe/architecture/toeplitz.h"

namespace longhaul::layout {

namespace {

using recipe::ModelConfig;

// Weights through which a layer adds to the residual stream.
bool writes_residual(Role role) {
  return role == Role::kOutput || role == Role::kChannelDown || role == Role::kExpertDown;
}

// The matrices whose Xavier gain DeepNorm scales by beta: those that determine the size of a branch's output.
// Queries, keys and gates only steer it.
bool scaled_by_deepnorm(Role role) {
  switch (role) {
    case Role::kValue:
    case Role::kOutput:
    case Role::kExpertGate:
    case Role::kExpertUp:
    case Role::kExpertDown:
    case Role::kChannelGate:
    case Role::kChannelUp:
    case Role::kChannelDown:
      return true;
    default:
      return false;
  }
}

class Builder {
 public:
  explicit Builder(const ModelConfig& config) : config_(config) {}
  std::vector<ParameterSpec> build();
  std::vector<ParameterSpec> alone(const std::string& prefix, std::span<const recipe::MixerTensor> tensors,
                                   int64_t layer) {
    layer_ = layer;
    mixer(prefix, tensors);
    return std::move(list_);
  }

 private:
  void norm(const std::string& name, int64_t channels, SplitRule split = {});
  void coefficients(const std::string& name, const recipe::MixerTensor& tensor, SplitRule split);
  void norm_of_hidden(const std::string& name);  // with its bias, if any; simple norms have no tensors
  void bias(const std::string& name, int64_t channels, SplitRule split);
  // A matrix and, where the model has them, its bias. The bias follows a cut of the rows; with a cut of the
  // columns it is added once, after the sum.
  void linear(const std::string& name, Role role, int64_t out, int64_t in, SplitRule split, bool with_bias,
              double xavier_gain = 0);
  void add(const std::string& prefix, const recipe::MixerTensor& tensor);
  void mixer(const std::string& layer, std::span<const recipe::MixerTensor> tensors);
  void layer(const std::string& prefix, int64_t like);  // the tensors of the model's layer `like`
  void shared();
  void prediction(const std::string& prefix);
  void append(ParameterSpec spec);
  Init matrix_init(Role role, int64_t out, int64_t in, double xavier_gain) const;

  const ModelConfig& config_;
  int64_t layer_ = -1;
  int64_t expert_ = -1;
  int64_t ahead_ = -1;
  std::vector<ParameterSpec> list_;
};

void Builder::append(ParameterSpec spec) {
  spec.layer = layer_;
  spec.expert = expert_;
  spec.ahead = ahead_;
  list_.push_back(std::move(spec));
}

Init Builder::matrix_init(Role role, int64_t out, int64_t in, double xavier_gain) const {
  Init init{.kind = Init::Kind::kNormal};
  if (role == Role::kConvolution) {  // as PyTorch's convolutions: the variance of ±1/√taps, drawn evenly
    init.std = 1 / std::sqrt(3 * static_cast<double>(in));
    return init;
  }
  const auto layers = static_cast<double>(config_.layers);
  const bool own_gain = xavier_gain > 0,
             xavier = own_gain || config_.initialisation == recipe::Initialisation::kXavierDeepnorm;
  if (own_gain) {
    init.gain = xavier_gain;
  } else if (xavier && config_.wiring == recipe::Wiring::kPostNorm) {
    if (scaled_by_deepnorm(role)) init.gain = std::pow(8 * layers, -0.25);
  } else if (writes_residual(role)) {
    init.gain = 1 / std::sqrt(2 * layers);
  }
  if (xavier) {
    init.fan_in = in;
    init.fan_out = out;
    init.std = init.gain * std::sqrt(2.0 / static_cast<double>(in + out));
  } else {
    init.std = init.gain * config_.initial_std;
  }
  return init;
}

void Builder::norm(const std::string& name, int64_t channels, SplitRule split) {
  append({.tensor = {name + ".weight", {channels}, Role::kNorm},
          .init = {.kind = Init::Kind::kOnes},
          .split = split});
}

Init::Kind kind_of(recipe::Fill fill) {
  switch (fill) {
    case recipe::Fill::kTenths:
      return Init::Kind::kNormal;
    case recipe::Fill::kLogRows:
      return Init::Kind::kLogRows;
    case recipe::Fill::kMean:
      return Init::Kind::kMean;
    case recipe::Fill::kTimescales:
      return Init::Kind::kTimescales;
    case recipe::Fill::kZeros:
      return Init::Kind::kZeros;
    case recipe::Fill::kFrequencies:
      return Init::Kind::kFrequencies;
    case recipe::Fill::kLogRates:
      return Init::Kind::kLogRates;
    case recipe::Fill::kSteps:
      return Init::Kind::kSteps;
    case recipe::Fill::kByRole:
      break;
  }
  return Init::Kind::kOnes;
}

void Builder::coefficients(const std::string& name, const recipe::MixerTensor& tensor, SplitRule split) {
  Init init{.kind = kind_of(tensor.fill)};
  if (tensor.fill == recipe::Fill::kTenths) init.std = 0.1;
  append({.tensor = {name + ".weight", tensor.matrix() ? Shape{tensor.out, tensor.in} : Shape{tensor.out},
                     tensor.role},
          .init = init,
          .split = split});
}

void Builder::norm_of_hidden(const std::string& name) {
  if (config_.norm == recipe::Norm::kSimpleRms) return;
  norm(name, config_.hidden);
  if (config_.norm == recipe::Norm::kLayer && config_.bias) bias(name, config_.hidden, {});
}

void Builder::bias(const std::string& name, int64_t channels, SplitRule split) {
  append({.tensor = {name + ".bias", {channels}, Role::kBias},
          .init = {.kind = Init::Kind::kZeros},
          .split = split});
}

void Builder::linear(const std::string& name, Role role, int64_t out, int64_t in, SplitRule split,
                     bool with_bias, double xavier_gain) {
  if (role == Role::kLowerBound) {  // equal: bounds rise evenly with depth
    return append({.tensor = {name + ".weight", {out, in}, role},
                   .init = {.kind = Init::Kind::kZeros},
                   .split = split});
  }
  append({.tensor = {name + ".weight", {out, in}, role},
          .init = matrix_init(role, out, in, xavier_gain),
          .split = split,
          .decay = true});
  if (with_bias) bias(name, out, split.dimension == 0 ? split : SplitRule{});
}

void Builder::add(const std::string& prefix, const recipe::MixerTensor& tensor) {
  using Cut = recipe::MixerTensor::Cut;
  SplitRule split;
  if (tensor.cut != Cut::kNone) {
    split.over = tensor.of_expert ? SplitOver::kExpertTensor : SplitOver::kTensor;
    split.dimension = tensor.cut == Cut::kRows ? 0 : 1;
    split.even = tensor.heads > 0;
    split.grouped = tensor.grouped;
    if (split.even) split.unit = (tensor.cut == Cut::kRows ? tensor.out : tensor.in) / tensor.heads;
  }
  if (tensor.of_expert) split.experts = config_.experts;
  if (tensor.without_gradient) {
    return append({.tensor = {prefix + tensor.name + ".bias", {tensor.out}, tensor.role},
                   .init = {.kind = Init::Kind::kZeros},
                   .trainable = false});
  }
  if (!tensor.matrix() || tensor.role == Role::kCoefficient)
    return coefficients(prefix + tensor.name, tensor, split);
  const bool with_bias =
      tensor.own_bias || (config_.bias && !tensor.of_expert && tensor.role != Role::kRouter);
  linear(prefix + tensor.name, tensor.role, tensor.out, tensor.in, split, with_bias, tensor.xavier_gain);
}

// All tensors of one expert come together, then those of the next one.
void Builder::mixer(const std::string& layer, std::span<const recipe::MixerTensor> tensors) {
  const auto of_expert = [](const recipe::MixerTensor& each) { return each.of_expert; };
  const auto begin = std::ranges::find_if(tensors, of_expert),
             end = std::find_if_not(begin, tensors.end(), of_expert);
  for (auto each = tensors.begin(); each != begin; ++each) add(layer, *each);
  if (begin != end) {
    for (expert_ = 0; expert_ < config_.experts; ++expert_) {
      for (auto each = begin; each != end; ++each) add(fmt::format("{}experts.{}.", layer, expert_), *each);
    }
    expert_ = -1;
  }
  for (auto each = end; each != tensors.end(); ++each) add(layer, *each);
}

void Builder::layer(const std::string& prefix, int64_t like) {
  norm_of_hidden(prefix + "mixer_norm");
  mixer(prefix, recipe::entry_of(config_.mixer(like)).tensors(config_));
  const recipe::ChannelMixer channel = config_.channel_mixer(like);
  if (channel == recipe::ChannelMixer::kNone) return;
  if (config_.wiring != recipe::Wiring::kParallel) norm_of_hidden(prefix + "channel_norm");
  mixer(prefix, recipe::entry_of(channel).tensors(config_));
}

// Mixers may share a tensor: one in a branch, the other by itself.
void Builder::shared() {
  std::set<std::string> there;
  for (const recipe::Mixer used : recipe::mixers_used(config_)) {
    const auto own = recipe::entry_of(used).shared;
    if (own == nullptr) continue;
    for (const recipe::MixerTensor& tensor : own(config_)) {
      if (there.insert(tensor.name).second) add("", tensor);
    }
  }
}

void Builder::prediction(const std::string& prefix) {
  norm_of_hidden(prefix + "hidden_norm");
  norm_of_hidden(prefix + "token_norm");
  linear(prefix + "join", Role::kPrediction, config_.hidden, 2 * config_.hidden, {}, config_.bias);
  layer(prefix, std::max<int64_t>(0, config_.layers - 1));
  norm_of_hidden(prefix + "norm");
}

std::vector<ParameterSpec> Builder::build() {
  const SplitRule vocabulary{.over = SplitOver::kVocabulary, .dimension = 0};
  linear("embedding", Role::kEmbedding, config_.vocabulary, config_.hidden, vocabulary, false);
  if (config_.position == recipe::Position::kLearned) {
    linear("position", Role::kPosition, config_.max_positions, config_.hidden, {}, false);
  }
  for (const recipe::MixerTensor& tensor : recipe::toeplitz_tensors(config_)) add("", tensor);
  shared();
  for (layer_ = 0; layer_ < config_.layers; ++layer_) layer(fmt::format("layers.{}.", layer_), layer_);
  layer_ = -1;
  norm_of_hidden("norm");
  if (!config_.tie_embeddings)
    linear("head", Role::kHead, config_.vocabulary, config_.hidden, vocabulary, false);
  for (ahead_ = 0; ahead_ < config_.predict_ahead; ++ahead_) prediction(fmt::format("ahead.{}.", ahead_));
  return std::move(list_);
}

// For a tensor that layers share: the stages that have a layer with its mixer.
std::vector<int64_t> stages_that_share(const ParameterSpec& spec, const ModelConfig& config,
                                       const Pipeline& pipeline) {
  std::vector<int64_t> found;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto shared = recipe::entry_of(config.mixer(layer)).shared;
    if (shared == nullptr) continue;
    const auto tensors = shared(config);
    if (std::ranges::none_of(tensors,
                             [&](const auto& each) { return each.name + ".weight" == spec.tensor.name; }))
      continue;
    found.push_back(pipeline.stage_with(layer, config.layers));
  }
  return found;
}

// The stages whose modules use a parameter.
std::vector<int64_t> stages_of(const ParameterSpec& spec, const ModelConfig& config,
                               const Pipeline& pipeline) {
  const int64_t last = pipeline.stages() - 1;
  if (spec.layer >= 0) return {pipeline.stage_with(spec.layer, config.layers)};
  if (spec.ahead >= 0) return {last};
  const bool beside = !spec.adapter_of.tensor.empty();
  const Role role = beside ? spec.adapter_of.role : spec.tensor.role;
  if (role == Role::kPosition || recipe::of_toeplitz(spec.tensor.name)) return {0};
  if (role == Role::kLowerBound || role == Role::kCoefficient)
    return stages_that_share(spec, config, pipeline);
  if (role != Role::kEmbedding) return {last};
  return config.tie_embeddings || config.predict_ahead > 0 ? std::vector<int64_t>{0, last}
                                                           : std::vector<int64_t>{0};
}

}  // namespace

bool kept_wide(const ParameterSpec& spec) {
  const Role role = spec.tensor.role;
  return role == Role::kNorm || role == Role::kRouter || role == Role::kLowerBound ||
         role == Role::kCoefficient || role == Role::kAdapterMagnitude ||
         (role == Role::kBias && spec.tensor.name.ends_with("norm.bias"));
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  std::vector<ParameterSpec> list = Builder(config).build();
  if (config.mup_base_hidden > 0) apply_width(list, Builder(widened(config, 2)).build(), config);
  add_adapters(list, config.lora);
  freeze(list, config.frozen);
  return list;
}

std::vector<ParameterSpec> mixer_parameters(const ModelConfig& config, const std::string& prefix,
                                            std::span<const recipe::MixerTensor> tensors, int64_t layer) {
  return Builder(config).alone(prefix, tensors, layer);
}

int64_t parameter_count(const ModelConfig& config) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameters(config)) count += spec.elements();
  return count;
}

int64_t activated_elements(const ParameterSpec& spec, const ModelConfig& config) {
  const Role role = spec.tensor.role;
  const bool table = role == Role::kEmbedding || role == Role::kPosition || role == Role::kHead;
  // Experts have one size, so any experts_per_token of them count what the chosen ones do.
  return !table && spec.ahead < 0 && spec.expert < config.experts_per_token ? spec.elements() : 0;
}

int64_t activated_parameter_count(const ModelConfig& config) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameters(config)) count += activated_elements(spec, config);
  return count;
}

std::vector<int64_t> pipeline_ranks_of(const ParameterSpec& spec, const ModelConfig& config,
                                       const Pipeline& pipeline) {
  std::set<int64_t> ranks;
  for (const int64_t stage : stages_of(spec, config, pipeline)) {
    for (const int64_t rank : pipeline.ranks_of(stage)) ranks.insert(rank);
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<ParameterSpec> parameters_of(const ModelConfig& config, const MeshRank& place) {
  std::vector<ParameterSpec> held;
  const Pipeline pipeline = place.pipeline();
  for (ParameterSpec& spec : parameters(config)) {
    spec.pipeline_ranks = pipeline_ranks_of(spec, config, pipeline);
    if (std::ranges::find(spec.pipeline_ranks, place.coordinate(Axis::kPp)) != spec.pipeline_ranks.end())
      held.push_back(std::move(spec));
  }
  return held;
}

int64_t key_copies(const ModelConfig& config, int64_t tensor_ranks) {
  int64_t copies = 1, heads = 0;
  for (const recipe::Mixer mixer : recipe::mixers_used(config)) {
    for (const recipe::MixerTensor& tensor : recipe::entry_of(mixer).tensors(config)) {
      if (!tensor.grouped || tensor.heads == 1 || tensor.heads >= tensor_ranks ||
          tensor_ranks % tensor.heads != 0)
        continue;
      if (copies > 1 && tensor.heads != heads) {
        throw Error(
            {.code = ExitCode::kUsage,
             .what = "mixers of different numbers of key heads, both fewer than the tensor ranks, would need "
                     "copies on different ranks",
             .expected = fmt::format("parallel.tp of at most {}, or one number of key heads",
                                     std::max(heads, tensor.heads)),
             .found = fmt::format("parallel.tp = {}, {} and {} key heads", tensor_ranks, heads, tensor.heads),
             .where = "parallel.tp and model.kv_heads, model.gla.key_heads, model.gated_deltanet.key_heads",
             .hint = fmt::format("parallel.tp={}", std::max(heads, tensor.heads))});
      }
      heads = tensor.heads;
      copies = tensor_ranks / heads;
    }
  }
  return copies;
}

namespace {
// As many ranks as can share, but no more than there are.
int64_t most_that_divides(int64_t count, int64_t ranks) {
  while (count % ranks != 0) --ranks;
  return ranks;
}
}  // namespace

Placement placement_of(const ParameterSpec& spec, const Mesh& mesh, int64_t pipeline_rank) {
  const Shape& shape = spec.tensor.global_shape;
  const SplitRule& split = spec.split;
  Placement placement = Placement::replicated(shape.size());
  placement.pins.push_back({Axis::kPp, pipeline_rank});
  if (split.experts > 0) {
    const int64_t ep = mesh.size(Axis::kEp);
    if (split.experts % ep != 0) {
      throw Error({.code = ExitCode::kUsage,
                   .what = fmt::format("{} experts cannot be dealt out to {} ranks", split.experts, ep),
                   .expected = "ep divides the number of experts",
                   .found = fmt::format("ep {}, {} experts", ep, split.experts),
                   .where = spec.tensor.name,
                   .hint = fmt::format("parallel.ep={}", most_that_divides(split.experts, ep))});
    }
    placement.pins.push_back({Axis::kEp, even_owner(split.experts, ep, spec.expert)});
    // Adapters that the ranks of an expert would hold whole: where it has one rank, that is no axis of
    // copies, and their gradients are summed with those of the expert.
    if (split.over == SplitOver::kNothing && mesh.size(Axis::kEtp) == 1)
      placement.dimensions[0].push_back({Axis::kEtp, 1});
  }
  if (split.over != SplitOver::kNothing) {
    Axis axis = split.over == SplitOver::kExpertTensor ? Axis::kEtp : Axis::kTp;
    const auto dimension = static_cast<size_t>(split.dimension);
    const int64_t units = shape.at(dimension) / split.unit;
    if (split.grouped && units < mesh.size(axis)) {
      if (units == 1) return placement;  // every tensor rank has it
      if (units == mesh.size(Axis::kTps)) axis = Axis::kTps;
    }
    if (split.even && units % mesh.size(axis) != 0) {
      const std::string_view what = recipe::of_toeplitz(spec.tensor.name) ? "channels" : "heads";
      throw Error(
          {.code = ExitCode::kUsage,
           .what = fmt::format("{} {} cannot be dealt out to {} ranks", units, what, mesh.size(axis)),
           .expected = fmt::format("{} divides the number of {}{}", name_of(axis), what,
                                   split.grouped ? ", or is a multiple of it" : ""),
           .found = fmt::format("{} {}, {} {}", name_of(axis), mesh.size(axis), units, what),
           .where = spec.tensor.name,
           .hint = fmt::format("parallel.{}={}", name_of(axis), most_that_divides(units, mesh.size(axis)))});
    }
    placement.dimensions[dimension].push_back({axis, split.unit});
  }
  check(placement, mesh, shape);
  return placement;
}

}  // namespace longhaul::layout
