// rollouts/STEP.jsonl in the folder of a run: the answers that a step was trained on, one a line, as
// `longhaul rollouts` shows them. docs/guides/reinforcement.md lists the fields. A file is there whole or not
// at all.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace longhaul::posttrain {

struct RolloutLine {
  int64_t step = 0, prompt_number = 0, level = -1;
  std::string task, prompt, right_answer, answer;
  bool ended = false, formatted = false;
  double reward = 0, shaped = 0, advantage = 0;
  std::vector<std::pair<std::string, double>> parts;
  std::vector<int64_t> ids;
  // By token: now, when the batch came, by the engine; and exp(now − old).
  std::vector<double> log_probabilities, old, generated, ratios;
};

nlohmann::ordered_json to_json(const RolloutLine& line);
void write_rollouts(const std::filesystem::path& run, int64_t step, const std::vector<RolloutLine>& lines);
// kData: there are none, or a line is none. step 0: the newest.
std::vector<RolloutLine> read_rollouts(const std::filesystem::path& run, int64_t step);
std::vector<int64_t> steps_with_rollouts(const std::filesystem::path& run);  // in their order

}  // namespace longhaul::posttrain
