// `longhaul tokenizer`: train one, and turn text into ids and back.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "cli/command.h"
#include "data/tokenizer/commands.h"

namespace longhaul::cli {
namespace {

struct Arguments {
  std::string tokenizer, out;
  std::vector<std::string> paths;
  int64_t vocabulary = 8192;
  bool json = false, special = false;
};

void add_train_tokenizer(CLI::App& group, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* train = add_command(group, "train", "byte-level BPE trained on files and folders",
                                {{"8,192 entries from a folder", "tokenizer train --vocabulary 8192 --out tokenizer.json texts/"},
                                 {"from compressed JSON Lines", "tokenizer train --vocabulary 32000 --out tokenizer.json pages.jsonl.zst"},
                                 {"the figures, for a script", "tokenizer train --vocabulary 8192 --out tokenizer.json texts/ --json"}});
  train->add_option("--vocabulary", arguments->vocabulary, "entries in all: special tokens, 256 bytes and merges")
      ->required()
      ->check(CLI::Range(int64_t{257}, int64_t{1} << 24));
  train->add_option("--out", arguments->out, "where to write tokenizer.json")->required();
  train->add_option("PATH", arguments->paths, "files and folders of text or JSONL, compressed or not")->required();
  add_json_flag(train, arguments->json);
  on_run(train, command, [arguments] {
    const data::TrainReport report =
        data::train_tokenizer_on_paths(arguments->paths, arguments->out, {.vocabulary = arguments->vocabulary});
    if (arguments->json) {
      print_json({{"out", arguments->out},
                  {"vocabulary", report.vocabulary},
                  {"files", report.files},
                  {"bytes", report.bytes},
                  {"seconds", report.seconds}});
    } else {
      print(fmt::format("{}: {} entries from {} files, {} in {}\n", arguments->out, count_text(report.vocabulary), count_text(report.files),
                        bytes_text(report.bytes), duration_text(report.seconds)));
    }
    return ExitCode::kDone;
  });
}

void add_encode(CLI::App& group, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* encode =
      add_command(group, "encode", "files as token ids, one line a file",
                  {{"ids separated by spaces", "tokenizer encode tokenizer.json story.txt"},
                   {"one JSON object a file", "tokenizer encode tokenizer.json a.txt b.txt --json"},
                   {"as a model is prompted, begin-of-text and all", "tokenizer encode tokenizer.json prompt.txt --special"}});
  encode->add_option("TOKENIZER", arguments->tokenizer, "a tokenizer.json, or the word bytes")->required();
  encode->add_option("FILE", arguments->paths, "files to encode")->required();
  encode->add_flag("--special", arguments->special, "add the special tokens the tokenizer puts around a text");
  add_json_flag(encode, arguments->json, "print {\"file\": …, \"ids\": […]}, one line a file");
  on_run(encode, command, [arguments] {
    data::write_encoded_files(data::open_tokenizer(arguments->tokenizer), {arguments->paths.begin(), arguments->paths.end()},
                              arguments->json, arguments->special, [](std::string_view text) { print(text); });
    return ExitCode::kDone;
  });
}

bool is_number(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return (c >= '0' && c <= '9') || c == ','; });
}

// Ids typed as arguments, in a file, or on standard input ("-" or nothing).
std::vector<int32_t> ids_of(const std::vector<std::string>& words) {
  if (words.empty() || (words.size() == 1 && words[0] == "-")) {
    const std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
    return data::read_ids(text, "standard input");
  }
  if (words.size() == 1 && !is_number(words[0]) && words[0][0] != '[') return data::read_ids(read_text(words[0]), words[0]);
  return data::read_ids(fmt::format("{}", fmt::join(words, " ")), "the command line");
}

void add_decode(CLI::App& group, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* decode =
      add_command(group, "decode", "token ids as text",
                  {{"ids as arguments", "tokenizer decode tokenizer.json 15496 995"},
                   {"ids in a file", "tokenizer decode tokenizer.json ids.json"},
                   {"there and back", "tokenizer encode tokenizer.json a.txt | longhaul tokenizer decode tokenizer.json -"}});
  decode->add_option("TOKENIZER", arguments->tokenizer, "a tokenizer.json, or the word bytes")->required();
  decode->add_option("IDS", arguments->paths, "ids, one file of ids, or - for standard input");
  add_json_flag(decode, arguments->json, "print {\"text\": …}; bytes that are not UTF-8 become U+FFFD");
  on_run(decode, command, [arguments] {
    const data::Tokenizer tokenizer = data::open_tokenizer(arguments->tokenizer);
    const std::string text = tokenizer.decode(ids_of(arguments->paths));
    if (arguments->json) {
      print_json({{"text", text}});
    } else {
      print(text);
    }
    return ExitCode::kDone;
  });
}

}  // namespace

void add_tokenizer(CLI::App& program, Command& command) {
  CLI::App* group = add_command_group(program, "tokenizer", "train a tokenizer; text to ids and back",
                                      {{"train one", "tokenizer train --vocabulary 8192 --out tokenizer.json texts/"},
                                       {"text to ids", "tokenizer encode tokenizer.json story.txt --json"},
                                       {"ids to text", "tokenizer decode tokenizer.json 15496 995"}});
  add_train_tokenizer(*group, command);
  add_encode(*group, command);
  add_decode(*group, command);
}

}  // namespace longhaul::cli
