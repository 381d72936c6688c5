// `longhaul sample CKPT --prompt TEXT --tokens N --seed S [--json]`
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/model_tokenizer.h"
#include "cli/output.h"
#include "data/tokenizer/continuation.h"
#include "generate/generate.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

struct SampleArguments {
  std::string checkpoint, prompt, tokenizer, dtype, device = "auto";
  generate::GenerateSettings settings;
  bool json = false;
};

ExitCode run(const SampleArguments& arguments) {
  if (arguments.settings.min_tokens > arguments.settings.tokens) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a text cannot be longer than it may become",
                 .expected = fmt::format("at most --tokens = {}", arguments.settings.tokens),
                 .found = fmt::format("--min-tokens {}", arguments.settings.min_tokens),
                 .where = "command line",
                 .hint = fmt::format("--tokens {}", arguments.settings.min_tokens)});
  }
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  auto model = checkpoint::open_model(arguments.checkpoint, arguments.dtype, device);
  const auto tokenizer = tokenizer_for(model, arguments.tokenizer);
  generate::GenerateSettings settings = arguments.settings;
  settings.vocabulary = tokenizer.vocabulary();
  if (const auto separator = tokenizer.end_of_document()) settings.stop_id = *separator;
  const std::vector<int32_t> prompt = tokenizer.encode(arguments.prompt);
  data::Continuation text(tokenizer, prompt);
  std::string before = arguments.prompt;  // said with the first token: a prompt that is refused is not
  const auto say = [&](const std::string& fresh) { print(std::exchange(before, "") + fresh); };
  const Stopwatch watch;
  const auto generation = generate::generate(*model.decoder, {prompt.begin(), prompt.end()}, settings, [&](int64_t id) {
    const std::string fresh = text.add(static_cast<int32_t>(id));
    if (!arguments.json) say(fresh);
  });
  if (!arguments.json) say(text.rest() + "\n");
  if (generation.finish == generate::Finish::kPositions) {
    log_warning("the text ends after {} of {} tokens: the model has {} positions (model.max_positions), and all are used",
                generation.ids.size(), settings.tokens, model.decoder->config().max_positions);
  }
  if (!arguments.json) return ExitCode::kDone;
  print_json({{"prompt", arguments.prompt},
              {"text", text.text() + text.rest()},
              {"ids", generation.ids},
              {"finish", generate::name_of(generation.finish)},
              {"step", model.step},
              {"checkpoint", model.folder.string()},
              {"seed", settings.seed},
              {"tokens_per_second", static_cast<double>(generation.ids.size()) / std::max(watch.seconds(), 1e-9)}});
  return ExitCode::kDone;
}

}  // namespace

void add_sample(Command& program) {
  auto arguments = std::make_shared<SampleArguments>();
  Command sample = program.add("sample", "continue a text with a trained model",
                               {{"the newest checkpoint of a run", "sample runs/first-run --prompt \"import torch\" --tokens 100"},
                                {"the likeliest continuation", "sample runs/first-run --prompt \"def \" --temperature 0"},
                                {"for a program", "sample runs/first-run --prompt \"class \" --seed 7 --json"}});
  sample.option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory").required();
  sample.option("--prompt", arguments->prompt, "the text to continue").may_be_empty();
  sample.option("--tokens", arguments->settings.tokens, "at most this many new tokens").at_least(0).default_shown();
  sample.option("--min-tokens", arguments->settings.min_tokens, "the document does not end before this many").at_least(0).default_shown();
  sample.option("--temperature", arguments->settings.temperature, "0: always the likeliest token")
      .at_least(0)
      .at_most(1000)
      .default_shown();
  sample.option("--top-k", arguments->settings.top_k, "keep the k likeliest tokens; 0: all").at_least(0).default_shown();
  sample.option("--top-p", arguments->settings.top_p, "keep the likeliest tokens whose probabilities sum to p")
      .above(0)
      .at_most(1)
      .default_shown();
  sample.option("--seed", arguments->settings.seed, "of the draws").default_shown();
  sample.option("--tokenizer", arguments->tokenizer, "tokenizer.json (default: the run's own)");
  sample.option("--dtype", arguments->dtype, "bf16, fp32 or fp64 (default: as trained)");
  sample.option("--device", arguments->device, "auto (a GPU when there is one), cpu, cuda or cuda:N").default_shown();
  sample.json_flag(arguments->json);
  sample.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
