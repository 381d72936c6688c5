#include "generate/prompts_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/utf8.h"

namespace longhaul::generate {
namespace {

bool are_ids(const nlohmann::json& list) {
  return list.is_array() && !list.empty() &&
         std::ranges::all_of(list, [](const nlohmann::json& id) { return id.is_number_unsigned(); });
}

Prompt prompt_of(const std::string& line, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_string()) return {.text = json.get<std::string>()};
  if (json.is_object() && json.contains("prompt") && json["prompt"].is_string())
    return {.text = json["prompt"].get<std::string>()};
  if (json.is_object() && json.contains("ids") && are_ids(json["ids"]))
    return {.text = {}, .ids = json["ids"].get<std::vector<int64_t>>()};
  throw Error({.code = ExitCode::kData,
               .what = "a line is no prompt",
               .expected = "a JSON text, {\"prompt\": \"…\"}, or {\"ids\": [1, 2]} with one id or more",
               .found = line.substr(0, 60),
               .where = where,
               .hint = "a file of any other ending than .jsonl has a prompt in each line as it stands"});
}

}  // namespace

std::vector<Prompt> read_prompts(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  std::istringstream lines{std::string(without_byte_order_mark(text))};
  std::vector<Prompt> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::string where = fmt::format("{}, line {}", path.string(), number);
    prompts.push_back(path.extension() == ".jsonl" ? prompt_of(line, where) : Prompt{.text = line});
    prompts.back().where = where;
  }
  if (!prompts.empty()) return prompts;
  throw Error({.code = ExitCode::kData,
               .what = "the file has no prompt",
               .expected = "a prompt in each line",
               .found = fmt::format("{} empty lines", number),
               .where = path.string()});
}

}  // namespace longhaul::generate
