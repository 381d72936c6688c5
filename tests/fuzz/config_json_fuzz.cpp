// Fuzz target of a published model's config.json, as import reads it: any text either is refused with exit
// code 64 or 65, or gives a configuration that a recipe could have, whose public tensors can be listed, and
// which its family can write.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "model/families/config_text.h"
#include "model/families/families.h"
#include "recipe/write.h"

namespace {

// layers and experts of which tensors are listed here: lists are as long as the file says
constexpr int64_t kLargest = 100;

void import_configuration(const nlohmann::json& json) {
  using namespace longhaul;
  const model::Family& family = model::family_of(json, "fuzz");
  recipe::LoadedRecipe loaded;
  loaded.recipe.model = model::read_config(family, json, "fuzz");
  loaded.recipe.data.tokenizer = "tokenizer.json";
  recipe::load_text(recipe::to_toml(loaded), "fuzz");
  const recipe::ModelConfig& config = loaded.recipe.model;
  if (config.layers > kLargest || config.experts > kLargest) return;
  if (model::public_tensors(config, family.layouts.front().name).empty()) std::abort();
  nlohmann::ordered_json written;
  family.write(config, written);
  if (!written.is_object()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const nlohmann::json json = nlohmann::json::parse(longhaul::model::json_of_python(text), nullptr, false);
  if (json.is_discarded()) return 0;
  try {
    import_configuration(json);
  } catch (const longhaul::Error& error) {
    if (error.code() != longhaul::ExitCode::kData && error.code() != longhaul::ExitCode::kUsage) std::abort();
  }
  return 0;
}
