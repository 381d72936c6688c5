#include "cli/puzzles/making.h"

#include <map>
#include <sstream>

#include "base/text/text.h"
#include "puzzles/maker.h"

namespace longhaul::cli {

void add_making(Command& command, MakingArguments& arguments) {
  command.option("--level", arguments.level, "0 (easiest) to 10 (hardest)")
      .at_least(0)
      .at_most(10)
      .default_shown();
  command.option("--knob", arguments.knobs, "NAME=NUMBER: another value than the level's; may be repeated")
      .one_each();
  command.option("--seed", arguments.seed, "which puzzles").default_shown();
  command.flag("--validation", arguments.validation, "of the seeds that no training set can have");
  command.option("--language", arguments.language, "of the prompts").one_of({"en", "zh"}).default_shown();
}

puzzles::Language language_named(const std::string& name) {
  return name == "zh" ? puzzles::Language::kChinese : puzzles::Language::kEnglish;
}

puzzles::KnobValues knobs_of(const puzzles::TaskEntry& task, const MakingArguments& arguments) {
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
  return puzzles::with_changes(task.knobs, puzzles::at_level(task.knobs, arguments.level), changes);
}

uint64_t seed_of(const MakingArguments& arguments) {
  if (arguments.seed >= puzzles::kValidationSeeds)
    throw Error({.code = ExitCode::kUsage,
                 .what = "the seed is too large",
                 .expected = "less than 2^63: larger ones are those of --validation",
                 .where = "--seed"});
  return arguments.seed | (arguments.validation ? puzzles::kValidationSeeds : 0);
}

puzzles::RecordOf record_of(const puzzles::TaskEntry& task, const MakingArguments& arguments) {
  return {&task, knobs_of(task, arguments), arguments.knobs.empty() ? arguments.level : -1,
          seed_of(arguments), language_named(arguments.language)};
}

puzzles::MadePuzzle puzzle_at(const puzzles::RecordOf& of, int64_t index) {
  if (auto made = puzzles::make_puzzle(*of.task, of.knobs, of.seed, index)) return std::move(*made);
  throw Error({.code = ExitCode::kUsage,
               .what = "with these knobs this index has no puzzle",
               .hint = "take another --index, another level, or other knobs"});
}

}  // namespace longhaul::cli
