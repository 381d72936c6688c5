// `longhaul sample CKPT --prompt TEXT --tokens N --count K --seed S [--json]`
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

// One sequence as it is printed.
struct Text {
  data::Continuation continuation;
  generate::Generation generation;
};

void check(const SampleArguments& arguments) {
  if (arguments.settings.min_tokens <= arguments.settings.tokens) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "a text cannot be longer than it may become",
               .expected = fmt::format("at most --tokens = {}", arguments.settings.tokens),
               .found = fmt::format("--min-tokens {}", arguments.settings.min_tokens),
               .where = "command line",
               .hint = fmt::format("--tokens {}", arguments.settings.min_tokens)});
}

// Several texts, each under a line that says how to get it alone.
void print_each(std::vector<Text>& texts, const SampleArguments& arguments) {
  for (size_t i = 0; i < texts.size(); ++i) {
    print(fmt::format("{}--- {} of {}, --seed {}\n", i == 0 ? "" : "\n", i + 1, texts.size(), arguments.settings.seed + i));
    print(arguments.prompt + texts[i].continuation.text() + texts[i].continuation.rest() + "\n");
  }
}

ExitCode run(const SampleArguments& arguments) {
  check(arguments);
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  auto model = checkpoint::open_model(arguments.checkpoint, arguments.dtype, device);
  const auto tokenizer = tokenizer_for(model, arguments.tokenizer);
  generate::GenerateSettings settings = arguments.settings;
  settings.vocabulary = tokenizer.vocabulary();
  if (const auto separator = tokenizer.end_of_document()) settings.stop_id = *separator;
  const std::vector<int32_t> prompt = tokenizer.encode(arguments.prompt);
  const std::vector<int64_t> prompts[] = {{prompt.begin(), prompt.end()}};
  std::vector<Text> texts(static_cast<size_t>(settings.count), {data::Continuation(tokenizer, prompt), {}});
  const bool streams = !arguments.json && settings.count == 1;
  std::string before = arguments.prompt;  // said with the first token: a prompt that is refused is not
  const auto say = [&](const std::string& fresh) { print(std::exchange(before, "") + fresh); };
  const Stopwatch watch;
  const auto generations = generate::generate_batch(*model.decoder, prompts, settings, [&](int64_t sequence, int64_t id) {
    const std::string fresh = texts[static_cast<size_t>(sequence)].continuation.add(static_cast<int32_t>(id));
    if (streams) say(fresh);
  });
  const double seconds = std::max(watch.seconds(), 1e-9);
  int64_t tokens = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    texts[i].generation = generations[i];
    tokens += static_cast<int64_t>(generations[i].ids.size());
  }
  if (streams) say(texts[0].continuation.rest() + "\n");
  if (!streams && !arguments.json) print_each(texts, arguments);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto& [continuation, generation] = texts[i];
    if (generation.finish == generate::Finish::kPositions) {
      log_warning("{} ends after {} of {} tokens: the model has {} positions (model.max_positions), and all are used",
                  texts.size() == 1 ? "the text" : fmt::format("text {}", i + 1), generation.ids.size(), settings.tokens,
                  model.decoder->config().max_positions);
    }
    if (!arguments.json) continue;
    print_json({{"prompt", arguments.prompt},
                {"text", continuation.text() + continuation.rest()},
                {"ids", generation.ids},
                {"finish", generate::name_of(generation.finish)},
                {"step", model.step},
                {"checkpoint", model.folder.string()},
                {"seed", settings.seed + i},
                {"tokens_per_second", static_cast<double>(tokens) / seconds}});
  }
  return ExitCode::kDone;
}

}  // namespace

void add_sample(Command& program) {
  auto arguments = std::make_shared<SampleArguments>();
  Command sample =
      program.add("sample", "continue a text with a trained model",
                  {{"the newest checkpoint of a run", "sample runs/first-run --prompt \"import torch\" --tokens 100"},
                   {"the likeliest continuation", "sample runs/first-run --prompt \"def \" --temperature 0"},
                   {"sixteen texts at once, for a program", "sample runs/first-run --prompt \"class \" --count 16 --seed 7 --json"}});
  sample.option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory").required();
  sample.option("--prompt", arguments->prompt, "the text to continue").may_be_empty();
  sample.option("--tokens", arguments->settings.tokens, "at most this many new tokens").at_least(0).default_shown();
  sample.option("--count", arguments->settings.count, "texts, written side by side; each as it would be alone").at_least(1).default_shown();
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
  sample.option("--seed", arguments->settings.seed, "of the draws; text i of several (from 0) has those of --seed + i").default_shown();
  sample.option("--tokenizer", arguments->tokenizer, "tokenizer.json (default: the run's own)");
  sample.option("--dtype", arguments->dtype, "bf16, fp32 or fp64 (default: as trained)");
  sample.option("--device", arguments->device, "auto (a GPU when there is one), cpu, cuda or cuda:N").default_shown();
  sample.json_flag(arguments->json);
  sample.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
