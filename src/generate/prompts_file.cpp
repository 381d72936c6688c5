#include "generate/prompts_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"

namespace longhaul::generate {
namespace {

std::string prompt_of(const std::string& line, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object() && json.contains("prompt") && json["prompt"].is_string()) return json["prompt"].get<std::string>();
  throw Error({.code = ExitCode::kData,
               .what = "a line is no prompt",
               .expected = "a JSON text, or an object {\"prompt\": \"…\"}",
               .found = line.substr(0, 60),
               .where = where,
               .hint = "a file of any other ending than .jsonl has a prompt in each line as it stands"});
}

}  // namespace

std::vector<std::string> read_prompts(const std::filesystem::path& path) {
  std::istringstream lines(read_text(path));
  std::vector<std::string> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    prompts.push_back(path.extension() == ".jsonl" ? prompt_of(line, fmt::format("{}, line {}", path.string(), number)) : line);
  }
  if (!prompts.empty()) return prompts;
  throw Error({.code = ExitCode::kData,
               .what = "the file has no prompt",
               .expected = "a prompt in each line",
               .found = fmt::format("{} empty lines", number),
               .where = path.string()});
}

}  // namespace longhaul::generate
