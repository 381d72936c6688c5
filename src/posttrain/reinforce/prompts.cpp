#include "posttrain/reinforce/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/random.h"
#include "base/text/json.h"
#include "base/text/number.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "puzzles/maker.h"
#include "puzzles/tasks.h"

namespace longhaul::posttrain {
namespace {

constexpr JsonRules kPromptRules = {.code = ExitCode::kData,
                                    .what = "unusable prompt",
                                    .hint = "docs/guides/reinforcement.md#prompts says what a line holds",
                                    .string_bytes = size_t{16} << 20};

bool compares(const ReinforceOptions& options) {
  return std::ranges::any_of(options.reward, [](const RewardPart& part) {
    return part.name == "exact" || part.name == "prefix" || part.name == "regex";
  });
}

std::map<std::string, int64_t, std::less<>> knobs_of(const std::string& text) {
  std::map<std::string, int64_t, std::less<>> knobs;
  for (const std::string_view item : recipe::split_at_commas(text)) {
    const size_t sign = item.find('=');
    const std::optional<int64_t> value =
        parse_number<int64_t>(sign == std::string_view::npos ? "" : item.substr(sign + 1));
    if (!value) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "a knob is no NAME=NUMBER",
                   .expected = "kinds=1,length=6",
                   .found = std::string(item),
                   .where = "reinforce.knobs",
                   .hint = "longhaul puzzles list NAME shows the knobs of a puzzle"});
    }
    knobs.emplace(std::string(item.substr(0, sign)), *value);
  }
  return knobs;
}

std::string text_of(const JsonView& line, const char* name, const char* other) {
  for (const char* const key : {name, other}) {
    if (line.has(key)) return line.at(key).string();
  }
  return "";
}

}  // namespace

std::vector<Prompts::Line> Prompts::read_file(const std::string& path, const ReinforceOptions& options) {
  const std::string text = read_text(path_of_text(path));
  std::vector<Line> lines;
  int64_t number = 0;
  for (const std::string_view piece : split(text, '\n')) {
    ++number;
    const std::string row(trimmed(piece));
    if (row.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    const nlohmann::json json = parse_json(row, where, kPromptRules);
    const JsonView view(json, where, kPromptRules);
    Line line{.prompt = view.at("prompt").string(),
              .answer = text_of(view, "answer", "completion"),
              .task = "prompts"};
    if (view.has("task")) line.task = view.at("task").string();
    if (compares(options) && line.answer.empty()) {
      throw Error({.code = ExitCode::kData,
                   .what = "a prompt has no answer to compare with",
                   .expected = "\"answer\": a text that is not empty",
                   .found = row.substr(0, 80),
                   .where = where,
                   .hint = "give it one, or judge by another reward: reinforce.reward='[\"program\"]'"});
    }
    lines.push_back(std::move(line));
  }
  if (!lines.empty()) return lines;
  throw Error({.code = ExitCode::kData,
               .what = "a file of prompts has none",
               .expected = "a JSON object a line",
               .where = path});
}

std::optional<Prompts::Sizes> Prompts::sizes_of(const ReinforceOptions& options) {
  if (options.prompts_file.empty()) return std::nullopt;
  size_t bytes = 0, held_out = 0;
  for (const std::string* const path : {&options.prompts_file, &options.held_out_file}) {
    if (path->empty()) continue;
    if (!std::filesystem::exists(path_of_text(*path))) return std::nullopt;
    const std::vector<Line> lines = read_file(*path, options);
    held_out = lines.size();
    for (const Line& line : lines) bytes = std::max(bytes, line.prompt.size());
  }
  return Sizes{.most_tokens = static_cast<int64_t>(bytes + options.instruction.size()) + 1,
               .held_out = static_cast<int64_t>(held_out)};
}

void Prompts::read_puzzles() {
  knobs_ = knobs_of(options_.knobs);
  for (const std::string& text : options_.puzzles) {
    const size_t colon = text.rfind(':');
    PuzzleChoice choice{.task = &puzzles::task_named(text.substr(0, colon)), .level = options_.level};
    if (colon != std::string::npos) {
      choice.level =
          parse_number<decltype(choice.level)>(std::string_view(text).substr(colon + 1)).value_or(-1);
      if (choice.level < 0 || choice.level > puzzles::kHardestLevel) {
        throw Error({.code = ExitCode::kUsage,
                     .what = "a puzzle has no such level",
                     .expected = fmt::format("NAME:LEVEL with a level from 0 to {}", puzzles::kHardestLevel),
                     .found = text,
                     .where = "reinforce.puzzles",
                     .hint = "reinforce.puzzles='[\"sudoku:0\"]'"});
      }
    }
    puzzles::with_changes(choice.task->knobs, puzzles::at_level(choice.task->knobs, choice.level), knobs_);
    puzzles_.push_back(choice);
  }
}

Prompts::Prompts(const ReinforceOptions& options, const data::Tokenizer& tokenizer, int64_t longest)
    : options_(options), tokenizer_(tokenizer), longest_(longest) {
  if (!options.instruction.empty() && options.instruction.find("{prompt}") == std::string::npos) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the text around prompts has no place for them",
                 .expected = "{prompt} in it",
                 .found = options.instruction.substr(0, 80),
                 .where = "reinforce.instruction",
                 .hint = "reinforce.instruction='Question: {prompt} Answer:'"});
  }
  if (options.prompts_file.empty()) {
    read_puzzles();
    return;
  }
  lines_ = read_file(options.prompts_file, options);
  if (!options.held_out_file.empty()) held_out_lines_ = read_file(options.held_out_file, options);
  std::string all;
  for (const Line& line : lines_) all += line.prompt + '\0' + line.answer + '\0' + line.task + '\n';
  fingerprint_ = fmt::format("{:016x}", xxh3(all));
  if (std::ssize(lines_) >= options.prompts) return;
  throw Error(
      {.code = ExitCode::kData,
       .what = "a rollout batch asks for more prompts than there are",
       .expected = fmt::format("at least {} prompts", options.prompts),
       .found = std::to_string(lines_.size()),
       .where = options.prompts_file,
       .hint = fmt::format("reinforce.prompts={}", lines_.size() / static_cast<size_t>(options.updates) *
                                                       static_cast<size_t>(options.updates))});
}

Prompt Prompts::finished(Prompt prompt) const {
  if (!options_.instruction.empty()) {
    std::string whole = options_.instruction;
    whole.replace(whole.find("{prompt}"), std::string_view("{prompt}").size(), prompt.text);
    prompt.text = std::move(whole);
  }
  const std::vector<int32_t> ids = tokenizer_.encode_prompt(prompt.text);
  prompt.ids.assign(ids.begin(), ids.end());
  if (std::ssize(ids) <= longest_) return prompt;
  throw Error({.code = ExitCode::kData,
               .what = "a prompt and its answer do not fit into a row of the trainer",
               .expected = fmt::format("at most train.sequence + 1 - reinforce.tokens = {} tokens", longest_),
               .found = fmt::format("{} tokens: {}…", ids.size(), prompt.text.substr(0, 60)),
               .where = fmt::format("prompt {}", prompt.number),
               .hint = fmt::format("train.sequence={}", std::ssize(ids) + options_.tokens)});
}

Prompt Prompts::of_line(const Line& line, int64_t number) const {
  return finished({.number = number, .text = line.prompt, .task = line.task, .answer = line.answer});
}

Prompt Prompts::of_puzzle(int64_t number, const PuzzleChoice& choice, uint64_t seed) const {
  const puzzles::KnobValues knobs =
      puzzles::with_changes(choice.task->knobs, puzzles::at_level(choice.task->knobs, choice.level), knobs_);
  const auto made = puzzles::make_puzzle(*choice.task, knobs, seed, number);
  if (!made) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is no such puzzle: a thousand attempts to make one failed",
                 .found = fmt::format("{} at level {}", choice.task->key, choice.level),
                 .where = "reinforce.puzzles and reinforce.knobs",
                 .hint = "another level, or fewer knobs"});
  }
  const nlohmann::json record =
      puzzles::to_record(*made, {.task = choice.task, .knobs = knobs, .level = choice.level, .seed = seed});
  return finished({.number = number,
                   .text = record["prompt"][0]["content"].get<std::string>(),
                   .task = std::string(choice.task->key),
                   .level = choice.level,
                   .answer = made->puzzle.solution,
                   .puzzle = puzzles::read_row(record, fmt::format("puzzle {}", number))});
}

Prompt Prompts::prompt(int64_t number, const puzzles::LevelMixture* levels) const {
  if (!lines_.empty()) {
    const auto size = static_cast<uint64_t>(lines_.size());
    const RandomStream order(options_.seed,
                             fmt::format("reinforce/pass-{}", static_cast<uint64_t>(number) / size));
    return of_line(lines_[permutation_at(order, size, static_cast<uint64_t>(number) % size)], number);
  }
  PuzzleChoice choice = puzzles_[static_cast<size_t>(number) % puzzles_.size()];
  if (levels != nullptr) {
    const std::vector<double> weights = levels->weights(choice.task->key);
    double left = RandomStream(options_.seed, "reinforce/levels").uniform(static_cast<uint64_t>(number));
    choice.level = 0;
    while (choice.level < puzzles::kHardestLevel && left >= weights[static_cast<size_t>(choice.level)]) {
      left -= weights[static_cast<size_t>(choice.level++)];
    }
    choice.level = std::min(choice.level, levels->hardest_open(choice.task->key));
  }
  return of_puzzle(number, choice, options_.seed);
}

Prompt Prompts::again(int64_t number, int64_t level) const {
  if (!lines_.empty()) return prompt(number);
  PuzzleChoice choice = puzzles_[static_cast<size_t>(number) % puzzles_.size()];
  choice.level = level;
  return of_puzzle(number, choice, options_.seed);
}

Prompt Prompts::held_out(int64_t number) const {
  const std::vector<Line>& lines = held_out_lines_.empty() ? lines_ : held_out_lines_;
  if (!lines.empty()) return of_line(lines[static_cast<size_t>(number) % lines.size()], number);
  return of_puzzle(number, puzzles_[static_cast<size_t>(number) % puzzles_.size()],
                   puzzles::kValidationSeeds | options_.seed);
}

int64_t Prompts::held_out_count() const {
  return std::ssize(held_out_lines_.empty() ? lines_ : held_out_lines_);
}

std::vector<std::string> Prompts::tasks() const {
  std::set<std::string> names;
  for (const Line& line : lines_) names.insert(line.task);
  for (const PuzzleChoice& choice : puzzles_) names.insert(std::string(choice.task->key));
  return {names.begin(), names.end()};
}

nlohmann::json Prompts::position(int64_t next) const {
  nlohmann::json position = {{"next_prompt", next}, {"seed", options_.seed}};
  if (!lines_.empty())
    return position.update({{"prompts", lines_.size()}, {"fingerprint", fingerprint_}}), position;
  nlohmann::json versions = nlohmann::json::object();
  for (const PuzzleChoice& choice : puzzles_) versions[std::string(choice.task->key)] = choice.task->version;
  position["puzzles"] = versions;
  return position;
}

}  // namespace longhaul::posttrain
