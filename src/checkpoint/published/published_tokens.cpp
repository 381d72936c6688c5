#include "checkpoint/published/published_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "model/families/config_text.h"
#include "storage/file_system.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int64_t kLimitBytes = 16 << 20;

[[noreturn]] void refuse(const fs::path& file, const std::string& field, const std::string& expected,
                         const json& found) {
  throw Error({.code = ExitCode::kData,
               .what = fmt::format("{} of the published model cannot be used", field),
               .expected = expected,
               .found = brief(found.dump(-1, ' ', false, json::error_handler_t::replace)),
               .where = file.string(),
               .hint = "mend the field, or leave it out"});
}

// An empty object where there is no such file.
json read_object(const fs::path& file) {
  if (!fs::exists(file)) return json::object();
  const std::string text =
      storage::read_small_file(storage::local_file_system(), file, ExitCode::kData, kLimitBytes);
  json object = json::parse(model::json_of_python(text), nullptr, /*allow_exceptions=*/false);
  if (object.is_object()) return object;
  throw Error({.code = ExitCode::kData,
               .what = "a file beside the weights cannot be read",
               .expected = "a JSON object",
               .found = object.is_discarded() ? "no JSON, or the end of it is missing" : object.type_name(),
               .where = file.string(),
               .hint = "fetch it again, or leave the file out"});
}

// A number or a list of numbers; what has no token can never follow, and is left out.
std::vector<std::string> tokens_of_ids(const fs::path& file, const json& ids,
                                       const data::Tokenizer& tokenizer) {
  constexpr const char* kField = "eos_token_id";
  std::vector<std::string> tokens;
  for (const json& id : ids.is_array() ? ids : json::array({ids})) {
    if (!id.is_number_integer()) refuse(file, kField, "a token id, or a list of them", ids);
    if (id < 0 || id >= tokenizer.vocabulary()) continue;
    if (const auto token = tokenizer.token_of(id.get<int32_t>())) tokens.push_back(*token);
  }
  return tokens;
}

// "</s>", or {"content": "</s>", …} as older files have it.
std::vector<std::string> token_of_text(const fs::path& file, const json& token,
                                       const data::Tokenizer& tokenizer) {
  const json& text = token.is_object() && token.contains("content") ? token["content"] : token;
  if (!text.is_string()) refuse(file, "eos_token", "the text of a token", token);
  if (!tokenizer.id_of(text.get<std::string>())) return {};
  return {text.get<std::string>()};
}

std::vector<std::string> end_tokens(const fs::path& folder, const data::Tokenizer& tokenizer) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const json object = read_object(folder / name);
    if (object.contains("eos_token_id") && !object["eos_token_id"].is_null())
      return tokens_of_ids(folder / name, object["eos_token_id"], tokenizer);
  }
  const fs::path file = folder / "tokenizer_config.json";
  const json object = read_object(file);
  if (!object.contains("eos_token") || object["eos_token"].is_null()) return {};
  return token_of_text(file, object["eos_token"], tokenizer);
}

}  // namespace

data::TokenRoles published_roles(const fs::path& folder, const data::Tokenizer& tokenizer) {
  data::TokenRoles roles{.end_of_document = {}, .stop = end_tokens(folder, tokenizer)};
  if (!tokenizer.end_of_document() && !roles.stop.empty()) roles.end_of_document = roles.stop.front();
  const auto end = tokenizer.with({.end_of_document = roles.end_of_document, .stop = {}}).end_of_document();
  // it ends a text anyway
  std::erase_if(roles.stop, [&](const std::string& token) { return tokenizer.id_of(token) == end; });
  return roles;
}

}  // namespace longhaul::checkpoint
