// The arguments of `longhaul evaluate`, and the tasks that it offers in addition to the loss on texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/open_model.h"
#include "evaluate/share.h"

namespace longhaul::cli {

struct EvaluateArguments {
  std::string checkpoint, task, data, jsonl_field, tokenizer, dtype, experts, weights, kv_cache,
      device = "auto", page, spike_texts;
  int64_t context = 0, stride = 0;
  int64_t ranks = 1;  // processes of this machine that share the evaluation
  // Arguments of tasks.
  std::string lengths, depths = "0,25,50,75,100", pairs, kind = "single", kinds, haystack, format,
                       prefix = "template";
  int64_t samples = 0, limit = 0, tokens_per_pass = 4096;
  uint64_t seed = 0;
  double weight_growth = 1.1;
  checkpoint::SpikeRequest spikes;
  bool json = false;
};

// Runs on all ranks that share the evaluation; the first one prints and writes.
ExitCode run_evaluation_task(const EvaluateArguments& arguments, checkpoint::OpenModel& model,
                             const evaluate::EvaluationShare& share);

}  // namespace longhaul::cli
