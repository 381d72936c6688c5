#include "checkpoint/published/upcycling.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"
#include "tensor/random_fill.h"

namespace longhaul::checkpoint {
namespace {

constexpr std::string_view kOfExperts = ".experts.", kShared = ".shared.";

// One number of the recipe that does not fit.
struct Misfit {
  std::string key, expected, found, hint;
};

std::optional<Misfit> misfit_of(const recipe::ModelConfig& dense, const recipe::ModelConfig& model) {
  const int64_t width = dense.intermediate, own = model.intermediate;
  if (dense.bias) {
    return Misfit{"model.bias",
                  "false: experts have no biases, and those of the dense channel mixers would be lost",
                  "true there", "a dense model without biases"};
  }
  if (own > width || width % own != 0) {
    return Misfit{"model.intermediate",
                  fmt::format("{}, the width of the dense channel mixers there, or a divisor of it", width),
                  std::to_string(own), fmt::format("model.intermediate={}", width)};
  }
  const int64_t slices = width / own;
  const auto whole = [&](const char* key, int64_t number) -> std::optional<Misfit> {
    if (number % slices == 0) return std::nullopt;
    return Misfit{
        key,
        fmt::format("a multiple of {0}: {0} experts of {1} channels make up one dense channel mixer of {2}",
                    slices, own, width),
        std::to_string(number), fmt::format("{}={}", key, (number / slices + 1) * slices)};
  };
  if (auto found = whole("model.experts", model.experts)) return found;
  if (auto found = whole("model.experts_per_token", model.experts_per_token)) return found;
  const recipe::RouterOptions& router = model.router;
  if (slices > 1 && router.groups > 1 &&
      (model.experts / router.groups % slices != 0 ||
       model.experts_per_token / router.groups_per_token % slices != 0)) {
    return Misfit{"model.router_groups",
                  fmt::format("groups of a multiple of {0} experts, which give a token a multiple of {0}: "
                              "slices of one copy stay together",
                              slices),
                  fmt::format("{} groups of {}, {} per token", router.groups, model.experts / router.groups,
                              router.groups_per_token),
                  "model.router_groups=1 model.router_groups_per_token=1"};
  }
  if (!router.normalised && router.score != recipe::RouterScore::kSoftmax) {
    return Misfit{"model.router_normalised",
                  "true: only softmax scores have a known sum where they are not normalised", "false",
                  "model.router_normalised=true"};
  }
  const bool shares = model.shared_experts > 0;
  if (slices > 1 && (shares || !router.normalised)) {
    return Misfit{
        "model.intermediate",
        fmt::format("{}: whole copies, where there are shared experts or weights are not normalised", width),
        std::to_string(own), fmt::format("model.intermediate={}", width)};
  }
  if (shares && model.shared_gate) {
    return Misfit{"model.shared_gate", "false: a gate that is drawn anew would halve the shared experts",
                  "true", "model.shared_gate=false"};
  }
  if (shares && model.shared_width() != model.shared_experts * width) {
    return Misfit{
        "model.shared_intermediate", fmt::format("{}, the width of the dense channel mixers there", width),
        std::to_string(model.shared_intermediate), fmt::format("model.shared_intermediate={}", width)};
  }
  if (!model.dense_layers.empty() && model.dense_width() != width) {
    return Misfit{"model.dense_intermediate",
                  fmt::format("{}, the width of the dense channel mixers there", width),
                  std::to_string(model.dense_width()), fmt::format("model.dense_intermediate={}", width)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Upcycling> Upcycling::of(const recipe::ModelConfig& dense, const recipe::LoadedRecipe& loaded,
                                       const std::string& from) {
  const recipe::ModelConfig& model = loaded.recipe.model;
  if (dense.experts > 0 || model.experts == 0 || dense.channel != recipe::Channel::kSwiglu)
    return std::nullopt;
  if (const auto misfit = misfit_of(dense, model)) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the dense model cannot begin this one with experts",
                 .expected = fmt::format("{} = {}", misfit->key, misfit->expected),
                 .found = fmt::format("{} ({})", misfit->found, loaded.origin(misfit->key).text()),
                 .where = fmt::format("{} and --from {}", misfit->key, from),
                 .hint = misfit->hint});
  }
  return Upcycling(dense, loaded.recipe);
}

Upcycling::Upcycling(const recipe::ModelConfig& dense, const recipe::Recipe& recipe)
    : dense_(dense),
      model_(recipe.model),
      seed_(static_cast<uint64_t>(recipe.train.seed)),
      slices_(dense.intermediate / recipe.model.intermediate) {
  for (const layout::ParameterSpec& spec : layout::parameters(model_)) {
    if (spec.tensor.role == recipe::Role::kRouter) routers_.emplace(spec.tensor.name, spec);
  }
}

recipe::ModelConfig Upcycling::without_experts() const {
  recipe::ModelConfig model = model_;
  model.experts = dense_.experts, model.experts_per_token = dense_.experts_per_token;
  model.intermediate = dense_.intermediate, model.dense_intermediate = dense_.dense_intermediate;
  model.dense_layers = dense_.dense_layers;
  model.shared_experts = dense_.shared_experts, model.shared_intermediate = dense_.shared_intermediate,
  model.shared_gate = dense_.shared_gate;
  model.auxiliary_loss = dense_.auxiliary_loss, model.z_loss = dense_.z_loss;
  model.router = dense_.router;
  model.family = dense_.family;
  return model;
}

std::string Upcycling::text() const {
  const std::string experts =
      slices_ == 1
          ? fmt::format("{} experts, each a copy of its layer's dense channel mixer of {} channels",
                        model_.experts, dense_.intermediate)
          : fmt::format(
                "{} experts, {} copies of its layer's dense channel mixer in {} slices of {} channels each",
                model_.experts, model_.experts / slices_, slices_, model_.intermediate);
  const std::string shared =
      model_.shared_experts == 0
          ? ""
          : fmt::format(", and {} for every token",
                        counted(model_.shared_experts, "shared copy", "shared copies"));
  std::string factor;
  if (matrix_factor() != 1) {
    factor = fmt::format(
        ", and each matrix of an expert is multiplied by {:.4g}, so that the output is nearly the dense "
        "one's",
        matrix_factor());
  } else if (down_factor() != 1) {
    factor =
        fmt::format(", and down is multiplied by {:g}, so that the output is the dense one's", down_factor());
  }
  return fmt::format("a dense model becomes one with experts: {}{}; routers are drawn anew{}", experts,
                     shared, factor);
}

double Upcycling::down_factor() const {
  if (!model_.router.normalised) return 1;
  return static_cast<double>(slices_) / (model_.router.scale + static_cast<double>(model_.shared_experts));
}

double Upcycling::matrix_factor() const {
  if (model_.router.normalised) return 1;
  const double chosen = model_.router.scale * static_cast<double>(model_.experts_per_token) /
                        static_cast<double>(model_.experts);
  return 1 / std::cbrt(static_cast<double>(model_.shared_experts) + chosen);
}

Upcycling::Source Upcycling::source_of(const StateEntry& entry) const {
  Source source{.name = entry.name, .box = entry.held};
  const bool down = entry.name.ends_with(".down.weight");
  const double factor = down ? down_factor() * matrix_factor() : matrix_factor();
  if (const size_t at = entry.name.find(kShared); at != std::string::npos) {
    // layers.3.shared.down.weight → layers.3.channel.down.weight, once for each shared expert
    source.name = entry.name.substr(0, at) + ".channel" + entry.name.substr(at + kShared.size() - 1);
    source.copies = model_.shared_experts;
    source.copied_dimension = down ? 1 : 0;
    source.factor = factor;
    return source;
  }
  const size_t at = entry.name.find(kOfExperts);
  if (at == std::string::npos) return source;
  // layers.3.experts.12.down.weight → layers.3.channel.down.weight
  const size_t number = at + kOfExperts.size(), part = entry.name.find('.', number);
  const int64_t expert = std::stoll(entry.name.substr(number, part - number));
  source.name = entry.name.substr(0, at) + ".channel" + entry.name.substr(part);
  source.box.offset[down ? 1 : 0] += expert % slices_ * model_.intermediate;
  source.factor = factor;
  return source;
}

std::optional<Tensor> Upcycling::router_of(const StateEntry& entry) const {
  const auto found = routers_.find(entry.name);
  if (found == routers_.end()) return std::nullopt;
  const layout::ParameterSpec& spec = found->second;
  if (slices_ == 1 || spec.tensor.global_shape.size() != 2) return Tensor();
  const layout::Shape copies = {spec.tensor.global_shape[0] / slices_, spec.tensor.global_shape[1]};
  const Tensor rows = at::empty(copies, at::kDouble);
  fill_normal(rows, RandomStream(seed_, "init/" + entry.name), spec.init.std, copies,
              layout::Rectangle::whole(copies));
  Tensor all = rows.repeat_interleave(slices_, 0);
  for (size_t d = 0; d < copies.size(); ++d)
    all = all.narrow(static_cast<int64_t>(d), entry.held.offset[d], entry.held.length[d]);
  return all;
}

}  // namespace longhaul::checkpoint
