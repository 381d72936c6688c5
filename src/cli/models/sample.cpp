// `longhaul sample CKPT --prompt TEXT | --prompts FILE --tokens N --count K --seed S [--logprobs N] [--json]
// [--routes FILE]`
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/models/calibrate_spikes.h"
#include "cli/models/model_options.h"
#include "cli/models/model_tokenizer.h"
#include "cli/models/write_routes.h"
#include "cli/models/write_spike_raster.h"
#include "cli/output.h"
#include "data/tokenizer/continuation.h"
#include "generate/generate.h"
#include "generate/prompts_file.h"
#include "recipe/mixers.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

// Sequences that are written side by side, of a file of prompts.
constexpr int64_t kTogether = 32;

struct SampleArguments {
  std::string checkpoint, prompt, prompts, routes, tokenizer, dtype, experts, device = "auto";
  std::string spike_texts, raster, raster_of = "layers.0.";
  checkpoint::SpikeRequest spikes;
  generate::GenerateSettings settings;
  int64_t prefix_cache = 256;  // MiB
  int64_t logprobs = -1;       // of so many tokens; -1: none
  bool json = false;
};

// One sequence as it is printed.
struct Text {
  std::string prompt;
  std::vector<int64_t> read;  // ids of the prompt, with what begins a text
  data::Continuation continuation;
  generate::Generation generation;
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
  if (!arguments.raster.empty() && (!arguments.prompts.empty() || arguments.settings.count > 1)) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a picture of spikes is of one text",
                 .expected = "--spike-raster with --prompt, and --count 1",
                 .found = arguments.prompts.empty() ? fmt::format("--count {}", arguments.settings.count)
                                                    : "--prompts",
                 .where = "command line",
                 .hint = "leave one of them out"});
  }
  if (arguments.settings.min_tokens <= arguments.settings.tokens) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "a text cannot be longer than it may become",
               .expected = fmt::format("at most --tokens = {}", arguments.settings.tokens),
               .found = fmt::format("--min-tokens {}", arguments.settings.min_tokens),
               .where = "command line",
               .hint = fmt::format("--tokens {}", arguments.settings.min_tokens)});
}

std::vector<int64_t> wide(const std::vector<int32_t>& ids) { return {ids.begin(), ids.end()}; }

struct PromptIds {
  std::vector<int64_t> read;   // by the model
  std::vector<int32_t> shown;  // those whose text is printed
};

// A prompt of ids is read as it stands; before a text stands what begins one.
PromptIds ids_of(const generate::Prompt& prompt, const data::Tokenizer& tokenizer) {
  if (!prompt.ids) return {wide(tokenizer.encode_prompt(prompt.text)), tokenizer.encode(prompt.text)};
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

// Several texts, each under a line that says which draws it has.
void print_each(const std::vector<Text>& texts, const SampleArguments& arguments) {
  for (size_t i = 0; i < texts.size(); ++i) {
    print(fmt::format("{}--- {} of {}, --seed {}\n", i == 0 ? "" : "\n", i + 1, texts.size(),
                      arguments.settings.seed + i));
    print(texts[i].prompt + texts[i].continuation.text() + texts[i].continuation.rest() + "\n");
  }
}

std::string text_of(int64_t id, const data::Tokenizer& tokenizer) {
  const auto narrow = static_cast<int32_t>(id);
  return tokenizer.decode(std::span(&narrow, 1));
}

std::string shown_token(int64_t id, const data::Tokenizer& tokenizer) {
  return "'" + printable(text_of(id, tokenizer)) + "'";
}

void say_what_was_not_read(const generate::PrefixCache& prefixes, const SampleArguments& arguments) {
  if (arguments.prompts.empty()) return;
  if (!arguments.routes.empty()) {
    log_info("prefix cache: none (--routes takes down every token, so every prompt is read)");
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

nlohmann::ordered_json as_json(const std::vector<std::vector<generate::TokenProbability>>& top,
                               const data::Tokenizer& tokenizer) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (const auto& of_token : top) {
    tokens.push_back(nlohmann::ordered_json::array());
    for (const auto& [id, log_probability] : of_token)
      tokens.back().push_back(
          {{"id", id}, {"text", text_of(id, tokenizer)}, {"log_probability", log_probability}});
  }
  return tokens;
}

// A line for each token: its own log probability, then the likeliest tokens in its place.
void print_log_probabilities(const generate::Generation& generation, const data::Tokenizer& tokenizer) {
  for (size_t t = 0; t < generation.ids.size(); ++t) {
    const auto of = [&](int64_t id, double log_probability) {
      return fmt::format("{:8.3f} {}", log_probability, shown_token(id, tokenizer));
    };
    print(of(generation.ids[t], generation.log_probabilities[t]));
    for (size_t k = 0; !generation.top.empty() && k < generation.top[t].size(); ++k)
      print((k == 0 ? "   of: " : "  ") + of(generation.top[t][k].id, generation.top[t][k].log_probability));
    print("\n");
  }
}

void print_as_json(const Text& text, uint64_t seed, double tokens_per_second,
                   const checkpoint::OpenModel& model, const data::Tokenizer& tokenizer) {
  nlohmann::ordered_json json = {{"prompt", text.prompt},
                                 {"text", text.continuation.text() + text.continuation.rest()},
                                 {"prompt_ids", text.read},
                                 {"ids", text.generation.ids},
                                 {"log_probabilities", text.generation.log_probabilities},
                                 {"finish", generate::name_of(text.generation.finish)},
                                 {"step", model.step},
                                 {"checkpoint", model.folder.string()},
                                 {"seed", seed},
                                 {"prompt_tokens", text.generation.prefill_tokens},
                                 {"continued_tokens", text.generation.continued_tokens},
                                 {"tokens_per_second", tokens_per_second}};
  if (!text.generation.top.empty()) json["top_log_probabilities"] = as_json(text.generation.top, tokenizer);
  print_json(json);
}

// The model has read the prompt and all of its own tokens but the last.
void draw_spikes(const kernels::SpikeStatistics& spikes, const Text& text, const data::Tokenizer& tokenizer,
                 const checkpoint::OpenModel& model, const std::string& file) {
  std::vector<std::string> tokens;
  for (const int64_t id : text.read) tokens.push_back(text_of(id, tokenizer));
  for (const int64_t id : text.generation.ids) tokens.push_back(text_of(id, tokenizer));
  write_spike_raster(spikes, fmt::format("spikes of {} at step {}", model.folder.string(), model.step),
                     tokens, file);
}

// Groups of prompts, as many as are written together; what is kept of their beginnings goes from one to the
// next.
void run_all(generate::Generator& generator, const std::vector<std::vector<int64_t>>& prompts,
             const generate::GenerateSettings& settings, std::vector<Text>& texts,
             const std::function<void(const std::string&)>& say) {
  const auto of_group = static_cast<size_t>(std::max<int64_t>(1, kTogether / settings.count));
  for (size_t first = 0; first < prompts.size(); first += of_group) {
    const size_t before = first * static_cast<size_t>(settings.count);
    generate::GenerateSettings own = settings;
    own.seed += before;
    const auto generations =
        generator.run(std::span(prompts).subspan(first, std::min(of_group, prompts.size() - first)), own,
                      [&](int64_t sequence, int64_t id) {
                        Text& text = texts[before + static_cast<size_t>(sequence)];
                        const std::string fresh = text.continuation.add(static_cast<int32_t>(id));
                        if (say) say(fresh);
                      });
    for (size_t i = 0; i < generations.size(); ++i) texts[before + i].generation = generations[i];
  }
}

ExitCode run(const SampleArguments& arguments) {
  check(arguments);
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  const bool many = !arguments.prompts.empty();
  const std::vector<generate::Prompt> written =
      many ? generate::read_prompts(arguments.prompts)
           : std::vector{generate::Prompt{.text = arguments.prompt, .where = "--prompt"}};
  auto model = checkpoint::open_model(arguments.checkpoint, arguments.dtype, device, arguments.experts,
                                      arguments.spikes);
  checkpoint::require_next_token(model, "sample");
  if (!arguments.routes.empty()) generate::require_routers(model.recipe.recipe.model, "--routes");
  const auto tokenizer = tokenizer_for(model, arguments.tokenizer);
  calibrate_spikes(model, tokenizer, arguments.spike_texts);
  const auto spikes = arguments.raster.empty() ? nullptr : keep_spikes(model, arguments.raster_of);
  generate::GenerateSettings settings = arguments.settings;
  settings.records_routes = !arguments.routes.empty();
  settings.log_probabilities = arguments.json || arguments.logprobs >= 0;
  settings.top_log_probabilities = std::max<int64_t>(0, arguments.logprobs);
  settings.vocabulary = tokenizer.vocabulary();
  settings.never = wide(tokenizer.without_token());
  settings.stop_ids = wide(tokenizer.stop_ids());
  std::vector<std::vector<int64_t>> prompts;
  std::vector<Text> texts;
  for (const generate::Prompt& prompt : written) {
    const PromptIds ids = ids_of(prompt, tokenizer);
    // before anything is written
    generate::require_readable(ids.read, model.recipe.recipe.model, prompt.where);
    prompts.push_back(ids.read);
    const std::string text = prompt.ids ? tokenizer.decode(ids.shown) : prompt.text;
    for (int64_t i = 0; i < settings.count; ++i)
      texts.push_back({text, ids.read, data::Continuation(tokenizer, ids.shown), {}});
  }
  const bool streams = !arguments.json && texts.size() == 1;
  std::string before = texts.front().prompt;  // said with the first token: a prompt that is refused is not
  const auto say = [&](const std::string& fresh) { print(std::exchange(before, "") + fresh); };
  const Stopwatch watch;
  generate::Generator generator(*model.decoder,
                                many && !settings.records_routes ? arguments.prefix_cache << 20 : 0);
  run_all(generator, prompts, settings, texts, streams ? say : std::function<void(const std::string&)>());
  const double seconds = std::max(watch.seconds(), 1e-9);
  if (streams) say(texts[0].continuation.rest() + "\n");
  if (!streams && !arguments.json) print_each(texts, arguments);
  int64_t tokens = 0;
  for (const Text& text : texts) tokens += static_cast<int64_t>(text.generation.ids.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const generate::Generation& generation = texts[i].generation;
    if (generation.finish == generate::Finish::kPositions) {
      const recipe::SequenceLimit limit = recipe::sequence_limit(model.decoder->config());
      log_warning("{} ends after {} of {} tokens: the model has {} positions ({}), and all are used",
                  texts.size() == 1 ? "the text" : fmt::format("text {}", i + 1), generation.ids.size(),
                  settings.tokens, limit.tokens, limit.option);
    }
    if (arguments.json)
      print_as_json(texts[i], settings.seed + i, static_cast<double>(tokens) / seconds, model, tokenizer);
    if (arguments.logprobs >= 0 && !arguments.json) print_log_probabilities(generation, tokenizer);
  }
  if (spikes != nullptr) draw_spikes(*spikes, texts[0], tokenizer, model, arguments.raster);
  say_what_was_not_read(generator.prefixes(), arguments);
  if (settings.records_routes) {
    std::vector<generate::RoutedSequence> sequences;
    for (const Text& text : texts) sequences.push_back(text.generation.routed);
    write_routes_of(model, sequences, arguments.routes);
  }
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
  add_model_options(sample, arguments->dtype, arguments->experts, arguments->device);
  add_spike_options(sample, arguments->spikes);
  add_spike_texts(sample, arguments->spike_texts);
  sample.option("--spike-raster", arguments->raster,
                "write a picture of the spikes that matrices read, step by step of each token: SVG file");
  sample.option("--spike-raster-of", arguments->raster_of, "which matrices: those whose names contain this")
      .default_shown();
  sample.json_flag(arguments->json);
  sample.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
