// `longhaul data`: make the token shards a recipe trains on, check them, show their sizes.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/folders.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "data/run_data.h"
#include "observe/table.h"
#include "recipe/load.h"
#include "tensor/libtorch_folder.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Arguments {
  std::string path;
  std::vector<std::string> overrides;
  bool json = false;
};

ordered_json json_of(const data::TokenDataset& side) {
  return {{"documents", side.documents()}, {"tokens", side.tokens()}, {"bytes", side.text_bytes()}, {"shards", side.shards()}};
}

ordered_json json_of(const data::PreparedSource& source) {
  return {{"source", source.source},
          {"folder", source.folder.string()},
          {"vocabulary", source.identity.vocabulary},
          {"tokenizer_sha256", source.identity.tokenizer_sha256},
          {"train", json_of(source.train)},
          {"held_out", json_of(source.held_out)},
          {"empty", source.counts.empty},
          {"copies", source.counts.copies},
          {"bad_lines", source.counts.bad_lines},
          {"bad_utf8", source.counts.bad_utf8}};
}

void show(const std::vector<data::PreparedSource>& sources, bool json) {
  if (json) {
    ordered_json list = ordered_json::array();
    for (const auto& source : sources) list.push_back(json_of(source));
    print_json({{"sources", list}});
    return;
  }
  for (const auto& source : sources) {
    observe::Table table(source.source, {{"part"},
                                         {"documents", observe::Align::kRight},
                                         {"bytes", observe::Align::kRight},
                                         {"tokens", observe::Align::kRight},
                                         {"shards", observe::Align::kRight}});
    const auto row = [&](const char* name, const data::TokenDataset& side) {
      table.row({name, count_text(side.documents()), bytes_text(side.text_bytes()), count_text(side.tokens()), count_text(side.shards())});
    };
    row("training", source.train);
    row("held out", source.held_out);
    print(table.text(colours_wanted(stdout)));
    print(fmt::format("left out: {} copies, {} empty, {} bad lines; documents that are not UTF-8: {}\n{}\n\n",
                      count_text(source.counts.copies), count_text(source.counts.empty), count_text(source.counts.bad_lines),
                      count_text(source.counts.bad_utf8), source.folder.string()));
  }
}

// The folder itself when it is a prepared source, else those right below it (a cache folder).
std::vector<data::PreparedSource> prepared_below(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code problem;
  if (fs::exists(folder / "dataset.json", problem)) {
    folders.push_back(folder);
  } else {
    for (const auto& entry : fs::directory_iterator(folder, problem)) {
      if (fs::exists(entry.path() / "dataset.json", problem)) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
  }
  if (folders.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "no prepared data here",
                 .expected = "a folder with dataset.json, or a cache folder that holds such folders",
                 .where = folder.string(),
                 .hint = "longhaul data prepare RECIPE makes it and prints the folder"});
  }
  std::vector<data::PreparedSource> sources;
  for (const fs::path& each : folders) sources.push_back(data::PreparedSource::open(each));
  return sources;
}

void add_prepare(CLI::App& group, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* prepare = add_command(group, "prepare", "train or load the tokenizer and write token shards, once",
                                  {{"before a run", "data prepare recipes/first-run.toml"},
                                   {"your own text", "data prepare recipes/first-run.toml data.source=/a/folder/of/text"},
                                   {"where they went, for a script", "data prepare recipes/first-run.toml --json"}});
  add_recipe(prepare, arguments->path, arguments->overrides);
  add_json_flag(prepare, arguments->json);
  on_run(prepare, command, [arguments] {
    const recipe::LoadedRecipe loaded = recipe::load(arguments->path, arguments->overrides);
    const recipe::DataOptions& options = loaded.recipe.data;
    const fs::path cache = options.cache.empty() ? user_cache_folder() : fs::path(options.cache);
    show(data::open_run_data(options, libtorch_folder(), cache).sources, arguments->json);
    return ExitCode::kDone;
  });
}

void add_verify(CLI::App& group, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verify = add_command(group, "verify", "read every byte of prepared data and compare checksums (exit 65 names the shard)",
                                 {{"one prepared source", "data verify ~/.cache/longhaul/tokens-0123456789abcdef"},
                                  {"everything in a cache", "data verify ~/.cache/longhaul"},
                                  {"for a script", "data verify ~/.cache/longhaul --json"}});
  verify->add_option("FOLDER", arguments->path, "a prepared source, or a folder that holds some")->required();
  add_json_flag(verify, arguments->json);
  on_run(verify, command, [arguments] {
    const auto sources = prepared_below(arguments->path);
    int64_t shards = 0, tokens = 0;
    for (const auto& source : sources) {
      for (const data::TokenDataset* side : {&source.train, &source.held_out}) {
        side->verify();
        shards += side->shards();
        tokens += side->tokens();
      }
    }
    if (arguments->json) {
      print_json({{"ok", true}, {"sources", sources.size()}, {"shards", shards}, {"tokens", tokens}});
    } else {
      print(fmt::format("in order: {} sources, {} shards, {} tokens\n", sources.size(), shards, count_text(tokens)));
    }
    return ExitCode::kDone;
  });
}

void add_show(CLI::App& group, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* shown = add_command(group, "show", "documents, bytes and tokens of prepared data",
                                {{"everything in a cache", "data show ~/.cache/longhaul"},
                                 {"one prepared source", "data show ~/.cache/longhaul/tokens-0123456789abcdef"},
                                 {"for a script", "data show ~/.cache/longhaul --json"}});
  shown->add_option("FOLDER", arguments->path, "a prepared source, or a folder that holds some")->required();
  add_json_flag(shown, arguments->json);
  on_run(shown, command, [arguments] {
    show(prepared_below(arguments->path), arguments->json);
    return ExitCode::kDone;
  });
}

}  // namespace

void add_data(CLI::App& program, Command& command) {
  CLI::App* group = add_command_group(program, "data", "prepare, check and show training data",
                                      {{"make it", "data prepare recipes/first-run.toml"},
                                       {"check it", "data verify ~/.cache/longhaul"},
                                       {"how much there is", "data show ~/.cache/longhaul"}});
  add_prepare(*group, command);
  add_verify(*group, command);
  add_show(*group, command);
}

}  // namespace longhaul::cli
