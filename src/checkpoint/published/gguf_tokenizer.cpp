#include "checkpoint/published/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "data/chat/chat_format.h"
#include "data/tokenizer/splitting/scanner.h"

namespace longhaul::checkpoint {

using Json = nlohmann::json;

namespace {

// Kinds of tokens, as the files number them.
constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

[[noreturn]] void refuse(const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "llama.cpp has no tokenizer that splits texts as the model's does",
               .expected = "byte-level BPE with the rules of GPT-2, Llama 3 or Qwen 2, or SentencePiece's "
                           "BPE with bytes for what is unknown",
               .found = found,
               .where = "--gguf",
               .hint = "export CKPT --out DIR writes tokenizer.json as it is"});
}

// The patterns and the flags of a pre-tokenizer, however it is nested.
void collect(const Json& definition, std::vector<std::string>& types, std::vector<std::string>& patterns) {
  if (!definition.is_object()) return;
  const std::string type = definition.value("type", "");
  if (type == "Sequence") {
    for (const Json& each : definition.at("pretokenizers")) collect(each, types, patterns);
    return;
  }
  types.push_back(type);
  if (type == "Split" && definition.at("pattern").contains("Regex"))
    patterns.push_back(definition["pattern"]["Regex"].get<std::string>());
  if (type == "ByteLevel" && definition.value("use_regex", true)) patterns.emplace_back(data::kGpt2Pattern);
}

// The name of the splitting rules; empty: SentencePiece's.
std::string splitting_of(const Json& definition) {
  std::vector<std::string> types, patterns;
  if (definition.contains("pre_tokenizer")) collect(definition["pre_tokenizer"], types, patterns);
  const bool bytes = std::ranges::find(types, "ByteLevel") != types.end();
  if (!bytes) {
    const bool fallback = definition.at("model").value("byte_fallback", false);
    const bool metaspace = types.empty() || (types.size() == 1 && types[0] == "Metaspace");
    if (fallback && metaspace) return "";
    refuse(types.empty() ? "no pre-tokenizer" : fmt::format("{}", fmt::join(types, ", ")));
  }
  // one token a byte, however words are cut
  if (patterns.empty() && definition.at("model").at("merges").empty()) return "gpt-2";
  if (patterns.size() != 1) refuse(fmt::format("{} patterns", patterns.size()));
  for (const auto& [pattern, name] :
       {std::pair{data::kGpt2Pattern, "gpt-2"}, std::pair{data::kLlama3Pattern, "llama-bpe"},
        std::pair{data::kQwenPattern, "qwen2"}}) {
    if (patterns[0] == pattern) return name;
  }
  refuse(patterns[0]);
}

std::vector<std::string> merges_of(const Json& definition) {
  std::vector<std::string> merges;
  for (const Json& merge : definition.at("model").at("merges")) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
  }
  return merges;
}

// The preference of each token: the earlier a merge makes it, the higher.
std::vector<float> scores_of(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  std::unordered_map<std::string, float> score;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    std::string made = merges[rank];
    made.erase(made.find(' '), 1);
    score.try_emplace(made, -static_cast<float>(rank));
  }
  std::vector<float> scores;
  for (const std::string& token : tokens) {
    const auto found = score.find(token);
    scores.push_back(found != score.end() ? found->second : token.size() > 1 ? -1e9F : 0.0F);
  }
  return scores;
}

bool begins_with_space(const Json& definition) {
  const std::string text =
      definition.value("normalizer", Json()).dump() + definition.value("pre_tokenizer", Json()).dump();
  return text.find("\"Prepend\"") != std::string::npos ||
         text.find("\"prepend_scheme\":\"first\"") != std::string::npos ||
         text.find("\"prepend_scheme\":\"always\"") != std::string::npos;
}

}  // namespace

storage::GgufFields gguf_tokenizer_fields(const data::Tokenizer& tokenizer, int64_t rows,
                                          const std::filesystem::path& run) {
  const Json definition = Json::parse(tokenizer.definition());
  const std::string splitting = splitting_of(definition);
  std::unordered_map<int32_t, bool> added;  // special or not
  if (definition.contains("added_tokens")) {
    for (const Json& token : definition["added_tokens"])
      added[token.at("id").get<int32_t>()] = token.value("special", false);
  }
  const std::string unknown = definition["model"].value("unk_token", Json()).is_string()
                                  ? definition["model"]["unk_token"].get<std::string>()
                                  : "";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (int64_t row = 0; row < rows; ++row) {
    const auto id = static_cast<int32_t>(row);
    const auto token = tokenizer.token_of(id);
    tokens.push_back(token ? *token : fmt::format("[UNUSED{}]", row));
    const bool byte = token && splitting.empty() && token->size() == 6 && token->starts_with("<0x");
    types.push_back(!token                                  ? kUnused
                    : !unknown.empty() && *token == unknown ? kUnknown
                    : added.contains(id)                    ? (added[id] ? kControl : kUserDefined)
                    : byte                                  ? kByte
                                                            : kNormal);
  }
  const std::vector<std::string> merges = merges_of(definition);
  storage::GgufFields fields{{"tokenizer.ggml.model", std::string(splitting.empty() ? "llama" : "gpt2")}};
  fields.emplace_back("tokenizer.ggml.pre", splitting.empty() ? "default" : splitting);
  if (splitting.empty()) {
    fields.emplace_back("tokenizer.ggml.scores", scores_of(tokens, merges));
    fields.emplace_back("tokenizer.ggml.add_space_prefix", begins_with_space(definition));
  } else {
    fields.emplace_back("tokenizer.ggml.merges", merges);
  }
  fields.emplace_back("tokenizer.ggml.tokens", std::move(tokens));
  fields.emplace_back("tokenizer.ggml.token_type", std::move(types));
  const auto end = tokenizer.end_of_document();
  if (end) fields.emplace_back("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*end));
  for (const int32_t stop : tokenizer.stop_ids()) {
    if (stop == end) continue;
    fields.emplace_back("tokenizer.ggml.eot_token_id", static_cast<uint32_t>(stop));
    break;
  }
  const std::vector<int32_t> beginning = tokenizer.beginning();
  if (!beginning.empty())
    fields.emplace_back("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(beginning.front()));
  fields.emplace_back("tokenizer.ggml.add_bos_token", !beginning.empty());
  if (const auto format = data::chat::ChatFormat::of_run(run))
    fields.emplace_back("tokenizer.chat_template", format->chat_template().source());
  return fields;
}

}  // namespace longhaul::checkpoint
