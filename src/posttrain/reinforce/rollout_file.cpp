#include "posttrain/reinforce/rollout_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul::posttrain {
namespace {

std::filesystem::path file_of_step(const std::filesystem::path& run, int64_t step) {
  return run / "rollouts" / fmt::format("{}.jsonl", step);
}

RolloutLine from_json(const nlohmann::ordered_json& json) {
  RolloutLine line{.step = json.at("step"),
                   .prompt_number = json.at("prompt_number"),
                   .level = json.at("level"),
                   .task = json.at("task"),
                   .prompt = json.at("prompt"),
                   .right_answer = json.at("right_answer"),
                   .answer = json.at("answer"),
                   .ended = json.at("ended"),
                   .formatted = json.at("formatted"),
                   .reward = json.at("reward"),
                   .shaped = json.at("shaped"),
                   .advantage = json.at("advantage"),
                   .parts = {},
                   .ids = json.at("ids"),
                   .log_probabilities = json.at("log_probabilities"),
                   .old = json.at("old"),
                   .generated = json.at("generated"),
                   .ratios = json.at("ratios")};
  for (const auto& [name, value] : json.at("parts").items())
    line.parts.emplace_back(name, value.get<double>());
  return line;
}

}  // namespace

nlohmann::ordered_json to_json(const RolloutLine& line) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (const auto& [name, value] : line.parts) parts[name] = value;
  return {{"step", line.step},
          {"prompt_number", line.prompt_number},
          {"task", line.task},
          {"level", line.level},
          {"prompt", line.prompt},
          {"right_answer", line.right_answer},
          {"answer", line.answer},
          {"ended", line.ended},
          {"formatted", line.formatted},
          {"reward", line.reward},
          {"shaped", line.shaped},
          {"advantage", line.advantage},
          {"parts", parts},
          {"ids", line.ids},
          {"log_probabilities", line.log_probabilities},
          {"old", line.old},
          {"generated", line.generated},
          {"ratios", line.ratios}};
}

void write_rollouts(const std::filesystem::path& run, int64_t step, const std::vector<RolloutLine>& lines) {
  std::string text;
  // A model may write bytes that are no text.
  for (const RolloutLine& line : lines)
    text += to_json(line).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  make_folders(run / "rollouts");
  write_text_atomically(file_of_step(run, step), text);
}

std::vector<int64_t> steps_with_rollouts(const std::filesystem::path& run) {
  std::vector<int64_t> steps;
  if (!std::filesystem::is_directory(run / "rollouts")) return steps;
  for (const auto& entry : std::filesystem::directory_iterator(run / "rollouts")) {
    if (entry.path().extension() != ".jsonl") continue;
    const std::string name = entry.path().stem().string();
    if (const auto step = parse_number<int64_t>(name)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::vector<RolloutLine> read_rollouts(const std::filesystem::path& run, int64_t step) {
  const std::vector<int64_t> steps = steps_with_rollouts(run);
  if (steps.empty() || (step > 0 && std::ranges::find(steps, step) == steps.end())) {
    throw Error(
        {.code = ExitCode::kData,
         .what = "there are no rollouts of this step",
         .expected = steps.empty()
                         ? "files rollouts/STEP.jsonl, which a run with train.task = reinforce writes"
                         : fmt::format("a step from {} to {} that has a file", steps.front(), steps.back()),
         .found = steps.empty() ? "none" : std::to_string(step),
         .where = (run / "rollouts").string(),
         .hint = "reinforce.rollouts_every says how often they are written"});
  }
  const std::filesystem::path path = file_of_step(run, step > 0 ? step : steps.back());
  const std::string text = read_text(path);
  std::vector<RolloutLine> lines;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;  // after the last line end
    try {
      lines.push_back(from_json(nlohmann::ordered_json::parse(line)));
    } catch (const nlohmann::json::exception& error) {
      throw Error({.code = ExitCode::kData,
                   .what = "a line of rollouts cannot be read",
                   .found = error.what(),
                   .where = fmt::format("{}:{}", path.string(), lines.size() + 1),
                   .hint = "the run writes the file again when it does the step again"});
    }
  }
  return lines;
}

}  // namespace longhaul::posttrain
