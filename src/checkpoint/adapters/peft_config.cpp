#include "checkpoint/adapters/peft_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "storage/file_system.h"

namespace longhaul::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

[[noreturn]] void refuse_field(const std::string& what, const std::string& expected, const std::string& found,
                               const fs::path& where) {
  throw Error(
      {.code = ExitCode::kData, .what = what, .expected = expected, .found = found, .where = where.string()});
}

// Asked for: neither absent nor null, false, zero or empty.
bool asks(const json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  if (found->is_number()) return found->get<double>() != 0;
  return !found->empty() && *found != "";
}

// Each changes what is computed, or which values there are.
constexpr const char* kNotComputed[] = {
    "rank_pattern",   "alpha_pattern",           "modules_to_save",   "layer_replication",
    "lora_bias",      "trainable_token_indices", "target_parameters", "use_qalora",
    "fan_in_fan_out", "alora_invocation_tokens", "use_bdlora",        "arrow_config",
    "velora_config",  "monteclora_config"};

double number_of(const json& config, const char* field, const fs::path& where) {
  const auto found = config.find(field);
  if (found != config.end() && found->is_number() && found->get<double>() > 0) return found->get<double>();
  refuse_field(fmt::format("{} says no {}", kPeftConfig, field), "a number above 0",
               found == config.end() ? "nothing" : found->dump(), where);
}

}  // namespace

recipe::AdapterOptions read_peft_config(const fs::path& folder) {
  const fs::path where = folder / kPeftConfig;
  const std::string text =
      storage::read_small_file(storage::local_file_system(), where, ExitCode::kData, 16 << 20);
  const json config = json::parse(text, nullptr, false);
  if (!config.is_object())
    refuse_field("the adapter's configuration is no JSON object", "an object", "something else", where);
  if (config.value("peft_type", json()) != "LORA")
    refuse_field("this kind of adapter is not computed here", "peft_type LORA",
                 config.value("peft_type", json()).dump(), where);
  for (const char* field : kNotComputed) {
    if (asks(config, field))
      refuse_field(fmt::format("the adapter asks for {}, which is not computed here", field), "none",
                   config[field].dump(), where);
  }
  if (asks(config, "bias") && config["bias"] != "none")
    refuse_field("the adapter trained biases, which are not read here", "bias none", config["bias"].dump(),
                 where);
  const bool rslora = asks(config, "use_rslora"), dora = asks(config, "use_dora");
  if (rslora && dora)
    refuse_field("the adapter is of two kinds at once", "use_rslora or use_dora", "both", where);
  const double rank = number_of(config, "r", where);
  if (rank != static_cast<double>(static_cast<int64_t>(rank)) || rank > 65536)
    refuse_field("the adapter has no possible rank", "a whole number up to 65536", config["r"].dump(), where);
  return {.rank = static_cast<int64_t>(rank),
          .alpha = number_of(config, "lora_alpha", where),
          .targets = {},
          .kind = dora     ? recipe::AdapterKind::kDora
                  : rslora ? recipe::AdapterKind::kRslora
                           : recipe::AdapterKind::kLora};
}

std::string peft_config(const recipe::AdapterOptions& lora, const std::vector<std::string>& modules,
                        const std::string& base) {
  nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                   {"task_type", "CAUSAL_LM"},
                                   {"base_model_name_or_path", nullptr},
                                   {"inference_mode", true},
                                   {"r", lora.rank},
                                   {"lora_alpha", lora.alpha},
                                   {"lora_dropout", 0.0},
                                   {"bias", "none"},
                                   {"fan_in_fan_out", false},
                                   {"use_rslora", lora.kind == recipe::AdapterKind::kRslora},
                                   {"use_dora", lora.kind == recipe::AdapterKind::kDora},
                                   {"target_modules", modules}};
  if (!base.empty()) config["base_model_name_or_path"] = base;
  if (lora.alpha == static_cast<double>(static_cast<int64_t>(lora.alpha)))
    config["lora_alpha"] = static_cast<int64_t>(lora.alpha);
  return config.dump(2) + "\n";
}

}  // namespace longhaul::checkpoint
