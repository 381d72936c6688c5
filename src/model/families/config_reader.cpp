#include "model/families/config_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/text/text.h"

namespace longhaul::model {
namespace {

// Of files as they are published: how they came to be, how text is drawn from the model, what only training
// does.
constexpr std::array kSaysNothing = {"architectures",
                                     "auto_map",
                                     "model_type",
                                     "transformers_version",
                                     "_name_or_path",
                                     "_attn_implementation",
                                     "_attn_implementation_autoset",
                                     "attn_implementation",
                                     "torch_dtype",
                                     "dtype",
                                     "use_cache",
                                     "bos_token_id",
                                     "eos_token_id",
                                     "pad_token_id",
                                     "unk_token_id",
                                     "sep_token_id",
                                     "decoder_start_token_id",
                                     "task_specific_params",
                                     "output_attentions",
                                     "output_hidden_states",
                                     "output_router_logits",
                                     "return_dict",
                                     "use_return_dict",
                                     "return_dict_in_generate",
                                     "torchscript",
                                     "is_encoder_decoder",
                                     "gradient_checkpointing",
                                     "id2label",
                                     "label2id",
                                     "num_labels",
                                     "problem_type",
                                     "finetuning_task",
                                     "tokenizer_class",
                                     "prefix",
                                     "max_length",
                                     "min_length",
                                     "do_sample",
                                     "temperature",
                                     "top_k",
                                     "top_p",
                                     "num_beams",
                                     "repetition_penalty",
                                     "length_penalty",
                                     "no_repeat_ngram_size",
                                     "early_stopping",
                                     "num_return_sequences",
                                     "bad_words_ids",
                                     "suppress_tokens",
                                     "begin_suppress_tokens",
                                     "forced_bos_token_id",
                                     "forced_eos_token_id",
                                     "chunk_size_feed_forward",
                                     "is_decoder",
                                     "use_bfloat16",
                                     "output_scores",
                                     "num_beam_groups",
                                     "diversity_penalty",
                                     "typical_p",
                                     "encoder_no_repeat_ngram_size",
                                     "remove_invalid_values",
                                     "exponential_decay_length_penalty",
                                     "tf_legacy_loss",
                                     "max_sequence_length",
                                     "model_max_length",
                                     "predict_special_tokens",
                                     "output_past",
                                     "_num_labels",
                                     "_commit_hash",
                                     "transformers.js_config",
                                     "unsloth_version",
                                     "unsloth_fixed"};

constexpr std::array kOfTraining = {"attention_dropout", "attn_pdrop",         "embd_pdrop",
                                    "resid_pdrop",       "hidden_dropout",     "summary_first_dropout",
                                    "initializer_range", "router_jitter_noise"};

// Fields that many files have without meaning anything by them: with this value they change nothing, with
// another one they might.
const std::map<std::string, nlohmann::json>& neutral_fields() {
  static const std::map<std::string, nlohmann::json> fields = {{"add_cross_attention", false},
                                                               {"tie_encoder_decoder", false},
                                                               {"pruned_heads", nlohmann::json::object()},
                                                               {"use_mrope", false},  // Qwen2.5
                                                               // SmolLM, by nanotron
                                                               {"is_llama_config", true},
                                                               {"rope_interleaved", false},  // likewise
                                                               {"use_sliding_window", false},
                                                               {"n_special", 0}};  // GPT-2
  return fields;
}

std::string brief_json(const nlohmann::json& value) {
  return brief(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 120);
}

}  // namespace

ConfigReader::ConfigReader(const nlohmann::json& config, std::string where)
    : config_(config), where_(std::move(where)) {
  if (config.is_object()) return;
  throw Error({.code = ExitCode::kData,
               .what = "this is no configuration of a model",
               .expected = "a JSON object",
               .found = config.type_name(),
               .where = where_});
}

const nlohmann::json* ConfigReader::find(const std::string& key) {
  read_.insert(key);
  const auto found = config_.find(key);
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigReader::refuse(const std::string& key, const std::string& expected, const std::string& found,
                          const std::string& hint) const {
  throw Error({.code = ExitCode::kData,
               .what = fmt::format("{} of the model's configuration cannot be used", key),
               .expected = expected,
               .found = found,
               .where = fmt::format("{}, {}", where_, key),
               .hint = hint});
}

void ConfigReader::wrong_type(const std::string& key, const char* expected,
                              const nlohmann::json& found) const {
  refuse(key, expected, brief_json(found));
}

bool ConfigReader::has(const std::string& key) { return find(key) != nullptr; }
bool ConfigReader::says(const std::string& key) const { return config_.contains(key); }

int64_t ConfigReader::integer(const std::string& key, int64_t least) {
  if (find(key) == nullptr) refuse(key, fmt::format("a whole number of at least {}", least), "it is missing");
  return integer_or(key, least, least);
}

int64_t ConfigReader::integer_or(const std::string& key, int64_t otherwise, int64_t least) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  // beyond any model; products of two stay far from 63 bits where they are checked again
  constexpr int64_t kMost = int64_t{1} << 40;
  if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > kMost)) {
    wrong_type(key, "a whole number", *value);
  }
  const auto number = value->get<int64_t>();
  if (number < least || number > kMost)
    refuse(key, fmt::format("a whole number of at least {}", least), std::to_string(number));
  return number;
}

double ConfigReader::number_or(const std::string& key, double otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) wrong_type(key, "a number", *value);
  return value->get<double>();
}

bool ConfigReader::flag_or(const std::string& key, bool otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) wrong_type(key, "true or false", *value);
  return value->get<bool>();
}

std::string ConfigReader::text_or(const std::string& key, const std::string& otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) wrong_type(key, "text", *value);
  return value->get<std::string>();
}

std::vector<std::string> ConfigReader::texts(const std::string& key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  const auto is_text = [](const nlohmann::json& each) { return each.is_string(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_text)) wrong_type(key, "a list of texts", *value);
  return value->get<std::vector<std::string>>();
}

std::vector<int64_t> ConfigReader::integers(const std::string& key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  const auto is_whole = [](const nlohmann::json& each) { return each.is_number_integer(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_whole))
    wrong_type(key, "a list of whole numbers", *value);
  return value->get<std::vector<int64_t>>();
}

const nlohmann::json* ConfigReader::object(const std::string& key) {
  const nlohmann::json* value = find(key);
  if (value != nullptr && !value->is_object()) wrong_type(key, "an object", *value);
  return value;
}

ConfigReader ConfigReader::inner(const std::string& key) { return {*object(key), where_ + ", " + key}; }

void ConfigReader::must_be(const std::string& key, const nlohmann::json& value, const std::string& why) {
  const nlohmann::json* found = find(key);
  if (found == nullptr || *found == value) return;
  refuse(key, brief_json(value), brief_json(*found), why);
}

void ConfigReader::must_be_one_of(const std::string& key, const std::vector<std::string>& values,
                                  const std::string& otherwise) {
  const std::string found = text_or(key, otherwise);
  if (std::ranges::find(values, found) == values.end())
    refuse(key, fmt::format("{}", fmt::join(values, " or ")), found);
}

void ConfigReader::ignore(const std::string& key) {
  if (find(key) != nullptr) ignored_.push_back(key);
}

void ConfigReader::finish() {
  for (const char* key : kOfTraining) ignore(key);
  std::vector<std::string> unknown;
  for (const auto& [key, value] : config_.items()) {
    if (read_.contains(key) || std::ranges::find(kSaysNothing, key) != kSaysNothing.end()) continue;
    if (value.is_null()) {  // not set
      ignored_.push_back(key);
      continue;
    }
    const auto neutral = neutral_fields().find(key);
    if (neutral != neutral_fields().end() && neutral->second == value) {
      ignored_.push_back(key);
      continue;
    }
    unknown.push_back(key);
  }
  if (unknown.empty()) return;
  const std::string near = nearest_spelling(unknown.front(), {read_.begin(), read_.end()});
  std::string found = brief_json(config_.at(unknown.front()));
  for (size_t i = 1; i < unknown.size(); ++i)
    found += fmt::format("{} {}", i == 1 ? "; also" : ",", brief(unknown[i]));
  refuse(brief(unknown.front()),
         near.empty() ? "only fields whose effect on the model is known"
                      : "only fields whose effect is known, such as " + near,
         found,
         unknown.size() == 1
             ? "if it changes nothing that the model computes, remove it from the file"
             : "those that change nothing that the model computes may be removed from the file");
}

}  // namespace longhaul::model
