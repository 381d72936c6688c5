#include "cli/command.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <type_traits>

#include "base/text/text.h"
#include "cli/output.h"
#include "recipe/recipe.h"

namespace longhaul::cli {
namespace {

constexpr const char* kOverrides = "key=value";

std::string footer_of(const std::vector<Example>& examples) {
  std::string text = "Examples:\n";
  for (const Example& example : examples)
    text += fmt::format("  # {}\n  {}\n", example.explanation, program_command(example.typed));
  return text;
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string typed_before(const CLI::App& app) {  // "longhaul checkpoint"
  return app.get_parent() == nullptr ? app.get_name()
                                     : typed_before(*app.get_parent()) + " " + app.get_name();
}

bool takes_words(const CLI::App& command) {
  const auto options = command.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->get_positional(); });
}

// The command that the words name as far as they do. A word that names none, where one must stand, is refused
// with the nearest.
const CLI::App& command_of(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* at = &program;
  for (const std::string& word : words) {
    const std::vector<std::string> names = names_of(*at);
    if (names.empty() || word.empty() || word[0] == '-') break;
    const auto named = at->get_subcommands([&](const CLI::App* each) { return each->get_name() == word; });
    if (named.empty() && takes_words(*at)) break;
    if (named.empty()) {
      const std::string nearest = nearest_spelling(word, names);
      throw Error(
          {.code = ExitCode::kUsage,
           .what = "unknown command",
           .expected = fmt::format("{}", fmt::join(names, ", ")),
           .found = fmt::format("{} {}", typed_before(*at), word),
           .hint = nearest.empty() ? typed_before(*at) + " --help" : typed_before(*at) + " " + nearest});
    }
    at = named.front();
  }
  return *at;
}

// What `--steps 5` means where a recipe's options are set as train.steps=5; empty: nothing.
std::string override_meant(const std::vector<std::string>& words, size_t i) {
  const size_t equals = words[i].find('=');
  std::string value = "VALUE";
  if (equals != std::string::npos) {
    value = words[i].substr(equals + 1);
  } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
    value = words[i + 1];
  }
  std::string meant;
  recipe::Recipe recipe;
  for (const std::string& name : recipe::options_of(recipe).meant_by(words[i].substr(0, equals))) {
    meant += (meant.empty() ? "" : " or ") + name + "=" + shell_quoted(value);
  }
  return meant;
}

Error usage_error(const CLI::App& command, const std::vector<std::string>& words,
                  const CLI::ParseError& error) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const bool takes_overrides = command.get_option_no_throw(kOverrides) != nullptr;
  std::string hint = typed_before(command) + " --help";
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string meant = nearest_spelling(name, known);
    if (meant.empty() && takes_overrides) meant = override_meant(words, i);
    if (meant.empty()) continue;
    hint = fmt::format("did you mean {}? {}", meant, hint);
    break;
  }
  return Error({.code = ExitCode::kUsage,
                .what = "the command line is not understood",
                .found = error.what(),
                .where = typed_before(command),
                .hint = hint});
}

}  // namespace

struct Command::Shared {
  std::string heading = "Subcommands";  // of the commands added next
  std::function<ExitCode()> run;        // of the subcommand that was typed
  std::map<const CLI::App*, Look> looks;
};

// Limits are looked at when a value is read, so they may be set after the option was declared.
struct Option::State {
  CLI::Option* option = nullptr;
  std::string type;     // INT, UINT, FLOAT; of numbers
  std::string initial;  // the variable's value when it was declared
  std::optional<double> least, most;
  bool least_allowed = true, may_be_empty = false;

  // As --help shows it: INT:POSITIVE.
  void show_type() const {
    const bool positive = least && (least_allowed ? type != "FLOAT" && *least == 1 : *least == 0);
    std::string range;
    if (positive && !most) {
      range = ":POSITIVE";
    } else if (least && *least == 0 && least_allowed && !most) {
      range = ":NONNEGATIVE";
    } else if (least && most) {
      range = fmt::format(":{}{} - {}]", least_allowed ? "[" : "above [", *least, *most);
    } else if (least || most) {
      range = least ? fmt::format(":{}{}", least_allowed ? ">=" : ">", *least) : fmt::format(":<={}", *most);
    }
    option->type_name(type + range);
  }

  std::string expected() const {
    const std::string text = type == "FLOAT" ? "a number" : "a whole number";
    const std::optional<double> from = !least && type == "UINT" ? 0 : least;
    if (from && most)
      return text + fmt::format(fmt::runtime(least_allowed ? " from {} to {}" : " above {} and at most {}"),
                                *from, *most);
    if (from) return text + fmt::format(fmt::runtime(least_allowed ? " of at least {}" : " above {}"), *from);
    return most ? text + fmt::format(" of at most {}", *most) : text;
  }

  // Every character counts: "1x", "-1" where no sign belongs and what 64 bits do not hold are refused. What
  // is wrong, or nothing.
  template <class Number>
  std::string read(const std::string& text, Number& into) const {
    Number number{};
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed == std::errc::result_out_of_range) return text + " does not fit into 64 bits";
    const auto value = static_cast<double>(number);
    const bool whole = failed == std::errc() && end == text.data() + text.size() && std::isfinite(value);
    const bool in_range =
        (!most || value <= *most) && (!least || (least_allowed ? value >= *least : value > *least));
    if (!whole || !in_range) return fmt::format("{} is not {}", text, expected());
    into = number;
    return "";
  }
};

Option& Option::required() {
  state_->option->required();
  return *this;
}

Option& Option::hidden() {
  state_->option->group("");
  return *this;
}

Option& Option::default_shown() {
  state_->option->default_str(state_->initial);
  return *this;
}

Option& Option::at_least(double least) {
  state_->least = least;
  state_->show_type();
  return *this;
}

Option& Option::above(double limit) {
  state_->least_allowed = false;
  return at_least(limit);
}

Option& Option::at_most(double most) {
  state_->most = most;
  state_->show_type();
  return *this;
}

Option& Option::one_of(std::vector<std::string> choices) {
  state_->option->check(CLI::IsMember(std::move(choices)));
  return *this;
}

Option& Option::one_each() {
  state_->option->allow_extra_args(false);
  return *this;
}

Option& Option::may_be_empty() {
  state_->may_be_empty = true;
  return *this;
}

Command Command::add(const std::string& name, const std::string& purpose,
                     const std::vector<Example>& examples) {
  CLI::App* app = app_->add_subcommand(name, purpose);
  app->footer(footer_of(examples));
  app->require_subcommand(0, 1);
  app->group(app_->get_parent() == nullptr ? shared_->heading : "Subcommands");
  return {app, shared_};
}

Command Command::add_group(const std::string& name, const std::string& purpose,
                           const std::vector<Example>& examples) {
  Command group = add(name, purpose, examples);
  group.app_->require_subcommand(1);
  return group;
}

void Command::heading(const std::string& text) { shared_->heading = text; }

Option Command::option(const std::string& name, std::string& into, const std::string& help) {
  auto state = std::make_shared<Option::State>(
      Option::State{.option = app_->add_option(name, into, help), .initial = into});
  const auto wrong = [state](const std::string& text) {
    return text.empty() && !state->may_be_empty ? "it is empty" : "";
  };
  state->option->check(CLI::Validator(wrong, ""));
  return Option(std::move(state));
}

Option Command::option(const std::string& name, std::vector<std::string>& into, const std::string& help) {
  return Option(std::make_shared<Option::State>(Option::State{.option = app_->add_option(name, into, help)}));
}

template <class Number>
Option Command::number(const std::string& name, const char* type, Number& into, const std::string& help) {
  auto state =
      std::make_shared<Option::State>(Option::State{.type = type, .initial = fmt::format("{}", into)});
  const auto read = [state, &into](const CLI::results_t& typed) {
    const std::string wrong = state->read(typed.front(), into);
    return wrong.empty() ? true : throw CLI::ValidationError(state->option->get_name(), wrong);
  };
  state->option = app_->add_option(name, read, help);
  state->show_type();
  return Option(std::move(state));
}

Option Command::option(const std::string& name, int64_t& into, const std::string& help) {
  return number(name, "INT", into, help);
}
Option Command::option(const std::string& name, uint64_t& into, const std::string& help) {
  return number(name, "UINT", into, help);
}
Option Command::option(const std::string& name, double& into, const std::string& help) {
  return number(name, "FLOAT", into, help);
}

Option Command::option(const std::string& name, std::optional<double>& into, const std::string& help) {
  auto state = std::make_shared<Option::State>(Option::State{.type = "FLOAT"});
  const auto read = [state, &into](const CLI::results_t& typed) {
    const std::string wrong = state->read(typed.front(), into.emplace());
    return wrong.empty() ? true : throw CLI::ValidationError(state->option->get_name(), wrong);
  };
  state->option = app_->add_option(name, read, help);
  state->show_type();
  return Option(std::move(state));
}

void Command::flag(const std::string& name, bool& into, const std::string& help) {
  app_->add_flag(name, into, help);
}
void Command::json_flag(bool& json, const std::string& help) { flag("--json", json, help); }

void Command::recipe(std::string& path, std::vector<std::string>& words) {
  option("RECIPE", path, "a recipe file (TOML), or the name of one that comes with Longhaul: first-run")
      .required();
  overrides(words);
}

void Command::overrides(std::vector<std::string>& words) {
  option(kOverrides, words, "options of the recipe to set otherwise, as train.steps=20");
}

void Command::allow_any_words() { app_->allow_extras(); }

void Command::on_run(std::function<ExitCode()> run) {
  app_->final_callback([shared = shared_, app = app_, run = std::move(run)] {
    if (app->get_subcommands().empty()) shared->run = run;  // a command under it was typed, and has its own
  });
}

void Command::before_reading(Look look) { shared_->looks[app_] = std::move(look); }

Program::Program(const std::string& purpose, const std::vector<Example>& examples,
                 std::function<std::string()> version)
    : app_(std::make_unique<CLI::App>(purpose, program_name())),
      root_(app_.get(), std::make_shared<Command::Shared>()) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", std::move(version),
                         "print version, commit, compiler, LibTorch and CPU features");
  app_->footer(footer_of(examples) +
               "\nEvery command has --help with examples. Exit codes: docs/reference/exit-codes.md\n");
}

Program::~Program() = default;

std::function<ExitCode()> Program::read(int count, char** words) {
  const std::vector<std::string> typed(words + 1, words + count);
  const CLI::App& command = command_of(*app_, typed);
  if (typed.empty()) {
    return [help = app_->help()] {
      print(help);
      return ExitCode::kUsage;
    };
  }
  if (const auto look = root_.shared_->looks.find(&command); look != root_.shared_->looks.end()) {
    look->second({std::ranges::find(typed, command.get_name()) + 1, typed.end()}, names_of(*app_));
  }
  try {
    app_->parse(count, words);
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app_->exit(asked, text, text);
    print(text.str());
    return [] { return ExitCode::kDone; };
  } catch (const CLI::ParseError& error) {
    throw usage_error(command, typed, error);
  }
  return root_.shared_->run;
}

}  // namespace longhaul::cli
