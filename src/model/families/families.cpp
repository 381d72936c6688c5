#include "model/families/families.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "layout/parameters.h"
#include "model/families/config_reader.h"
#include "recipe/architecture/families.h"

namespace longhaul::model {

extern const Family kGpt2, kLlama, kMistral, kMixtral, kQwen2, kQwen3, kQwen2Moe, kQwen3Moe, kMinimax,
    kMinimaxHf, kMamba2, kRetnet, kGla, kHgrn2, kDeltaNet, kGatedDeltaNet;  // in files of their own

namespace {

using recipe::ModelConfig;

std::vector<PublicTensor> logical_tensors(const ModelConfig& config) {
  std::vector<PublicTensor> tensors;
  for (const auto& spec : layout::parameters(config)) {
    const auto whole = layout::Rectangle::whole(spec.tensor.global_shape);
    tensors.push_back(
        {spec.tensor.name, spec.tensor.global_shape, "bf16", {{spec.tensor.name, whole, whole}}});
  }
  return tensors;
}

// Recipes are checked before; configs built in code are not.
void require_expressible(const ModelConfig& config) {
  std::vector<recipe::Problem> problems;
  recipe::check_family(config, problems);
  if (problems.empty()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the model cannot be written under its family's public names",
               .expected = problems.front().reason,
               .found = "another configuration",
               .where = "model.family = " + config.family,
               .hint = "set model.family=longhaul"});
}

const nlohmann::json* text_at(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? &*found : nullptr;
}

}  // namespace

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> all = {
      &kGpt2,    &kLlama,     &kMistral, &kMixtral, &kQwen2, &kQwen3, &kQwen2Moe, &kQwen3Moe,
      &kMinimax, &kMinimaxHf, &kMamba2,  &kRetnet,  &kGla,   &kHgrn2, &kDeltaNet, &kGatedDeltaNet};
  return all;
}

const Family* find_family(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : *found;
}

const Family& family_of(const nlohmann::json& config, const std::string& where) {
  std::vector<std::string> known;
  std::string named;
  if (config.is_object()) {
    if (const auto* type = text_at(config, "model_type")) named = type->get<std::string>();
    const auto architectures = config.find("architectures");
    const bool listed = architectures != config.end() && architectures->is_array() && !architectures->empty();
    if (named.empty() && listed && architectures->front().is_string())
      named = architectures->front().get<std::string>();
  }
  for (const Family* family : families()) {
    for (const auto& names : {family->model_types, family->architectures}) {
      if (std::ranges::find(names, named) != names.end()) return *family;
      known.insert(known.end(), names.begin(), names.end());
    }
  }
  std::string near = nearest_spelling(named, known);
  std::vector<std::string_view> types;
  for (const Family* family : families()) types.push_back(family->model_types.front());
  throw Error(
      {.code = ExitCode::kData,
       .what = "models of this kind cannot be read",
       .expected = fmt::format("model_type: one of {}", fmt::join(types, ", ")),
       .found = named.empty() ? "no model_type" : brief(named),
       .where = where + ", model_type",
       .hint =
           near.empty()
               ? ""
               : fmt::format("the nearest is {}; only where the model computes the same, write that there",
                             near)});
}

ModelConfig read_config(const Family& family, const nlohmann::json& config, const std::string& where,
                        std::vector<std::string>* ignored) {
  ConfigReader reader(config, where);
  const ModelConfig model = family.read(reader);
  reader.finish();
  if (ignored != nullptr) *ignored = reader.ignored();
  return model;
}

layout::Shape PublicTensor::rows_and_columns() const {
  if (shape.size() <= 2) return shape;
  layout::Shape flat = {1, shape.back()};
  for (size_t d = 0; d + 1 < shape.size(); ++d) flat[0] *= shape[d];
  return flat;
}

std::vector<PublicTensor> public_tensors(const ModelConfig& config, std::string_view layout) {
  require_expressible(config);
  const Family* family = find_family(config.family);
  if (family == nullptr) return logical_tensors(config);
  const auto found = std::ranges::find(family->layouts, layout, &PublicLayout::name);
  LONGHAUL_ASSERT(found != family->layouts.end(), "{} has no layout '{}'", config.family, layout);
  return found->tensors(config);
}

int64_t public_bytes(const std::vector<PublicTensor>& tensors) {
  int64_t bytes = 0;
  for (const PublicTensor& tensor : tensors)
    bytes += layout::volume(tensor.shape) * (tensor.dtype == "fp32" ? 4 : 2);
  return bytes;
}

}  // namespace longhaul::model
