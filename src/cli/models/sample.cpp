// `longhaul sample CKPT --prompt TEXT | --prompts FILE --tokens N --count K --seed S [--logprobs N] [--json]
// [--routes FILE]`
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/models/calibrate_spikes.h"
#include "cli/models/model_options.h"
#include "cli/models/model_ranks.h"
#include "cli/models/model_tokenizer.h"
#include "cli/models/sample_output.h"
#include "cli/models/write_routes.h"
#include "cli/models/write_spike_raster.h"
#include "cli/output.h"
#include "data/tokenizer/wide_ids.h"
#include "generate/generate.h"
#include "generate/prompts_file.h"
#include "generate/rank_pass.h"
#include "recipe/mixers.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

// Sequences that are written side by side, of a file of prompts.
constexpr int64_t kTogether = 32;

struct SampleArguments {
  std::string checkpoint, prompt, prompts, routes, tokenizer, dtype, experts, weights, kv_cache,
      device = "auto", spike_texts, raster, raster_of = "layers.0.";
  checkpoint::SpikeRequest spikes;
  RankOptions ranks;
  generate::GenerateSettings settings;
  int64_t prefix_cache = 256;  // MiB
  int64_t logprobs = -1;       // of so many tokens; -1: none
  bool json = false;
};

void check(const SampleArguments& arguments) {
  if (!arguments.prompt.empty() && !arguments.prompts.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "prompts come from one place",
                 .expected = "--prompt TEXT or --prompts FILE",
                 .found = "both",
                 .where = "command line",
                 .hint = "leave one of them out"});
  }
  if (!arguments.routes.empty() && arguments.settings.tokens == 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "nothing is read, so no token is sent to any expert",
                 .expected = "--tokens of 1 or more with --routes",
                 .found = "--tokens 0",
                 .where = "command line",
                 .hint = "--tokens 1"});
  }
  if (!arguments.routes.empty() && arguments.ranks.ranks() > 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "each rank would know the routes of its own tokens",
                 .expected = "--routes with one rank",
                 .found = fmt::format("{} ranks", arguments.ranks.ranks()),
                 .where = "command line",
                 .hint = "leave --tp and --pp out, or --routes"});
  }
  if (!arguments.raster.empty() && (!arguments.prompts.empty() || arguments.settings.count > 1)) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a picture of spikes is of one text",
                 .expected = "--spike-raster with --prompt, and --count 1",
                 .found = arguments.prompts.empty() ? fmt::format("--count {}", arguments.settings.count)
                                                    : "--prompts",
                 .where = "command line",
                 .hint = "leave one of them out"});
  }
  if (arguments.ranks.ranks() > 1 && (!arguments.raster.empty() || !arguments.spike_texts.empty())) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "each rank would see the inputs of its own part of a matrix",
                 .expected = fmt::format("{} with one rank",
                                         arguments.raster.empty() ? "--spikes-texts" : "--spike-raster"),
                 .found = fmt::format("{} ranks", arguments.ranks.ranks()),
                 .where = "command line",
                 .hint = "leave --tp and --pp out"});
  }
  if (arguments.settings.min_tokens <= arguments.settings.tokens) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "a text cannot be longer than it may become",
               .expected = fmt::format("at most --tokens = {}", arguments.settings.tokens),
               .found = fmt::format("--min-tokens {}", arguments.settings.min_tokens),
               .where = "command line",
               .hint = fmt::format("--tokens {}", arguments.settings.min_tokens)});
}

struct PromptIds {
  std::vector<int64_t> read;   // by the model
  std::vector<int32_t> shown;  // those whose text is printed
};

// A prompt of ids is read as it stands; before a text stands what begins one.
PromptIds ids_of(const generate::Prompt& prompt, const data::Tokenizer& tokenizer) {
  if (!prompt.ids)
    return {data::wide_ids(tokenizer.encode_prompt(prompt.text)), tokenizer.encode(prompt.text)};
  const auto bad = std::ranges::find_if(*prompt.ids, [&](int64_t id) {
    return id < 0 || id >= tokenizer.vocabulary() || !tokenizer.token_of(static_cast<int32_t>(id));
  });
  if (bad == prompt.ids->end()) return {*prompt.ids, {prompt.ids->begin(), prompt.ids->end()}};
  throw Error({.code = ExitCode::kData,
               .what = "a token id of the prompt has no token",
               .expected = fmt::format("ids of the tokenizer's tokens, below {}", tokenizer.vocabulary()),
               .found = std::to_string(*bad),
               .where = prompt.where});
}

void say_what_was_not_read(const generate::PrefixCache& prefixes, const SampleArguments& arguments) {
  if (arguments.prompts.empty()) return;
  if (!arguments.routes.empty()) {
    log_info("prefix cache: none (--routes takes down every token, so every prompt is read)");
    return;
  }
  if (arguments.ranks.ranks() > 1) {
    log_info("prefix cache: none (each of several ranks would drop what it keeps by its own count of bytes)");
    return;
  }
  if (!prefixes.keeps()) {
    log_info("prefix cache: none (--prefix-cache {} MiB has no room for {} tokens of a prompt)",
             arguments.prefix_cache, generate::PrefixCache::kTokens);
    return;
  }
  const generate::PrefixCache::Counts& counts = prefixes.counts();
  log_info(
      "prefix cache: {} of {} prompts went on from an earlier one, {} of {} tokens were not read again; {} "
      "beginnings kept, {} dropped, {} of {}",
      counts.continued, counts.prompts, counts.tokens_not_read, counts.tokens, prefixes.kept(),
      counts.dropped, bytes_text(prefixes.bytes()), bytes_text(arguments.prefix_cache << 20));
}

// The model has read the prompt and all of its own tokens but the last.
void draw_spikes(const kernels::SpikeStatistics& spikes, const SampledText& text,
                 const data::Tokenizer& tokenizer, const checkpoint::OpenModel& model,
                 const std::string& file) {
  std::vector<std::string> tokens;
  for (const int64_t id : text.read) tokens.push_back(text_of_token(id, tokenizer));
  for (const int64_t id : text.generation.ids) tokens.push_back(text_of_token(id, tokenizer));
  write_spike_raster(spikes, fmt::format("spikes of {} at step {}", model.folder.string(), model.step),
                     tokens, file);
}

// Groups of prompts, as many as are written together; what is kept of their beginnings goes from one to the
// next.
void run_all(generate::Generator& generator, const std::vector<std::vector<int64_t>>& prompts,
             const generate::GenerateSettings& settings, std::vector<SampledText>& texts,
             const std::function<void(const std::string&)>& say) {
  const auto of_group = static_cast<size_t>(std::max<int64_t>(1, kTogether / settings.count));
  for (size_t first = 0; first < prompts.size(); first += of_group) {
    const size_t before = first * static_cast<size_t>(settings.count);
    generate::GenerateSettings own = settings;
    own.seed += before;
    const auto generations =
        generator.run(std::span(prompts).subspan(first, std::min(of_group, prompts.size() - first)), own,
                      [&](int64_t sequence, int64_t id) {
                        SampledText& text = texts[before + static_cast<size_t>(sequence)];
                        const std::string fresh = text.continuation.add(static_cast<int32_t>(id));
                        if (say) say(fresh);
                      });
    for (size_t i = 0; i < generations.size(); ++i) texts[before + i].generation = generations[i];
  }
}

void say_where_texts_ended(const std::vector<SampledText>& texts, const generate::GenerateSettings& settings,
                           const recipe::ModelConfig& config) {
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].generation.finish != generate::Finish::kPositions) continue;
    const recipe::SequenceLimit limit = recipe::sequence_limit(config);
    log_warning("{} ends after {} of {} tokens: the model has {} positions ({}), and all are used",
                texts.size() == 1 ? "the text" : fmt::format("text {}", i + 1),
                texts[i].generation.ids.size(), settings.tokens, limit.tokens, limit.option);
  }
}

generate::GenerateSettings settings_of(const SampleArguments& arguments, const data::Tokenizer& tokenizer) {
  generate::GenerateSettings settings = arguments.settings;
  settings.records_routes = !arguments.routes.empty();
  settings.log_probabilities = arguments.json || arguments.logprobs >= 0;
  settings.top_log_probabilities = std::max<int64_t>(0, arguments.logprobs);
  settings.vocabulary = tokenizer.vocabulary();
  settings.never = data::wide_ids(tokenizer.without_token());
  settings.stop_ids = data::wide_ids(tokenizer.stop_ids());
  return settings;
}

// Alone, or as one of several ranks, of which the first prints.
void run_on(comm::Communicator* world, const SampleArguments& arguments,
            const std::vector<generate::Prompt>& written, at::Device device) {
  const DeviceScope scope(device);
  ModelOnRanks opened =
      open_on_ranks(arguments.checkpoint, arguments.dtype, device,
                    {.experts = arguments.experts, .weights = arguments.weights, .spikes = arguments.spikes},
                    arguments.ranks, world);
  checkpoint::OpenModel& model = opened.model;
  const recipe::ModelConfig& config = model.recipe.recipe.model;
  checkpoint::require_next_token(model, "sample");
  if (!arguments.routes.empty()) generate::require_routers(config, "--routes");
  const auto tokenizer = tokenizer_for(model, arguments.tokenizer);
  calibrate_spikes(model, tokenizer, arguments.spike_texts);
  const auto spikes = arguments.raster.empty() ? nullptr : keep_spikes(model, arguments.raster_of);
  const generate::GenerateSettings settings = settings_of(arguments, tokenizer);
  std::vector<std::vector<int64_t>> prompts;
  std::vector<SampledText> texts;
  for (const generate::Prompt& prompt : written) {
    const PromptIds ids = ids_of(prompt, tokenizer);
    generate::require_readable(ids.read, config, prompt.where);  // before anything is written
    prompts.push_back(ids.read);
    const std::string text = prompt.ids ? tokenizer.decode(ids.shown) : prompt.text;
    for (int64_t i = 0; i < settings.count; ++i)
      texts.push_back({text, ids.read, data::Continuation(tokenizer, ids.shown), {}});
  }
  const bool first = world == nullptr || world->rank() == 0;
  std::string before = texts.front().prompt;  // said with the first token: a prompt that is refused is not
  const auto say = [&](const std::string& fresh) { print(std::exchange(before, "") + fresh); };
  const bool streams = first && !arguments.json && texts.size() == 1;
  std::optional<generate::RankPass> pass;
  if (world != nullptr) pass.emplace(*model.decoder, *opened.ranks);
  const bool keeps = !arguments.prompts.empty() && !settings.records_routes && world == nullptr;
  const Stopwatch watch;
  generate::EngineOptions options{.int8_keys_values = arguments.kv_cache == "int8"};
  if (pass) options.pass = pass->function();
  generate::Generator generator(*model.decoder, keeps ? arguments.prefix_cache << 20 : 0, options);
  run_all(generator, prompts, settings, texts, streams ? say : std::function<void(const std::string&)>());
  const double seconds = std::max(watch.seconds(), 1e-9);
  if (!first) return;
  if (streams && !before.empty()) say("");
  print_texts(texts, {.model = model,
                      .tokenizer = tokenizer,
                      .seed = settings.seed,
                      .seconds = seconds,
                      .json = arguments.json,
                      .log_probabilities = arguments.logprobs >= 0});
  say_where_texts_ended(texts, settings, config);
  if (spikes != nullptr) draw_spikes(*spikes, texts[0], tokenizer, model, arguments.raster);
  say_what_was_not_read(generator.prefixes(), arguments);
  if (settings.records_routes) {
    std::vector<generate::RoutedSequence> sequences;
    for (const SampledText& text : texts) sequences.push_back(text.generation.routed);
    write_routes_of(model, sequences, arguments.routes);
  }
}

// The options that must be the same on every rank.
comm::IdentityParts told_to(const SampleArguments& of) {
  const generate::GenerateSettings& settings = of.settings;
  return {{"checkpoint", of.checkpoint},
          {"--prompt", of.prompt},
          {"--prompts", of.prompts},
          {"--tokenizer", of.tokenizer},
          {"--dtype", of.dtype},
          {"--kv-cache", of.kv_cache},
          {"--tokens", std::to_string(settings.tokens)},
          {"--min-tokens", std::to_string(settings.min_tokens)},
          {"--count", std::to_string(settings.count)},
          {"--temperature", fmt::format("{}", settings.temperature)},
          {"--top-k", std::to_string(settings.top_k)},
          {"--top-p", fmt::format("{}", settings.top_p)},
          {"--seed", std::to_string(settings.seed)}};
}

ExitCode run(const SampleArguments& arguments) {
  check(arguments);
  const at::Device device = device_named(arguments.device, "--device");
  const std::vector<generate::Prompt> written =
      arguments.prompts.empty() ? std::vector{generate::Prompt{.text = arguments.prompt, .where = "--prompt"}}
                                : generate::read_prompts(arguments.prompts);
  on_ranks(arguments.ranks, "sample", told_to(arguments),
           [&](comm::Communicator* world) { run_on(world, arguments, written, device); });
  return ExitCode::kDone;
}

}  // namespace

void add_sample(Command& program) {
  auto arguments = std::make_shared<SampleArguments>();
  Command sample = program.add(
      "sample", "continue a text with a trained model",
      {{"the newest checkpoint of a run", "sample runs/first-run --prompt \"import torch\" --tokens 100"},
       {"the likeliest continuation", "sample runs/first-run --prompt \"def \" --temperature 0"},
       {"sixteen texts at once, for a program",
        "sample runs/first-run --prompt \"class \" --count 16 --seed 7 --json"},
       {"and the experts that wrote them",
        "sample runs/experts --prompt \"class \" --count 16 --routes routes.safetensors"}});
  sample.option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory").required();
  sample.option("--prompt", arguments->prompt, "the text to continue").may_be_empty();
  sample.option("--prompts", arguments->prompts,
                "many of them: FILE.jsonl with a JSON text, {\"prompt\": …} or {\"ids\": […]} in each line, "
                "or any other file with a prompt in each line");
  sample
      .option("--prefix-cache", arguments->prefix_cache,
              "with --prompts: MiB for what was made of their beginnings, 256 tokens at a time, from which "
              "prompts that begin alike go on; 0: none")
      .at_least(0)
      .at_most(1 << 24)
      .default_shown();
  sample.option("--routes", arguments->routes,
                "of a model with experts: write which of them every token was sent to, for `score "
                "--replay-routes`: safetensors file "
                "(docs/formats/routes.md)");
  sample.option("--tokens", arguments->settings.tokens, "at most this many new tokens")
      .at_least(0)
      .default_shown();
  sample
      .option("--count", arguments->settings.count, "texts, written side by side; each as it would be alone")
      .at_least(1)
      .default_shown();
  sample.option("--min-tokens", arguments->settings.min_tokens, "the document does not end before this many")
      .at_least(0)
      .default_shown();
  sample.option("--temperature", arguments->settings.temperature, "0: always the likeliest token")
      .at_least(0)
      .at_most(1000)
      .default_shown();
  sample.option("--top-k", arguments->settings.top_k, "keep the k likeliest tokens; 0: all")
      .at_least(0)
      .default_shown();
  sample
      .option("--top-p", arguments->settings.top_p, "keep the likeliest tokens whose probabilities sum to p")
      .above(0)
      .at_most(1)
      .default_shown();
  sample
      .option("--logprobs", arguments->logprobs,
              "write the log probability of each token under the temperature, and of so many of the "
              "likeliest in its place")
      .at_least(0)
      .at_most(1000);
  sample
      .option("--seed", arguments->settings.seed,
              "of the draws; text i of several (from 0) has those of --seed + i")
      .default_shown();
  sample.option("--tokenizer", arguments->tokenizer, "tokenizer.json (default: the run's own)");
  add_model_options(sample, arguments->dtype, arguments->experts, arguments->weights, arguments->device);
  add_cache_option(sample, arguments->kv_cache);
  add_spike_options(sample, arguments->spikes);
  add_spike_texts(sample, arguments->spike_texts);
  sample.option("--spike-raster", arguments->raster,
                "write a picture of the spikes that matrices read, step by step of each token: SVG file");
  sample.option("--spike-raster-of", arguments->raster_of, "which matrices: those whose names contain this")
      .default_shown();
  add_rank_options(sample, arguments->ranks);
  sample.json_flag(arguments->json);
  sample.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
