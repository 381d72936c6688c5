// `longhaul puzzles calibrate`: the levels of each task that suit a model.
#include "puzzles/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files/file.h"
#include "base/process/signals.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "checkpoint/open_model.h"
#include "cli/models/model_tokenizer.h"
#include "cli/output.h"
#include "cli/puzzles/making.h"
#include "cli/puzzles/verbs.h"
#include "cli/secret_file.h"
#include "data/tokenizer/continuation.h"
#include "generate/generate.h"
#include "observe/table.h"
#include "puzzles/calibrate/chat_model.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/tasks.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

struct CalibrateArguments {
  std::vector<std::string> tasks;
  std::string url, model, key_file, checkpoint, device = "auto", levels = "0-10", language = "en", out,
                                                strong;
  int64_t puzzles = 20, answers = 10, at_once = 8;
  uint64_t seed = 0;
  puzzles::ChatModel chat;
};

[[noreturn]] void refuse_calibration(std::string what, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kUsage,
               .what = std::move(what),
               .expected = std::move(expected),
               .found = std::move(found)});
}

// "0-10", "3"
void take_levels(const std::string& text, puzzles::CalibrateSettings& settings) {
  const size_t dash = std::min(text.find('-'), text.size());
  const auto first = puzzles::read_integer(text.substr(0, dash));
  const auto last = dash == text.size() ? first : puzzles::read_integer(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *first > *last || *last > puzzles::kHardestLevel)
    refuse_calibration("the levels are not understood", "--levels 0-10, or less", text);
  settings.easiest = *first;
  settings.hardest = *last;
}

puzzles::CalibrateSettings settings_of(const CalibrateArguments& arguments) {
  puzzles::CalibrateSettings settings{.puzzles = arguments.puzzles,
                                      .answers = arguments.answers,
                                      .seed = arguments.seed,
                                      .language = language_named(arguments.language),
                                      .at_once = arguments.at_once,
                                      .journal = path_of_text(arguments.out + ".unfinished")};
  take_levels(arguments.levels, settings);
  if (arguments.seed >= puzzles::kValidationSeeds)
    refuse_calibration("the seed is too large", "less than 2^63", "");
  for (const std::string& name : arguments.tasks) settings.tasks.push_back(&puzzles::task_named(name));
  if (arguments.tasks.empty()) settings.tasks.assign(puzzles::tasks().begin(), puzzles::tasks().end());
  const nlohmann::ordered_json drawing = {{"temperature", arguments.chat.temperature},
                                          {"top_p", arguments.chat.top_p},
                                          {"tokens", arguments.chat.tokens}};
  settings.model = arguments.url.empty()
                       ? nlohmann::ordered_json{{"checkpoint", arguments.checkpoint}}
                       : nlohmann::ordered_json{{"url", arguments.url}, {"name", arguments.model}};
  settings.model.update(drawing);
  return settings;
}

// A checkpoint of ours, answers of one puzzle side by side.
class CheckpointModel {
 public:
  explicit CheckpointModel(const CalibrateArguments& arguments)
      : device_(device_named(arguments.device, "--device")),
        scope_(device_),
        model_(checkpoint::open_model(path_of_text(arguments.checkpoint), "", device_)),
        tokenizer_(tokenizer_for(model_, "")),
        generator_(*model_.decoder) {
    checkpoint::require_next_token(model_, "puzzles calibrate");
    const auto wide = [](const std::vector<int32_t>& ids) {
      return std::vector<int64_t>(ids.begin(), ids.end());
    };
    settings_ = {.tokens = arguments.chat.tokens,
                 .temperature = arguments.chat.temperature,
                 .top_p = arguments.chat.top_p,
                 .count = arguments.answers,
                 .vocabulary = tokenizer_.vocabulary(),
                 .never = wide(tokenizer_.without_token()),
                 .stop_ids = wide(tokenizer_.stop_ids())};
  }

  std::vector<std::string> ask(const std::string& prompt, uint64_t seed) {
    const std::vector<int32_t> ids = tokenizer_.encode_prompt(prompt);
    const std::vector<std::vector<int64_t>> prompts = {{ids.begin(), ids.end()}};
    generate::require_readable(prompts.front(), model_.recipe.recipe.model, "the puzzle");
    settings_.seed = seed;
    std::vector<std::string> texts;
    for (const generate::Generation& each : generator_.run(prompts, settings_)) {
      data::Continuation text(tokenizer_, ids);
      for (const int64_t id : each.ids) text.add(static_cast<int32_t>(id));
      texts.push_back(text.text() + text.rest());
    }
    return texts;
  }

 private:
  at::Device device_;
  DeviceScope scope_;
  checkpoint::OpenModel model_;
  data::Tokenizer tokenizer_;
  generate::Generator generator_;
  generate::GenerateSettings settings_;
};

std::string level_text(const std::optional<int64_t>& level) {
  return level ? std::to_string(*level) : "none";
}

std::string advice_of(const puzzles::TaskLevels& of_task) {
  if (!of_task.upper) return "too hard at every level";
  if (!of_task.lower) return "too easy at every level that it solves";
  if (*of_task.lower > *of_task.upper) return "no level is hard enough and still solved";
  return fmt::format("levels {} to {}", *of_task.lower, *of_task.upper);
}

void print_calibration(const puzzles::Calibration& calibration, int64_t answers) {
  observe::Table table("levels", {{"task"},
                                  {"level", observe::Align::kRight},
                                  {"pass rate", observe::Align::kRight},
                                  {fmt::format("pass@{}", answers), observe::Align::kRight},
                                  {"strict format", observe::Align::kRight}});
  observe::Table bands(
      "bands",
      {{"task"}, {"lower", observe::Align::kRight}, {"upper", observe::Align::kRight}, {"to train on"}});
  for (const auto& [key, of_task] : calibration) {
    for (const puzzles::LevelResult& level : of_task.levels) {
      const puzzles::Estimate rate = puzzles::average(level.puzzles),
                              pass = puzzles::pass_at_k(level.puzzles, answers);
      table.row({key, std::to_string(level.level), fmt::format("{:.3f} ± {:.3f}", rate.mean, rate.error),
                 fmt::format("{:.3f} ± {:.3f}", pass.mean, pass.error),
                 fmt::format("{:.3f}", static_cast<double>(level.strict_format) /
                                           static_cast<double>(level.answers()))});
    }
    bands.row({key, level_text(of_task.lower), level_text(of_task.upper), advice_of(of_task)});
  }
  print(table.text(colours_wanted(stdout)) + "\n" + bands.text(colours_wanted(stdout)));
}

ExitCode calibrate_levels(const CalibrateArguments& arguments) {
  if (arguments.url.empty() == arguments.checkpoint.empty())
    refuse_calibration("one model is calibrated", "--url URL --model NAME, or --checkpoint CKPT",
                       arguments.url.empty() ? "none" : "both");
  if (!arguments.url.empty() && arguments.model.empty())
    refuse_calibration("the model has no name", "--model NAME, as the server calls it", "");
  puzzles::CalibrateSettings settings = settings_of(arguments);
  puzzles::ChatModel chat = arguments.chat;
  std::optional<CheckpointModel> own;
  puzzles::AskModel ask;
  if (arguments.url.empty()) {
    settings.at_once = 1;
    own.emplace(arguments);
    ask = [&](const std::string& prompt, int64_t, uint64_t seed) { return own->ask(prompt, seed); };
  } else {
    chat.address = puzzles::chat_address(arguments.url);
    chat.model = arguments.model;
    if (!arguments.key_file.empty())
      chat.key = secret_in(arguments.key_file, "this key", "chmod 600 " + shell_quoted(arguments.key_file));
    ask = [&](const std::string& prompt, int64_t answers, uint64_t seed) {
      return puzzles::chat_answers(chat, prompt, answers, seed);
    };
  }
  puzzles::Calibration calibration;
  {
    const auto levels = settings.hardest - settings.easiest + 1;
    Progress progress("calibrating", static_cast<int64_t>(settings.tasks.size()) * levels * settings.puzzles);
    calibration = puzzles::calibrate(settings, ask, [&] { progress.advance(1); });
  }
  if (!arguments.strong.empty()) puzzles::take_upper_levels(calibration, path_of_text(arguments.strong));
  write_text_atomically(path_of_text(arguments.out),
                        puzzles::calibration_json(settings, calibration).dump(1) + "\n");
  std::filesystem::remove(settings.journal);
  print_calibration(calibration, settings.answers);
  print(fmt::format("{} has them: puzzles generate TASK --levels {}\n", arguments.out,
                    shell_quoted(arguments.out)));
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_calibrate(Command& group) {
  auto arguments = std::make_shared<CalibrateArguments>();
  Command calibrate = group.add(
      "calibrate", "find the levels that suit a model: served over HTTP, or a checkpoint",
      {{"a model behind vLLM",
        "puzzles calibrate --url http://localhost:8000 --model qwen --out levels.json"},
       {"a checkpoint, two tasks",
        "puzzles calibrate sudoku mathador --checkpoint runs/rl --out levels.json"},
       {"puzzles of these levels", "puzzles generate sudoku --levels levels.json --out train.jsonl"}});
  calibrate.option("TASK", arguments->tasks, "keys of `puzzles list` (default: all)");
  calibrate.option("--url", arguments->url,
                   "an OpenAI-compatible server: http://HOST:PORT, with or without /v1");
  calibrate.option("--model", arguments->model, "its name there");
  calibrate.option("--key-file", arguments->key_file,
                   "file with the key that the server wants, which you alone may read");
  calibrate.option("--checkpoint", arguments->checkpoint,
                   "instead of a server: a checkpoint, or a run directory");
  calibrate
      .option("--device", arguments->device,
              "of the checkpoint: auto (a GPU when there is one), cpu, cuda or cuda:N")
      .default_shown();
  calibrate
      .option("--out", arguments->out,
              "the file of levels to write; FILE.unfinished beside it, until it is done")
      .required();
  calibrate.option("--strong", arguments->strong,
                   "the file of an earlier calibration, of a stronger model: upper levels are taken from it");
  calibrate.option("--levels", arguments->levels, "levels to try").default_shown();
  calibrate.option("--puzzles", arguments->puzzles, "of each level")
      .at_least(2)
      .at_most(100000)
      .default_shown();
  calibrate.option("--answers", arguments->answers, "to each puzzle")
      .at_least(1)
      .at_most(10000)
      .default_shown();
  calibrate.option("--temperature", arguments->chat.temperature, "of the draws")
      .at_least(0)
      .at_most(1000)
      .default_shown();
  calibrate.option("--top-p", arguments->chat.top_p, "keep the likeliest tokens whose probabilities sum to p")
      .above(0)
      .at_most(1)
      .default_shown();
  calibrate.option("--tokens", arguments->chat.tokens, "of an answer, at most").at_least(1).default_shown();
  calibrate.option("--at-once", arguments->at_once, "with --url: puzzles that are asked at the same time")
      .at_least(1)
      .at_most(256)
      .default_shown();
  calibrate
      .option("--retries", arguments->chat.retries,
              "with --url: how often a server that is busy or gone is asked again")
      .at_least(0)
      .at_most(1000)
      .default_shown();
  calibrate.option("--timeout", arguments->chat.timeout_s, "with --url: seconds that an answer may take")
      .above(0)
      .default_shown();
  calibrate.option("--seed", arguments->seed, "which puzzles").default_shown();
  calibrate.option("--language", arguments->language, "of the prompts").one_of({"en", "zh"}).default_shown();
  calibrate.on_run([arguments] {
    install_signal_handlers();
    return calibrate_levels(*arguments);
  });
}

}  // namespace longhaul::cli
