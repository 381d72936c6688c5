// `longhaul evaluate CKPT --data PATH --json`
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/checksum.h"
#include "base/files/folders.h"
#include "base/files/temporary_folder.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "cli/command.h"
#include "cli/models/calibrate_spikes.h"
#include "cli/models/evaluate.h"
#include "cli/models/model_options.h"
#include "cli/models/model_tokenizer.h"
#include "cli/models/spike_report.h"
#include "cli/output.h"
#include "comm/communicator.h"
#include "comm/gloo/rank_processes.h"
#include "comm/placement.h"
#include "comm/world.h"
#include "data/corpus/corpus.h"
#include "data/corpus/token_files.h"
#include "data/tokens/prepare.h"
#include "data/tokens/prepare_tokens.h"
#include "evaluate/choice_files.h"
#include "evaluate/perplexity.h"
#include "evaluate/questions.h"
#include "language/pretrain.h"
#include "model/spiking_product.h"
#include "optim/schedule.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

// The texts below `path`, all of them held out, as token shards in the user's cache.
data::PreparedSource prepare_held_out(const EvaluateArguments& arguments,
                                      const recipe::DataOptions& trained_on,
                                      const data::Tokenizer& tokenizer) {
  const std::filesystem::path path = path_of_text(arguments.data);
  if (data::names_token_files(path)) return data::prepare_tokens({path, 100}, tokenizer, user_cache_folder());
  recipe::DataOptions options = trained_on;
  options.source = {arguments.data};
  if (!arguments.jsonl_field.empty()) options.jsonl_field = arguments.jsonl_field;
  options.validation.clear();
  options.weights.clear();
  options.include.clear();
  options.held_out_percent = 100;
  options.remove_copies = false;  // every byte that was named counts
  const data::Corpus corpus = data::Corpus::open(data::corpus_options(options, {}));
  return data::prepare(corpus, 0, data::encoder_of(tokenizer), user_cache_folder());
}

// Rank 0 prepares the texts; the others then find them in the cache, or prepare them on their own machine.
data::PreparedSource prepare_on_ranks(const EvaluateArguments& arguments,
                                      const recipe::DataOptions& trained_on, const data::Tokenizer& tokenizer,
                                      comm::Communicator& world) {
  if (world.size() == 1) return prepare_held_out(arguments, trained_on, tokenizer);
  std::optional<data::PreparedSource> source;
  if (world.rank() == 0) source.emplace(prepare_held_out(arguments, trained_on, tokenizer));
  world.barrier({.name = "texts are prepared"}).wait();
  if (!source) source.emplace(prepare_held_out(arguments, trained_on, tokenizer));
  return std::move(*source);
}

evaluate::EvaluationShare share_of(comm::Communicator& world) {
  return {
      .ranks = world.size(), .rank = world.rank(), .sum_over_ranks = [&world](std::vector<double>& numbers) {
        const Tensor all = at::tensor(numbers, at::kDouble);
        world.all_reduce(all, comm::Reduction::kSum, {.name = "results of an evaluation"}).wait();
        std::copy_n(all.const_data_ptr<double>(), numbers.size(), numbers.begin());
      }};
}

int64_t overlap_of(const EvaluateArguments& arguments, int64_t context) {
  if (arguments.stride == 0) return 0;
  if (arguments.stride <= context) return context - arguments.stride;
  throw Error({.code = ExitCode::kUsage,
               .what = "the stride is longer than the context: tokens between would not be judged",
               .expected = fmt::format("at most {}", context),
               .found = std::to_string(arguments.stride),
               .where = "--stride",
               .hint = "a smaller --stride, or a larger --context"});
}

// What all ranks must have been told alike: by it they see that they do the same.
comm::Identity identity_of(const EvaluateArguments& of) {
  const comm::IdentityParts told = {{"--task", of.task},
                                    {"--data", of.data},
                                    {"--jsonl-field", of.jsonl_field},
                                    {"--context", std::to_string(of.context)},
                                    {"--stride", std::to_string(of.stride)},
                                    {"--tokenizer", of.tokenizer},
                                    {"--dtype", of.dtype},
                                    {"--experts", of.experts},
                                    {"--weights", of.weights},
                                    {"--kv-cache", of.kv_cache},
                                    {"--spikes", of.spikes.wanted ? "yes" : ""},
                                    {"--spikes-k", fmt::format("{}", of.spikes.k)},
                                    {"--lengths", of.lengths},
                                    {"--depths", of.depths},
                                    {"--pairs", of.pairs},
                                    {"--kind", of.kind},
                                    {"--kinds", of.kinds},
                                    {"--haystack", of.haystack},
                                    {"--format", of.format},
                                    {"--prefix", of.prefix},
                                    {"--samples", std::to_string(of.samples)},
                                    {"--limit", std::to_string(of.limit)},
                                    {"--tokens-per-pass", std::to_string(of.tokens_per_pass)},
                                    {"--seed", std::to_string(of.seed)}};
  std::string all;
  for (const auto& [option, value] : told) all += fmt::format("{} {}\n", option, value);
  return {"evaluation", sha256_hex(all), told};
}

// What was typed, once a rank, by each of which the words are read again: they find their place in the
// environment. The first one prints.
ExitCode run_on_ranks(const EvaluateArguments& arguments) {
  const TemporaryFolder folder;
  const auto failure = comm::failure_of({.size = arguments.ranks,
                                         .words = comm::own_words(),
                                         .threads = std::max<int64_t>(1, threads() / arguments.ranks),
                                         .folder = folder.path(),
                                         .first_speaks = true});
  if (!failure) return ExitCode::kDone;
  say(stderr,
      fmt::format("{}\nevaluate: rank {} of {} ended with {}{}\n", failure->said, failure->rank,
                  arguments.ranks, failure->status,
                  failure->said.empty() ? "; its messages stand above" : ", and said what stands above"));
  return static_cast<ExitCode>(failure->status);
}

ExitCode run(const EvaluateArguments& arguments) {
  if (const comm::Placement place = comm::find_place();
      arguments.ranks > 1 && place.size != arguments.ranks) {
    if (place.size == 1) return run_on_ranks(arguments);
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "ranks are here already",
         .expected = fmt::format("--ranks {}, or none, where {} ranks were started", place.size, place.size),
         .found = fmt::format("--ranks {}", arguments.ranks),
         .where = place.engine,
         .hint = "leave --ranks out: torchrun's or srun's ranks share the evaluation by themselves"});
  }
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  auto model = checkpoint::open_model(
      arguments.checkpoint, arguments.dtype, device,
      {.experts = arguments.experts, .weights = arguments.weights, .spikes = arguments.spikes});
  const bool masked = model.recipe.recipe.train.objective == recipe::Objective::kMasked;
  if (!arguments.task.empty() && !arguments.kv_cache.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "tasks read short passages without a cache, so that its eight bits would not show",
                 .expected = "--kv-cache with --data alone",
                 .found = "--task " + arguments.task,
                 .where = "command line",
                 .hint = "evaluate --data PATH --kv-cache int8 says what they cost"});
  }
  if (!arguments.spike_texts.empty())
    calibrate_spikes(model, tokenizer_for(model, arguments.tokenizer), arguments.spike_texts);
  if (!arguments.task.empty()) {
    checkpoint::require_next_token(model, fmt::format("--task {}", arguments.task));
    const auto world = comm::join_world(
        {.identity = {{"checkpoint", model.folder.filename().string()}, identity_of(arguments)}});
    return run_evaluation_task(arguments, model, share_of(*world));
  }
  if (arguments.data.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is nothing to evaluate on",
                 .expected = "--data PATH, or --task NAME",
                 .found = "neither",
                 .hint = program_command("evaluate --help") + " shows both"});
  }
  const auto tokenizer = tokenizer_for(model, arguments.tokenizer);
  const auto& recipe = model.recipe.recipe;
  const auto world = comm::join_world(
      {.identity = {{"checkpoint", model.folder.filename().string()}, identity_of(arguments)}});
  const data::PreparedSource source = prepare_on_ranks(arguments, recipe.data, tokenizer, *world);
  language::require_grids(recipe.model, {&source.held_out});
  const int64_t context =
      arguments.context > 0 ? arguments.context : optim::longest_sequence(recipe.optim, recipe.train);
  data::EvaluationOptions options{.context = context, .overlap = overlap_of(arguments, context)};
  if (masked) options.masking = data::evaluation_masks(tokenizer, recipe.train.masked_share);
  data::EvaluationReader reader({&source.held_out}, options);
  // Each rank would know its own texts alone.
  model::Spiking* const spiking = world->size() == 1 ? model.decoder->spiking().get() : nullptr;
  const auto spikes = spiking != nullptr ? model::gather_statistics(*spiking) : nullptr;
  std::optional<Progress> progress;  // of rank 0, which speaks for all
  if (world->rank() == 0) progress.emplace("evaluating", reader.tokens(), Progress::Unit::kTokens);
  const auto result = *evaluate::evaluate(
      *model.decoder, reader,
      [&](int64_t tokens) {
        if (progress) progress->advance(tokens);
        return true;
      },
      evaluate::Accuracy::kYes, share_of(*world),
      arguments.kv_cache.empty() ? evaluate::KeysValues::kWide : evaluate::KeysValues::kInt8);
  if (world->rank() != 0) return ExitCode::kDone;
  if (arguments.json) {
    nlohmann::ordered_json json{{"step", model.step}, {"loss", result.loss}};
    if (masked) {
      json.update(
          {{"bits_per_masked_token", result.bits_per_token()}, {"masked_share", recipe.train.masked_share}});
    } else {
      json.update({{"bits_per_byte", result.bits_per_byte},
                   {"perplexity", result.perplexity},
                   {"bytes", result.bytes}});
    }
    json.update({{"accuracy", *result.accuracy},
                 {"tokens", result.tokens},
                 {"context", context},
                 {"stride", arguments.stride > 0 ? arguments.stride : context},
                 {"checkpoint", model.folder.string()}});
    if (spikes != nullptr) json["spikes"] = spikes_json(*spikes, spiking->options.k);
    print_json(json);
  } else if (masked) {
    print(fmt::format(
        "step {}: {:.4f} bits per masked token, loss {:.4f}, {:.1f} % right on {}, a share of {:g}\n",
        model.step, result.bits_per_token(), result.loss, 100 * *result.accuracy,
        counted(result.tokens, "masked token"), recipe.train.masked_share));
  } else {
    print(fmt::format(
        "step {}: {:.4f} bits per byte, loss {:.4f}, perplexity {:.2f}, next token {:.1f} % on {}, {}\n",
        model.step, result.bits_per_byte, result.loss, result.perplexity, 100 * *result.accuracy,
        counted(result.tokens, "token"), bytes_text(result.bytes)));
  }
  if (spikes != nullptr && !arguments.json) print(spikes_text(*spikes, spiking->options.k));
  return ExitCode::kDone;
}

}  // namespace

void add_evaluate(Command& program) {
  auto arguments = std::make_shared<EvaluateArguments>();
  Command evaluate = program.add(
      "evaluate", "how well a model predicts texts, and what it remembers",
      {{"bits per byte, perplexity and next-token accuracy of texts",
        "evaluate runs/first-run --data ~/texts --stride 256"},
       {"a needle in a haystack, by length and depth, with a page of its own, by two processes",
        "evaluate runs/first-run --task needle --lengths 512,1024,2048 --page needle.html --ranks 2"},
       {"multiple choice from a local file, for a program",
        "evaluate runs/first-run --task choice --data hellaswag.jsonl --json"}});
  evaluate.option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory").required();
  evaluate.option(
      "--data", arguments->data,
      "file or folder of text or JSONL; of --task choice its file of questions, of mr-niah and longbench "
      "their files");
  evaluate.option("--jsonl-field", arguments->jsonl_field,
                  "key that holds the text of a document in JSONL files (default: data.jsonl_field)");
  evaluate
      .option("--context", arguments->context,
              "longest context in tokens (default: of training); longbench: of a question with its answer")
      .at_least(1);
  evaluate
      .option("--stride", arguments->stride,
              "a document longer than the context is read in windows so far apart; each judges what the one "
              "before has not seen (default: the "
              "context: windows without memory)")
      .at_least(1);
  evaluate
      .option("--task", arguments->task,
              "instead of the loss on texts: a test of memory, or questions (docs/guides/evaluate.md)")
      .one_of({"needle", "mqar", "copy", "ruler", "choice", "mr-niah", "longbench"});
  evaluate.option("--lengths", arguments->lengths,
                  "tokens of a question, with commas (default: train.sequence, twice and four times that)");
  evaluate.option("--depths", arguments->depths, "needle: where it is hidden, in percent").default_shown();
  evaluate.option("--kind", arguments->kind, "needle: one, several, or what was said in a conversation")
      .one_of(evaluate::needle_kinds())
      .default_shown();
  evaluate.option("--kinds", arguments->kinds, "ruler: which, with commas (default: all)");
  evaluate.option("--haystack", arguments->haystack,
                  "needle, ruler: a text to hide needles in (default: five sentences, again and again)");
  evaluate.option("--pairs", arguments->pairs,
                  "mqar, copy: how much is to be remembered, with commas (default: recall.pairs)");
  evaluate.option("--format", arguments->format, "choice: of the file (default: by its fields)")
      .one_of(evaluate::choice_formats());
  evaluate
      .option("--prefix", arguments->prefix,
              "choice: before a context stands what the tokenizer's template says, as in "
              "lm-evaluation-harness; or the end-of-document token, or "
              "nothing")
      .one_of({"template", "separator", "none"})
      .default_shown();
  evaluate.option("--samples", arguments->samples, "questions for each entry (default: 10; mqar, copy: 64)")
      .at_least(1);
  evaluate
      .option("--limit", arguments->limit,
              "choice, mr-niah, longbench: only so many questions from the front of a file")
      .at_least(1);
  evaluate.option("--seed", arguments->seed, "of questions that are made up").default_shown();
  evaluate
      .option("--weight-growth", arguments->weight_growth,
              "needle: how fast weights grow with depth and length in the weighted score")
      .at_least(1)
      .default_shown();
  evaluate
      .option("--tokens-per-pass", arguments->tokens_per_pass,
              "tokens in one pass of the model; longer questions are read in pieces")
      .at_least(1)
      .default_shown();
  evaluate.option("--page", arguments->page, "write a page with heat maps to this file");
  evaluate
      .option("--ranks", arguments->ranks,
              "so many processes of this machine share texts or questions, with the figures of one; each "
              "holds the model (default: 1, or what torchrun or srun "
              "started)")
      .at_least(1)
      .at_most(1024);
  evaluate.option("--tokenizer", arguments->tokenizer, "tokenizer.json (default: the run's own)");
  add_model_options(evaluate, arguments->dtype, arguments->experts, arguments->weights, arguments->device);
  add_cache_option(evaluate, arguments->kv_cache);
  add_spike_options(evaluate, arguments->spikes);
  add_spike_texts(evaluate, arguments->spike_texts);
  evaluate.json_flag(arguments->json);
  evaluate.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
