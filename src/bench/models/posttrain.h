// `longhaul bench posttrain`: steps of pre-training, fine-tuning (all weights, and LoRA) and reinforcement
// learning of one small model, as whole runs that take turns, on texts and prompts made up for it. Ratios are
// of runs of the same round.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"
#include "train/task_entry.h"

namespace longhaul::bench {

struct PosttrainRequest {
  int64_t steps = 12;                    // of each run; the first two are not counted
  int64_t rounds = 3;                    // runs of each way
  int64_t sequence = 512;                // tokens of a row
  int64_t batch = 4;                     // rows of a step
  int64_t answer = 32;                   // most tokens of an answer, for reinforcement learning
  std::vector<std::string> overrides{};  // "model.hidden=512"
};

struct PosttrainLine {
  std::string way;               // "pretrain", "chat", "chat, LoRA", "reinforce"
  double milliseconds = 0;       // a step, the median of all rounds
  double tokens_per_second = 0;  // the median step's
  // Time a token over that of a pre-training step (of LoRA: over that of fine-tuning), the median of the
  // rounds; 0: not compared.
  double against = 0;
  int64_t state_bytes = 0;                    // of the optimizer
  int64_t planned_bytes = 0, peak_bytes = 0;  // of all tensors
  // How the time of a reinforcement learning step is divided, as shares of 1: generating answers, scoring
  // them, packing and waiting for rows, and passes and updates.
  double generation = 0, judging = 0, preparing = 0, update = 0;
};

// tasks: those that train.task can name.
std::vector<PosttrainLine> bench_posttrain(const PosttrainRequest& request, train::TaskEntries tasks);
observe::Table table_of(const std::vector<PosttrainLine>& lines);
nlohmann::ordered_json to_json(const PosttrainLine& line);

}  // namespace longhaul::bench
