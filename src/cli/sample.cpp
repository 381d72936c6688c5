// `longhaul sample CKPT --prompt TEXT --tokens N --seed S [--json]`
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/model_tokenizer.h"
#include "data/tokenizer/continuation.h"
#include "generate/generate.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

struct Arguments {
  std::string checkpoint, prompt, tokenizer, dtype, device = "auto";
  generate::GenerateSettings settings;
  bool json = false;
};

ExitCode run(const Arguments& arguments) {
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  auto model = checkpoint::open_model(arguments.checkpoint, arguments.dtype, device);
  const auto tokenizer = tokenizer_for(model, arguments.tokenizer);
  generate::GenerateSettings settings = arguments.settings;
  settings.vocabulary = tokenizer.vocabulary();
  if (const auto separator = tokenizer.end_of_document()) settings.stop_id = *separator;
  const std::vector<int32_t> prompt = tokenizer.encode(arguments.prompt);
  data::Continuation text(tokenizer, prompt);
  if (!arguments.json) print(arguments.prompt);
  const Stopwatch watch;
  const auto generation = generate::generate(*model.decoder, {prompt.begin(), prompt.end()}, settings, [&](int64_t id) {
    const std::string fresh = text.add(static_cast<int32_t>(id));
    if (arguments.json) return;
    print(fresh);
    std::fflush(stdout);
  });
  if (!arguments.json) {
    print(text.rest() + "\n");
    return ExitCode::kDone;
  }
  print_json({{"prompt", arguments.prompt},
              {"text", text.text() + text.rest()},
              {"ids", generation.ids},
              {"step", model.step},
              {"checkpoint", model.folder.string()},
              {"seed", settings.seed},
              {"tokens_per_second", static_cast<double>(generation.ids.size()) / std::max(watch.seconds(), 1e-9)}});
  return ExitCode::kDone;
}

}  // namespace

void add_sample(CLI::App& program, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* sample = add_command(program, "sample", "continue a text with a trained model",
                                 {{"the newest checkpoint of a run", "sample runs/first-run --prompt \"import torch\" --tokens 100"},
                                  {"the likeliest continuation", "sample runs/first-run --prompt \"def \" --temperature 0"},
                                  {"for a program", "sample runs/first-run --prompt \"class \" --seed 7 --json"}});
  sample->add_option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory")->required();
  sample->add_option("--prompt", arguments->prompt, "the text to continue");
  sample->add_option("--tokens", arguments->settings.tokens, "at most this many new tokens")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sample->add_option("--min-tokens", arguments->settings.min_tokens, "the document does not end before this many")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sample->add_option("--temperature", arguments->settings.temperature, "0: always the likeliest token")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  sample->add_option("--top-k", arguments->settings.top_k, "keep the k likeliest tokens; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sample->add_option("--top-p", arguments->settings.top_p, "keep the likeliest tokens whose probabilities sum to p")
      ->check(CLI::PositiveNumber)
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  sample->add_option("--seed", arguments->settings.seed, "of the draws")->capture_default_str();
  sample->add_option("--tokenizer", arguments->tokenizer, "tokenizer.json (default: the run's own)");
  sample->add_option("--dtype", arguments->dtype, "bf16, fp32 or fp64 (default: as trained)");
  sample->add_option("--device", arguments->device, "auto (a GPU when there is one), cpu, cuda or cuda:N")->capture_default_str();
  add_json_flag(sample, arguments->json);
  on_run(sample, command, [arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
