#include "checkpoint/published/export_chat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/disk/new_folder.h"
#include "checkpoint/saved_recipe.h"
#include "data/chat/chat_format.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr const char* kTemplateOfRun = "chat_template.jinja";
constexpr const char* kGeneration = "generation_config.json";
constexpr int64_t kMostTokenizerFile = 256 << 20, kMostSmallFile = 16 << 20;

std::string text_of_file(storage::FileSystem& files, const fs::path& path, int64_t most_bytes) {
  return files.exists(path) ? storage::read_small_file(files, path, ExitCode::kData, most_bytes) : "";
}

// With `end` in front of the ids that end a text.
std::string with_end(const std::string& generation, int32_t end) {
  ordered_json json =
      generation.empty() ? ordered_json::object() : ordered_json::parse(generation, nullptr, false);
  if (!json.is_object()) json = ordered_json::object();
  ordered_json ids = ordered_json::array({end});
  const ordered_json before = json.contains("eos_token_id") ? json["eos_token_id"] : ordered_json();
  for (const ordered_json& id : before.is_array() ? before : ordered_json::array({before})) {
    if (id.is_number_integer() && id != end) ids.push_back(id);
  }
  json["eos_token_id"] = ids.size() == 1 ? ids[0] : ids;
  return json.dump(2) + "\n";
}

}  // namespace

std::vector<std::string> write_chat_files(storage::FileSystem& files, const fs::path& folder,
                                          const fs::path& run, const recipe::Recipe& recipe) {
  std::vector<std::string> fresh;
  const auto write = [&](const char* name, const std::string& text) {
    if (!files.exists(folder / name)) fresh.emplace_back(name);
    storage::write_synced(files, folder / name, text);
  };
  if (files.exists(run / kPublishedBeside)) {
    const std::string own = text_of_file(files, run / "tokenizer.json", kMostTokenizerFile);
    if (!own.empty() && own != text_of_file(files, folder / "tokenizer.json", kMostTokenizerFile))
      write("tokenizer.json", own);
  }
  const std::string source = text_of_file(files, run / kTemplateOfRun, kMostSmallFile);
  if (source.empty()) return fresh;
  write(kTemplateOfRun, source);
  const auto tokenizer = run_tokenizer(run, recipe);
  const auto format = data::chat::ChatFormat::of_run(run);
  const auto end = tokenizer && format ? format->end_of_turn(*tokenizer) : std::nullopt;
  if (end) write(kGeneration, with_end(text_of_file(files, folder / kGeneration, kMostSmallFile), *end));
  return fresh;
}

}  // namespace longhaul::checkpoint
