// `longhaul puzzles`: puzzles with proved answers, made from a seed, and the verdicts on what is answered.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/checksum.h"
#include "base/file.h"
#include "base/path_text.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"
#include "puzzles/engine/answer.h"
#include "puzzles/maker.h"
#include "puzzles/records.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

namespace pz = longhaul::puzzles;

struct PuzzleArguments {
  std::vector<std::string> tasks, knobs;
  std::string task, out, file, answers, language = "en";
  int64_t level = 3, count = 100, index = 0;
  uint64_t seed = 0;
  bool json = false, solution = false, validation = false;
};

pz::Language language_of(const std::string& name) { return name == "zh" ? pz::Language::kChinese : pz::Language::kEnglish; }

std::string_view uniqueness_text(pz::Uniqueness uniqueness) {
  switch (uniqueness) {
    case pz::Uniqueness::kProved:
      return "one, proved";
    case pz::Uniqueness::kComputed:
      return "one, computed";
    case pz::Uniqueness::kAny:
      return "any valid one";
  }
  return "";
}

// "clues_percent=40" → changes of the level's knobs.
pz::KnobValues knobs_of(const pz::TaskEntry& task, const PuzzleArguments& arguments) {
  std::map<std::string, int64_t, std::less<>> changes;
  for (const std::string& word : arguments.knobs) {
    const size_t equals = word.find('=');
    int64_t value = 0;
    std::istringstream digits(equals == std::string::npos ? "" : word.substr(equals + 1));
    if (!(digits >> value) || !digits.eof())
      throw Error({.code = ExitCode::kUsage,
                   .what = "a knob is not understood",
                   .expected = "NAME=NUMBER",
                   .found = brief(printable(word)),
                   .where = "--knob"});
    changes[word.substr(0, equals)] = value;
  }
  return pz::with_changes(task.knobs, pz::at_level(task.knobs, arguments.level), changes);
}

uint64_t seed_of(const PuzzleArguments& arguments) {
  if (arguments.seed >= pz::kValidationSeeds)
    throw Error({.code = ExitCode::kUsage,
                 .what = "the seed is too large",
                 .expected = "less than 2^63: larger ones are those of --validation",
                 .where = "--seed"});
  return arguments.seed | (arguments.validation ? pz::kValidationSeeds : 0);
}

nlohmann::ordered_json json_of(const pz::TaskEntry& task) {
  nlohmann::ordered_json knobs = nlohmann::ordered_json::array();
  for (const pz::Knob& knob : task.knobs) {
    knobs.push_back({{"name", knob.name},
                     {"least", knob.least},
                     {"most", knob.most},
                     {"level_0", knob.easiest},
                     {"level_10", knob.hardest},
                     {"says", knob.says}});
  }
  return {
      {"key", task.key}, {"title", task.title}, {"version", task.version}, {"answer", uniqueness_text(task.uniqueness)}, {"knobs", knobs}};
}

ExitCode list_tasks(const PuzzleArguments& arguments) {
  if (arguments.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const pz::TaskEntry* task : pz::tasks()) {
      if (arguments.task.empty() || task == &pz::task_named(arguments.task)) all.push_back(json_of(*task));
    }
    print_json(all);
    return ExitCode::kDone;
  }
  if (arguments.task.empty()) {
    observe::Table table("puzzles", {{"key"}, {"puzzle"}, {"answer"}, {"knobs"}});
    for (const pz::TaskEntry* task : pz::tasks()) {
      std::vector<std::string_view> names;
      for (const pz::Knob& knob : task->knobs) names.push_back(knob.name);
      table.row({std::string(task->key), std::string(task->title), std::string(uniqueness_text(task->uniqueness)),
                 fmt::format("{}", fmt::join(names, ", "))});
    }
    print(table.text(colours_wanted(stdout)));
    return ExitCode::kDone;
  }
  const pz::TaskEntry& task = pz::task_named(arguments.task);
  observe::Table table(fmt::format("{}: {}", task.key, task.title), {{"knob"},
                                                                     {"level 0", observe::Align::kRight},
                                                                     {"level 10", observe::Align::kRight},
                                                                     {"may be", observe::Align::kRight},
                                                                     {"what it is"}});
  for (const pz::Knob& knob : task.knobs) {
    table.row({std::string(knob.name), std::to_string(knob.easiest), std::to_string(knob.hardest),
               fmt::format("{} to {}", knob.least, knob.most), std::string(knob.says)});
  }
  print(table.text(colours_wanted(stdout)));
  return ExitCode::kDone;
}

ExitCode show_puzzle(const PuzzleArguments& arguments) {
  const pz::TaskEntry& task = pz::task_named(arguments.task);
  const pz::KnobValues knobs = knobs_of(task, arguments);
  const uint64_t seed = seed_of(arguments);
  const std::optional<pz::MadePuzzle> made = pz::make_puzzle(task, knobs, seed, arguments.index);
  if (!made)
    throw Error({.code = ExitCode::kUsage,
                 .what = "with these knobs this index has no puzzle",
                 .hint = "take another --index, another level, or other knobs"});
  const pz::RecordOf of{&task, knobs, arguments.knobs.empty() ? arguments.level : -1, seed, language_of(arguments.language)};
  if (arguments.json) {
    print_json(pz::to_record(*made, of));
    return ExitCode::kDone;
  }
  const pz::Puzzle puzzle = pz::puzzle_in(task, made->puzzle, of.language);
  print(task.prompt(puzzle.given, of.language, pz::template_of(arguments.index)) + "\n");
  if (arguments.solution) print("\nSolution: " + puzzle.solution + "\n");
  return ExitCode::kDone;
}

void refuse_other_than_lines(const std::string& out) {
  if (!out.ends_with(".jsonl"))
    throw Error({.code = ExitCode::kUsage, .what = "only JSON Lines can be written", .expected = "--out FILE.jsonl", .found = out});
}

// Puzzles of public files of a task as records in English. Nothing is proved of them, and no seed makes them again.
ExitCode import_puzzles(const PuzzleArguments& arguments) {
  refuse_other_than_lines(arguments.out);
  const pz::TaskEntry& task = pz::task_named(arguments.task);
  if (task.read_public_file == nullptr) {
    std::vector<std::string_view> known;
    for (const pz::TaskEntry* each : pz::tasks()) {
      if (each->read_public_file != nullptr) known.push_back(each->key);
    }
    throw Error({.code = ExitCode::kUsage,
                 .what = fmt::format("no public files of {} are known", task.key),
                 .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                 .found = std::string(task.key),
                 .hint = "longhaul puzzles generate makes puzzles of every task"});
  }
  std::string lines;
  int64_t index = 0;
  const std::filesystem::path from = path_of_text(arguments.file);
  for (const std::filesystem::path& file : std::filesystem::is_directory(from) ? list_files(from) : std::vector{from}) {
    if (file != from && file.extension() != ".json" && file.extension() != ".jsonl") continue;
    for (pz::Puzzle& puzzle : task.read_public_file(read_text(file), file.string())) {
      pz::MadePuzzle made{.puzzle = std::move(puzzle), .index = index++};
      made.hash = xxh3(task.canonical(made.puzzle.given));
      nlohmann::ordered_json record = pz::to_record(made, {.task = &task});
      record["n_solutions"] = 0;
      lines += record.dump() + "\n";
    }
  }
  write_text_atomically(path_of_text(arguments.out), lines);
  print(fmt::format("{} in {}\n", counted(index, "puzzle"), arguments.out));
  return ExitCode::kDone;
}

ExitCode generate_puzzles(const PuzzleArguments& arguments) {
  refuse_other_than_lines(arguments.out);
  std::string lines;
  const uint64_t seed = seed_of(arguments);
  for (const std::string& name : arguments.tasks) {
    const pz::TaskEntry& task = pz::task_named(name);
    const pz::KnobValues knobs = knobs_of(task, arguments);
    const pz::RecordOf of{&task, knobs, arguments.knobs.empty() ? arguments.level : -1, seed, language_of(arguments.language)};
    Progress progress(std::string(task.key), arguments.count);
    int64_t told = 0;
    const auto made = pz::make_puzzles({.task = &task, .knobs = knobs, .seed = seed, .count = arguments.count}, [&](int64_t so_far) {
      progress.advance(so_far - told);
      told = so_far;
    });
    for (const pz::MadePuzzle& one : made) lines += pz::to_record(one, of).dump() + "\n";
  }
  write_text_atomically(path_of_text(arguments.out), lines);
  print(fmt::format("{} in {}\n", counted(arguments.count * static_cast<int64_t>(arguments.tasks.size()), "puzzle"), arguments.out));
  return ExitCode::kDone;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_text(path_of_text(path)));
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line != "\r") lines.push_back(line);
  }
  return lines;
}

// A line of answers: a JSON text, or an object with "response".
std::string response_of(const std::string& line, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object() && json.contains("response") && json["response"].is_string()) return json["response"].get<std::string>();
  throw Error({.code = ExitCode::kData,
               .what = "unusable line of answers",
               .expected = "a JSON text, or {\"response\": \"…\"}: all that was answered, tags included",
               .found = brief(printable(line)),
               .where = where});
}

ExitCode verify_answers(const PuzzleArguments& arguments) {
  const std::vector<std::string> puzzles = lines_of(arguments.file), answers = lines_of(arguments.answers);
  if (puzzles.size() != answers.size())
    throw Error(
        {.code = ExitCode::kData,
         .what = "puzzles and answers do not belong together",
         .expected = fmt::format("{}, one for each puzzle of {}", counted(static_cast<int64_t>(puzzles.size()), "answer"), arguments.file),
         .found = fmt::format("{}", answers.size()),
         .where = arguments.answers});
  struct Tally {
    int64_t puzzles = 0, accepted = 0, format = 0;
    std::map<std::string_view, int64_t> codes;
  };
  std::map<std::string, Tally> tallies;
  nlohmann::ordered_json verdicts = nlohmann::ordered_json::array();
  for (size_t i = 0; i < puzzles.size(); ++i) {
    const pz::ReadRecord record = pz::read_record(puzzles[i], fmt::format("{}:{}", arguments.file, i + 1));
    const std::string response = response_of(answers[i], fmt::format("{}:{}", arguments.answers, i + 1));
    const std::optional<std::string> payload = pz::payload_of(response);
    const pz::Verdict verdict = payload ? record.task->verify(record.given, *payload)
                                        : pz::Verdict{pz::VerdictCode::kNoPayload, "no text between the tags <answer> and </answer>"};
    Tally& tally = tallies[std::string(record.task->key)];
    ++tally.puzzles;
    tally.accepted += verdict.accepted() ? 1 : 0;
    tally.format += pz::has_strict_format(response) ? 1 : 0;
    ++tally.codes[pz::name_of(verdict.code)];
    verdicts.push_back(
        {{"task", record.task->key}, {"accepted", verdict.accepted()}, {"code", pz::name_of(verdict.code)}, {"text", verdict.text}});
  }
  if (arguments.json) {
    print_json(verdicts);
    return ExitCode::kDone;
  }
  observe::Table table("verdicts", {{"task"},
                                    {"puzzles", observe::Align::kRight},
                                    {"accepted", observe::Align::kRight},
                                    {"strict format", observe::Align::kRight},
                                    {"others"}});
  for (const auto& [key, tally] : tallies) {
    std::vector<std::string> others;
    for (const auto& [code, count] : tally.codes) {
      if (code != pz::name_of(pz::VerdictCode::kAccepted)) others.push_back(fmt::format("{} {}", count, code));
    }
    table.row({key, std::to_string(tally.puzzles), std::to_string(tally.accepted), std::to_string(tally.format),
               fmt::format("{}", fmt::join(others, ", "))});
  }
  print(table.text(colours_wanted(stdout)));
  return ExitCode::kDone;
}

void add_making(Command& command, PuzzleArguments& arguments) {
  command.option("--level", arguments.level, "0 (easiest) to 10 (hardest)").at_least(0).at_most(10).default_shown();
  command.option("--knob", arguments.knobs, "NAME=NUMBER: another value than the level's; may be repeated").one_each();
  command.option("--seed", arguments.seed, "which puzzles").default_shown();
  command.flag("--validation", arguments.validation, "of the seeds that no training set can have");
  command.option("--language", arguments.language, "of the prompts").one_of({"en", "zh"}).default_shown();
}

}  // namespace

void add_puzzles(Command& program) {
  Command group = program.add_group("puzzles", "logic puzzles with proved answers, and the verdicts on what is answered",
                                    {{"what there is", "puzzles list"},
                                     {"one to look at", "puzzles show sudoku --level 2 --solution"},
                                     {"a thousand to train on", "puzzles generate sudoku kukurasu --count 500 --out puzzles.jsonl"}});
  auto arguments = std::make_shared<PuzzleArguments>();
  Command list =
      group.add("list", "the tasks, or the knobs of one",
                {{"all tasks", "puzzles list"}, {"the knobs of one", "puzzles list sudoku"}, {"for a script", "puzzles list --json"}});
  list.option("TASK", arguments->task, "a key of the list");
  list.json_flag(arguments->json);
  list.on_run([arguments] { return list_tasks(*arguments); });

  Command show = group.add("show", "one puzzle as a model is asked it",
                           {{"with its solution", "puzzles show mathador --solution"},
                            {"another one, in Chinese", "puzzles show kukurasu --index 5 --language zh"},
                            {"with few clues, as a record", "puzzles show sudoku --knob clues_percent=32 --json"}});
  show.option("TASK", arguments->task, "a key of `puzzles list`").required();
  add_making(show, *arguments);
  show.option("--index", arguments->index, "which puzzle of the seed").at_least(0).default_shown();
  show.flag("--solution", arguments->solution, "print it too");
  show.json_flag(arguments->json, "print the record that generate writes");
  show.on_run([arguments] { return show_puzzle(*arguments); });

  Command generate = group.add("generate", "puzzles of some tasks as JSON Lines",
                               {{"a hundred", "puzzles generate sudoku --out sudoku.jsonl"},
                                {"harder ones of two tasks", "puzzles generate sudoku kukurasu --level 6 --count 1000 --out hard.jsonl"},
                                {"to test on", "puzzles generate mathador --validation --count 50 --out test.jsonl"}});
  generate.option("TASK", arguments->tasks, "keys of `puzzles list`").required();
  add_making(generate, *arguments);
  generate.option("--count", arguments->count, "puzzles of each task").at_least(1).at_most(10000000).default_shown();
  generate.option("--out", arguments->out, "the file to write: FILE.jsonl").required();
  generate.on_run([arguments] { return generate_puzzles(*arguments); });

  Command importing = group.add("import", "puzzles of public files of a task as JSON Lines, in English",
                                {{"ZebraLogic", "puzzles import zebra_puzzle grid_mode.json --out zebra.jsonl"},
                                 {"all files of a folder", "puzzles import zebra_puzzle FOLDER --out zebra.jsonl"},
                                 {"puzzles of our own", "puzzles generate zebra_puzzle --out zebra.jsonl"}});
  importing.option("TASK", arguments->task, "the task that they belong to").required();
  importing.option("FILE", arguments->file, "a .json or .jsonl file, or a folder of them").required();
  importing.option("--out", arguments->out, "the file to write: FILE.jsonl").required();
  importing.on_run([arguments] { return import_puzzles(*arguments); });

  Command verify = group.add("verify", "verdicts on answers to puzzles of a file",
                             {{"a table", "puzzles verify puzzles.jsonl --answers answers.jsonl"},
                              {"one verdict a puzzle", "puzzles verify puzzles.jsonl --answers answers.jsonl --json"},
                              {"puzzles to answer", "puzzles generate sudoku --out puzzles.jsonl"}});
  verify.option("FILE", arguments->file, "JSON Lines that `puzzles generate` wrote").required();
  verify.option("--answers", arguments->answers, "JSON Lines: what was answered to each, in order, as a text or {\"response\": …}")
      .required();
  verify.json_flag(arguments->json);
  verify.on_run([arguments] { return verify_answers(*arguments); });
}

}  // namespace longhaul::cli
