// `longhaul rollouts RUN [--step N] [--answers N] [--json]`
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "posttrain/reinforce/rollout_file.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;
using posttrain::RolloutLine;

struct RolloutsArguments {
  std::string run;
  int64_t step = 0, answers = 8;
  bool json = false;
};

// In one line, with what stands for line ends.
std::string shown(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? std::string("⏎") : std::string(1, c);
  return line;
}

std::string numbers_text(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += fmt::format(" {:7.3f}", number);
  return text;
}

void print_answer(const RolloutLine& line) {
  std::string parts;
  for (const auto& [name, value] : line.parts)
    parts += fmt::format("{}{} {:g}", parts.empty() ? "" : ", ", name, value);
  print(fmt::format("  reward {:<7.4g} advantage {:<+8.4f} {}{}\n", line.shaped, line.advantage, parts,
                    line.ended ? "" : ", cut off at the longest answer"));
  print(fmt::format("    {}\n", shown(line.answer)));
  print(fmt::format("    log p  {}\n    ratio  {}\n", numbers_text(line.log_probabilities),
                    numbers_text(line.ratios)));
}

void print_step(int64_t step, const std::vector<RolloutLine>& lines, int64_t most) {
  if (lines.empty())
    return print(
        fmt::format("step {}: no group was kept, since the answers of each had equal rewards\n", step));
  double reward = 0;
  for (const RolloutLine& line : lines) reward += line.reward;
  print(fmt::format("step {}: {}, mean reward {:.4g} of the groups that were kept\n", step,
                    counted(std::ssize(lines), "answer"), reward / static_cast<double>(lines.size())));
  int64_t before = -1;
  for (size_t i = 0; i < lines.size() && static_cast<int64_t>(i) < most; ++i) {
    const RolloutLine& line = lines[i];
    if (line.prompt_number != before) {
      print(fmt::format("\nprompt {} ({}{}), right: {}\n  {}\n", line.prompt_number, line.task,
                        line.level >= 0 ? fmt::format(", level {}", line.level) : "",
                        shown(line.right_answer), shown(line.prompt)));
    }
    before = line.prompt_number;
    print_answer(line);
  }
  if (std::ssize(lines) > most)
    print(
        fmt::format("\n{} more: --answers {}\n", counted(std::ssize(lines) - most, "answer"), lines.size()));
}

ExitCode run_rollouts(const RolloutsArguments& arguments) {
  const auto lines = posttrain::read_rollouts(arguments.run, arguments.step);
  const std::vector<int64_t> steps = posttrain::steps_with_rollouts(arguments.run);
  const int64_t step = arguments.step > 0 ? arguments.step : steps.back();
  if (!arguments.json) {
    print_step(step, lines, arguments.answers);
    return ExitCode::kDone;
  }
  ordered_json answers = ordered_json::array();
  for (const RolloutLine& line : lines) answers.push_back(posttrain::to_json(line));
  print_json({{"step", step}, {"steps", steps}, {"answers", answers}});
  return ExitCode::kDone;
}

}  // namespace

void add_rollouts(Command& program) {
  auto arguments = std::make_shared<RolloutsArguments>();
  Command rollouts =
      program.add("rollouts", "answers that reinforcement learning was trained on, with rewards and ratios",
                  {{"those of the newest step", "rollouts runs/grpo"},
                   {"all answers of step 20", "rollouts runs/grpo --step 20 --answers 1000"},
                   {"for a program", "rollouts runs/grpo --step 20 --json"}});
  rollouts.option("RUN", arguments->run, "a run folder").required();
  rollouts.option("--step", arguments->step, "the step; 0: the newest that has a file")
      .at_least(0)
      .default_shown();
  rollouts.option("--answers", arguments->answers, "answers shown, at most").at_least(1).default_shown();
  rollouts.json_flag(arguments->json);
  rollouts.on_run([arguments] { return run_rollouts(*arguments); });
}

}  // namespace longhaul::cli
