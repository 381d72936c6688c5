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
#include "base/files/file.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "data/tokenizer/commands.h"
#include "recipe/sections/data_options.h"

namespace longhaul::cli {
namespace {

struct TokenizerArguments {
  std::string tokenizer, out, jsonl_field = recipe::DataOptions{}.jsonl_field;
  std::vector<std::string> paths;
  int64_t vocabulary = 8192;
  bool json = false, special = false;
};

void add_train_tokenizer(Command& group) {
  auto arguments = std::make_shared<TokenizerArguments>();
  Command train = group.add(
      "train", "byte-level BPE trained on files and folders",
      {{"8,192 entries from a folder", "tokenizer train --vocabulary 8192 --out tokenizer.json texts/"},
       {"from compressed JSON Lines",
        "tokenizer train --vocabulary 32000 --out tokenizer.json pages.jsonl.zst"},
       {"the figures, for a script",
        "tokenizer train --vocabulary 8192 --out tokenizer.json texts/ --json"}});
  train.option("--vocabulary", arguments->vocabulary, "entries in all: special tokens, 256 bytes and merges")
      .required()
      .at_least(257)
      .at_most(1 << 24);
  train.option("--out", arguments->out, "where to write tokenizer.json").required();
  train
      .option("--jsonl-field", arguments->jsonl_field, "key that holds the text of a document in JSONL files")
      .default_shown();
  train.option("PATH", arguments->paths, "files and folders of text or JSONL, compressed or not").required();
  train.json_flag(arguments->json);
  train.on_run([arguments] {
    const data::TrainReport report = data::train_tokenizer_on_paths(
        arguments->paths, arguments->jsonl_field, arguments->out, {.vocabulary = arguments->vocabulary});
    if (arguments->json) {
      print_json({{"out", arguments->out},
                  {"vocabulary", report.vocabulary},
                  {"files", report.files},
                  {"bytes", report.bytes},
                  {"seconds", report.seconds}});
    } else {
      print(fmt::format("{}: {} from {}, {} in {}\n", arguments->out,
                        counted(report.vocabulary, "entry", "entries"), counted(report.files, "file"),
                        bytes_text(report.bytes), duration_text(report.seconds)));
    }
    return ExitCode::kDone;
  });
}

void add_encode(Command& group) {
  auto arguments = std::make_shared<TokenizerArguments>();
  Command encode =
      group.add("encode", "files as token ids, one line a file",
                {{"ids separated by spaces", "tokenizer encode tokenizer.json story.txt"},
                 {"one JSON object a file", "tokenizer encode tokenizer.json a.txt b.txt --json"},
                 {"as a model is prompted, begin-of-text and all",
                  "tokenizer encode tokenizer.json prompt.txt --special"}});
  encode.option("TOKENIZER", arguments->tokenizer, "a tokenizer.json, or the word bytes").required();
  encode.option("FILE", arguments->paths, "files to encode").required();
  encode.flag("--special", arguments->special, "add the special tokens the tokenizer puts around a text");
  encode.json_flag(arguments->json, "print {\"file\": …, \"ids\": […]}, one line a file");
  encode.on_run([arguments] {
    data::write_encoded_files(data::open_tokenizer(arguments->tokenizer),
                              {arguments->paths.begin(), arguments->paths.end()}, arguments->json,
                              arguments->special, [](std::string_view text) { print(text); });
    return ExitCode::kDone;
  });
}

// An id below 0 is one too: what is wrong with it is said of ids, not of files.
bool is_number(const std::string& word) {
  const size_t first = word.starts_with('-') ? 1 : 0;
  return word.size() > first && std::all_of(word.begin() + static_cast<ptrdiff_t>(first), word.end(),
                                            [](char c) { return (c >= '0' && c <= '9') || c == ','; });
}

// Ids typed as arguments, in a file, or on standard input ("-" or nothing).
std::vector<int32_t> ids_of(const std::vector<std::string>& words) {
  if (words.empty() || (words.size() == 1 && words[0] == "-")) {
    const std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
    return data::read_ids(text, "standard input");
  }
  if (words.size() == 1 && !is_number(words[0]) && words[0][0] != '[')
    return data::read_ids(read_text(words[0]), words[0]);
  return data::read_ids(fmt::format("{}", fmt::join(words, " ")), "the command line");
}

void add_decode(Command& group) {
  auto arguments = std::make_shared<TokenizerArguments>();
  Command decode = group.add("decode", "token ids as text",
                             {{"ids as arguments", "tokenizer decode tokenizer.json 15496 995"},
                              {"ids in a file", "tokenizer decode tokenizer.json ids.json"},
                              {"there and back", "tokenizer encode tokenizer.json a.txt | " +
                                                     program_command("tokenizer decode tokenizer.json -")}});
  decode.option("TOKENIZER", arguments->tokenizer, "a tokenizer.json, or the word bytes").required();
  decode.option("IDS", arguments->paths, "ids, one file of ids, or - for standard input");
  decode.json_flag(arguments->json, "print {\"text\": …}; bytes that are not UTF-8 become U+FFFD");
  decode.on_run([arguments] {
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

void add_tokenizer(Command& program) {
  Command group =
      program.add_group("tokenizer", "train a tokenizer; text to ids and back",
                        {{"train one", "tokenizer train --vocabulary 8192 --out tokenizer.json texts/"},
                         {"text to ids", "tokenizer encode tokenizer.json story.txt --json"},
                         {"ids to text", "tokenizer decode tokenizer.json 15496 995"}});
  add_train_tokenizer(group);
  add_encode(group);
  add_decode(group);
}

}  // namespace longhaul::cli
