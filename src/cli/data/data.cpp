// `longhaul data`: make the token shards a recipe trains on, check them, show their sizes, be rid of old
// ones.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/folders.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "checkpoint/starting_point.h"
#include "cli/command.h"
#include "cli/data/documents.h"
#include "cli/output.h"
#include "cli/register.h"
#include "data/run_data.h"
#include "data/tokens/cache.h"
#include "observe/table.h"
#include "recipe/load.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct DataArguments {
  std::string path;
  std::vector<std::string> overrides;
  double days = 30;
  bool all = false, yes = false, json = false;
  int64_t documents = 0;
  std::string tokenizer, from;
};

constexpr const char* kDocumentsHelp =
    "shows the first N documents of each side, and what their tokens weigh in the loss";

ordered_json json_of(const data::TokenDataset& side) {
  return {{"documents", side.documents()},
          {"tokens", side.tokens()},
          {"bytes", side.text_bytes()},
          {"shards", side.shards()},
          {"counted_labels", side.counted_labels()}};
}

ordered_json json_of(const data::PreparedSource& source, const ShownDocuments& shown) {
  ordered_json not_text = ordered_json::array();
  for (const auto& file : source.not_text)
    not_text.push_back({{"name", file.name}, {"bytes", file.bytes}, {"reason", file.reason}});
  ordered_json result = {{"source", source.source},
                         {"folder", text_of_path(source.folder)},
                         {"vocabulary", source.identity.vocabulary},
                         {"tokenizer_sha256", source.identity.tokenizer_sha256},
                         {"train", json_of(source.train)},
                         {"held_out", json_of(source.held_out)},
                         {"cut", source.counts.cut},
                         {"empty", source.counts.empty},
                         {"copies", source.counts.copies},
                         {"bad_lines", source.counts.bad_lines},
                         {"bad_utf8", source.counts.bad_utf8},
                         {"not_text", source.counts.not_text},
                         {"not_text_bytes", source.counts.not_text_bytes},
                         {"not_text_files", not_text}};
  if (shown.most > 0) result["shown_documents"] = json_of_documents(source, shown);
  return result;
}

// A cell that says nothing is empty.
std::string if_any(int64_t count, std::string text) { return count > 0 ? std::move(text) : std::string(); }

void show(const data::PreparedSource& source, const ShownDocuments& shown) {
  observe::Table table(source.source, {{"part"},
                                       {"documents", observe::Align::kRight},
                                       {"bytes", observe::Align::kRight},
                                       {"tokens", observe::Align::kRight},
                                       {"shards", observe::Align::kRight}});
  for (const data::DataPart& part : data::parts_of({&source, 1})) {
    table.row({part.name, count_text(part.documents), if_any(part.bytes, bytes_text(part.bytes)),
               if_any(part.tokens, count_text(part.tokens)), if_any(part.shards, count_text(part.shards))});
  }
  print(table.text(colours_wanted(stdout)));
  for (const auto& file : source.not_text)
    print(fmt::format("not text: {} ({}, {})\n", file.name, bytes_text(file.bytes), file.reason));
  const int64_t unnamed = source.counts.not_text - static_cast<int64_t>(source.not_text.size());
  if (unnamed > 0) print(fmt::format("not text: {} more\n", count_text(unnamed)));
  if (source.counts.bad_utf8 > 0) {
    print(fmt::format("documents with bytes that are not UTF-8, kept as they are: {}\n",
                      count_text(source.counts.bad_utf8)));
  }
  for (const auto& [name, side] :
       {std::pair("training", &source.train), std::pair("held out", &source.held_out)}) {
    if (!side->weighted()) continue;
    print(fmt::format("{}: {} of {} labels count in the loss, ends of documents included\n", name,
                      count_text(side->counted_labels()), count_text(side->labels())));
  }
  print_documents(source, shown);
  print(fmt::format("{}\n\n", text_of_path(source.folder)));
}

void show(const std::vector<data::PreparedSource>& sources, bool json, const ShownDocuments& shown) {
  for (const auto& source : sources) require_tokenizer_of(source, shown);
  ordered_json list = ordered_json::array();
  for (const auto& source : sources) {
    if (json) {
      list.push_back(json_of(source, shown));
    } else {
      show(source, shown);
    }
  }
  if (json) print_json({{"sources", list}});
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
                 .hint = program_command("data prepare RECIPE") + " makes it and prints the folder"});
  }
  std::vector<data::PreparedSource> sources;
  for (const fs::path& each : folders) sources.push_back(data::PreparedSource::open(each));
  return sources;
}

// As a training run opens it.
data::RunData prepared_data(const DataArguments& arguments) {
  std::shared_ptr<const checkpoint::StartingPoint> from;
  std::optional<recipe::FirstWords> first;
  if (!arguments.from.empty()) {
    from = checkpoint::StartingPoint::open(arguments.from);
    first = from->first_words();
  }
  const recipe::Recipe recipe =
      recipe::load(arguments.path, arguments.overrides, first ? &*first : nullptr).recipe;
  const train::TaskEntry& task = train::task_named(tasks(), recipe.train.task);
  if (!task.reads_text) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "this task makes what it learns",
                 .expected = "a task that reads [data]",
                 .found = recipe.train.task,
                 .where = "train.task"});
  }
  return train::open_data(task, {.recipe = recipe,
                                 .cache = data::cache_folder(recipe.data),
                                 .from = from ? from->home() : fs::path(),
                                 .quiet = true});
}

void add_prepare(Command& group) {
  auto arguments = std::make_shared<DataArguments>();
  Command prepare = group.add(
      "prepare", "train or load the tokenizer and write token shards, once",
      {{"before a run", "data prepare recipes/first-run.toml"},
       {"conversations, and what of them is learnt",
        "data prepare recipes/posttrain/chat.toml data.source=conversations.jsonl --documents 3"},
       {"prompts that do not count in the loss",
        "data prepare recipes/first-run.toml data.source=chat.jsonl data.loss_on=completion --documents 3"}});
  prepare.recipe(arguments->path, arguments->overrides);
  prepare.option("--documents", arguments->documents, kDocumentsHelp).at_least(0);
  prepare.option(
      "--from", arguments->from,
      "for the model of a Hugging Face folder or a checkpoint: its tokenizer and its chat template");
  prepare.json_flag(arguments->json);
  prepare.on_run([arguments] {
    const data::RunData data = prepared_data(*arguments);
    show(data.sources, arguments->json, {arguments->documents, data.tokenizer});
    return ExitCode::kDone;
  });
}

void add_verify_data(Command& group) {
  auto arguments = std::make_shared<DataArguments>();
  Command verify =
      group.add("verify", "read every byte of prepared data and compare checksums (exit 65 names the shard)",
                {{"one prepared source", "data verify ~/.cache/longhaul/tokens-0123456789abcdef"},
                 {"everything in a cache", "data verify ~/.cache/longhaul"},
                 {"for a script", "data verify ~/.cache/longhaul --json"}});
  verify.option("FOLDER", arguments->path, "a prepared source, or a folder that holds some").required();
  verify.json_flag(arguments->json);
  verify.on_run([arguments] {
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
      print(fmt::format("in order: {}, {}, {}\n", counted(static_cast<int64_t>(sources.size()), "source"),
                        counted(shards, "shard"), counted(tokens, "token")));
    }
    return ExitCode::kDone;
  });
}

void add_show_data(Command& group) {
  auto arguments = std::make_shared<DataArguments>();
  Command shown = group.add("show", "documents, bytes and tokens of prepared data",
                            {{"everything in a cache", "data show ~/.cache/longhaul"},
                             {"which tokens count in the loss",
                              "data show ~/.cache/longhaul/tokens-0123456789abcdef --documents 3"},
                             {"for a script", "data show ~/.cache/longhaul --json"}});
  shown.option("FOLDER", arguments->path, "a prepared source, or a folder that holds some").required();
  shown.option("--documents", arguments->documents, kDocumentsHelp).at_least(0);
  shown.option("--tokenizer", arguments->tokenizer,
               "tokenizer.json that made the tokens, or bytes: to show their text");
  shown.json_flag(arguments->json);
  shown.on_run([arguments] {
    ShownDocuments documents{arguments->documents};
    if (!arguments->tokenizer.empty())
      documents.tokenizer = arguments->tokenizer == "bytes"
                                ? data::Tokenizer::bytes()
                                : data::Tokenizer::load(path_of_text(arguments->tokenizer));
    show(prepared_below(arguments->path), arguments->json, documents);
    return ExitCode::kDone;
  });
}

// Entries that no run has used for so long, or all; removed only with --yes.
ExitCode clean(const DataArguments& arguments) {
  const fs::path folder = arguments.path.empty() ? user_cache_folder() : fs::path(arguments.path);
  const double now_s = wall_time_s();
  observe::Table table(text_of_path(folder), {{"file or folder"},
                                              {"holds"},
                                              {"size", observe::Align::kRight},
                                              {"last used", observe::Align::kRight},
                                              {""}});
  ordered_json list = ordered_json::array();
  int64_t found = 0, removed = 0;
  for (const data::CacheEntry& entry : data::list_cache(folder)) {
    const double days = std::max(0.0, (now_s - entry.used_s) / 86400);
    if (!arguments.all && days < arguments.days) continue;
    const bool gone = arguments.yes && data::remove_from_cache(entry);
    found += entry.bytes;
    removed += gone ? entry.bytes : 0;
    const std::string name = text_of_path(entry.path.lexically_relative(folder));
    list.push_back({{"path", text_of_path(entry.path)},
                    {"kind", data::name_of(entry.kind)},
                    {"bytes", entry.bytes},
                    {"last_used", entry.used_s},
                    {"removed", gone}});
    table.row({name, data::name_of(entry.kind), bytes_text(entry.bytes), fmt::format("{:.0f} days ago", days),
               gone            ? "removed"
               : arguments.yes ? "is being prepared: stays"
                               : ""});
  }
  if (arguments.json) {
    print_json(
        {{"folder", text_of_path(folder)}, {"entries", list}, {"bytes", found}, {"removed_bytes", removed}});
    return ExitCode::kDone;
  }
  if (!list.empty()) print(table.text(colours_wanted(stdout)));
  if (list.empty()) {
    const std::string since =
        arguments.all
            ? ""
            : fmt::format(" that was not used for {:g} days; --all takes the rest too", arguments.days);
    print(fmt::format("nothing of prepared data in {}{}\n", text_of_path(folder), since));
  } else if (arguments.yes) {
    print(fmt::format("removed {}; what is needed again is made again\n", bytes_text(removed)));
  } else {
    print(fmt::format("{} could be removed: add --yes\n", bytes_text(found)));
  }
  return ExitCode::kDone;
}

void add_clean(Command& group) {
  auto arguments = std::make_shared<DataArguments>();
  Command command = group.add(
      "clean",
      "list, and with --yes remove, prepared data, tokenizers and packing indexes that no recent run used",
      {{"what has not been used for 30 days, and its size", "data clean"},
       {"remove what has not been used for a week", "data clean --older-than 7 --yes"},
       {"remove all of it", "data clean --all --yes"}});
  command.option("FOLDER", arguments->path, "a cache folder (default: the user's)");
  command.option("--older-than", arguments->days, "days since a run last used it")
      .at_least(0)
      .default_shown();
  command.flag("--all", arguments->all, "whenever it was used");
  command.flag("--yes", arguments->yes, "remove what is listed");
  command.json_flag(arguments->json);
  command.on_run([arguments] { return clean(*arguments); });
}

}  // namespace

void add_data_questions(Command& group);

void add_data(Command& program) {
  Command group = program.add_group("data", "prepare, check, show and clean up training data",
                                    {{"make it", "data prepare recipes/first-run.toml"},
                                     {"check it", "data verify ~/.cache/longhaul"},
                                     {"how much there is", "data show ~/.cache/longhaul"}});
  add_prepare(group);
  add_verify_data(group);
  add_show_data(group);
  add_data_questions(group);
  add_clean(group);
}

}  // namespace longhaul::cli
