#include "data/tokenizer/definition.h"

#include <nlohmann/json.hpp>

#include "data/tokenizer/splitting/unicode.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

namespace {

using Json = nlohmann::ordered_json;

Json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json pre_tokenizer(PreTokenizerKind kind) {
  if (kind == PreTokenizerKind::kGpt2) return byte_level(true);
  if (kind == PreTokenizerKind::kNone) return byte_level(false);
  const std::string_view pattern = kind == PreTokenizerKind::kLlama3 ? kLlama3Pattern : kQwenPattern;
  Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

}  // namespace

std::string trained_definition(const TrainedModel& model, PreTokenizerKind kind) {
  Json added = Json::array();
  for (const int32_t id : model.special) {
    added.push_back({{"id", id},
                     {"content", model.tokens[static_cast<size_t>(id)]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  Json vocabulary = Json::object();
  for (size_t id = 0; id < model.tokens.size(); ++id)
    vocabulary.get_ref<Json::object_t&>().emplace_back(model.tokens[id], id);
  Json merges = Json::array();
  for (const auto& [left, right] : model.merges) {
    merges.push_back(
        Json::array({model.tokens[static_cast<size_t>(left)], model.tokens[static_cast<size_t>(right)]}));
  }
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", kind == PreTokenizerKind::kQwen ? Json{{"type", "NFC"}} : Json(nullptr)},
                     {"pre_tokenizer", pre_tokenizer(kind)},
                     {"post_processor", nullptr},
                     {"decoder", byte_level(true)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocabulary},
                       {"merges", merges}}}};
  return root.dump(1) + "\n";
}

std::string definition_with_beginning(const Tokenizer& tokenizer) {
  const auto id = tokenizer.end_of_document();
  if (!id || !tokenizer.before().empty() || !tokenizer.after().empty()) return tokenizer.definition();
  const std::string token = *tokenizer.token_of(*id);
  const auto special = [&](int type) {
    return nlohmann::json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const auto text = [](const char* which, int type) {
    return nlohmann::json{{"Sequence", {{"id", which}, {"type_id", type}}}};
  };
  const nlohmann::json processor = {
      {"type", "TemplateProcessing"},
      {"single", {special(0), text("A", 0)}},
      {"pair", {special(0), text("A", 0), special(1), text("B", 1)}},
      {"special_tokens", {{token, {{"id", token}, {"ids", {*id}}, {"tokens", {token}}}}}}};
  nlohmann::json definition = nlohmann::json::parse(tokenizer.definition());
  nlohmann::json& there = definition["post_processor"];
  there =
      there.is_null() ? processor : nlohmann::json{{"type", "Sequence"}, {"processors", {there, processor}}};
  return definition.dump(1) + "\n";
}

std::string bytes_definition() {
  TrainedModel model;
  for (int byte = 0; byte < 256; ++byte)
    model.tokens.push_back(bytes_to_chars(std::string(1, static_cast<char>(byte))));
  model.tokens.emplace_back(kEndOfDocument);
  model.special.push_back(256);
  return trained_definition(model, PreTokenizerKind::kNone);
}

}  // namespace longhaul::data
