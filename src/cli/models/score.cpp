// `longhaul score CKPT --ids ids.json --out logits.safetensors [--routes FILE] [--replay-routes FILE]
// [--tp N] [--pp N]`
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/files/file.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/models/model_options.h"
#include "cli/models/model_ranks.h"
#include "cli/models/write_routes.h"
#include "cli/output.h"
#include "data/tokenizer/commands.h"
#include "generate/rank_pass.h"
#include "generate/routes_file.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "storage/safetensors.h"
#include "tensor/device.h"
#include "tensor/to_tensor.h"

namespace longhaul::cli {
namespace {

struct ScoreArguments {
  std::string checkpoint, ids, out, routes, replay_routes, dtype, experts, weights, device = "auto";
  checkpoint::SpikeRequest spikes;
  RankOptions ranks;
};

void check(const std::vector<int64_t>& ids, int64_t rows, const std::string& where) {
  if (ids.empty())
    throw Error({.code = ExitCode::kData,
                 .what = "there are no ids to score",
                 .expected = "a JSON list of token ids",
                 .where = where});
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < rows) continue;
    throw Error({.code = ExitCode::kData,
                 .what = "a token id lies outside the model's vocabulary",
                 .expected = fmt::format("0 to {}", rows - 1),
                 .found = fmt::format("{} in place {} of {}", ids[i], i + 1, ids.size()),
                 .where = where,
                 .hint = "use the tokenizer that the model was trained with"});
  }
}

// Where the file sends other tokens, its routes say nothing of these.
void check_same(const std::vector<int64_t>& ids, const std::vector<generate::RoutedSequence>& sequences,
                const ScoreArguments& arguments) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    throw Error({.code = ExitCode::kData,
                 .what = "the routes are of other tokens",
                 .expected = expected,
                 .found = found,
                 .where = arguments.replay_routes,
                 .hint = fmt::format("without --ids its own ids are scored; the last token that `sample` "
                                     "drew is none of them, for it was never read")});
  };
  if (sequences.size() != 1)
    refuse(fmt::format("one sequence, as {} has", arguments.ids),
           fmt::format("{} sequences", sequences.size()));
  const std::vector<int64_t>& theirs = sequences.front().ids;
  if (theirs.size() != ids.size())
    refuse(fmt::format("{} tokens, as {} has", ids.size(), arguments.ids), fmt::format("{}", theirs.size()));
  const size_t place = static_cast<size_t>(std::ranges::mismatch(ids, theirs).in1 - ids.begin());
  if (place < ids.size()) {
    refuse(fmt::format("{} in place {} of {}, as {} has", ids[place], place + 1, ids.size(), arguments.ids),
           fmt::format("{}", theirs[place]));
  }
}

// What is to be scored: ids, and where they are replayed their routes.
std::vector<generate::RoutedSequence> sequences_of(const ScoreArguments& arguments,
                                                   const recipe::ModelConfig& config) {
  std::vector<generate::RoutedSequence> sequences;
  if (!arguments.replay_routes.empty()) sequences = generate::read_routes(arguments.replay_routes, config);
  if (!arguments.ids.empty()) {
    const std::vector<int32_t> ids = data::read_ids(read_text(arguments.ids), arguments.ids);
    const generate::RoutedSequence asked{{ids.begin(), ids.end()}, {}};
    if (arguments.replay_routes.empty())
      sequences = {asked};
    else
      check_same(asked.ids, sequences, arguments);
  }
  for (const generate::RoutedSequence& each : sequences)
    check(each.ids, config.vocabulary, arguments.ids.empty() ? arguments.replay_routes : arguments.ids);
  return sequences;
}

// fp32 [tokens, vocabulary] on the CPU. `sequence` keeps where its tokens went: where it says, if it says so.
Tensor logits_of(model::Decoder& decoder, generate::RoutedSequence& sequence) {
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  if (!sequence.routes.empty()) {
    auto replayed = std::make_shared<model::Routes>();
    for (const auto& [block, choice_tk] : sequence.routes)
      (*replayed)[block] = to_device(choice_tk.contiguous(), decoder.device());
    context.replayed_routes = replayed;
  }
  context.recorded_routes = std::make_shared<model::Routes>();
  const Tensor ids = to_tensor(sequence.ids, decoder.device());
  const Tensor logits =
      decoder.logits(decoder.hidden(context, ids, layout::make_single(ids.size(0)))).to(at::kFloat).cpu();
  for (const auto& [block, choice_tk] : *context.recorded_routes) sequence.routes[block] = choice_tk.cpu();
  return logits;
}

// The same on several ranks. A collective call.
Tensor logits_on_ranks(const ModelOnRanks& opened, const generate::RoutedSequence& sequence) {
  const generate::RankPass pass(*opened.model.decoder, *opened.ranks);
  std::vector<int64_t> all(sequence.ids.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return pass.logits(sequence.ids, layout::make_single(std::ssize(all)), all).to(at::kFloat).cpu();
}

void check(const ScoreArguments& arguments) {
  if (arguments.ids.empty() && arguments.replay_routes.empty()) {
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "there is nothing to score",
         .expected = "--ids FILE, a JSON list of token ids, or --replay-routes FILE, whose ids are scored",
         .found = "neither",
         .where = "command line",
         .hint = "--ids ids.json"});
  }
  if (arguments.ranks.ranks() == 1 || (arguments.routes.empty() && arguments.replay_routes.empty())) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "each rank would know the routes of its own tokens",
               .expected = "--routes and --replay-routes with one rank",
               .found = fmt::format("{} ranks", arguments.ranks.ranks()),
               .where = "command line",
               .hint = "leave --tp and --pp out"});
}

void write_logits(const Tensor& logits, const std::string& path, int64_t step) {
  storage::LocalFileSystem files;
  const storage::TensorData data{
      "logits",
      storage::DType::kF32,
      {logits.size(0), logits.size(1)},
      {static_cast<const std::byte*>(logits.const_data_ptr()), static_cast<size_t>(logits.nbytes())}};
  storage::write_safetensors(files, path, {&data, 1});
  print(
      fmt::format("logits [{}, {}] of step {} written to {}\n", logits.size(0), logits.size(1), step, path));
}

// Alone, or as one of several ranks, of which the first writes.
void run_on(comm::Communicator* world, const ScoreArguments& arguments, at::Device device) {
  const DeviceScope scope(device);
  const ModelOnRanks opened =
      open_on_ranks(arguments.checkpoint, arguments.dtype, device,
                    {.experts = arguments.experts, .weights = arguments.weights, .spikes = arguments.spikes},
                    arguments.ranks, world);
  const recipe::ModelConfig& config = opened.model.recipe.recipe.model;
  if (!arguments.routes.empty()) generate::require_routers(config, "--routes");
  if (!arguments.replay_routes.empty()) generate::require_routers(config, "--replay-routes");
  std::vector<generate::RoutedSequence> sequences = sequences_of(arguments, config);
  const at::NoGradGuard no_gradient;
  std::vector<Tensor> of_each;
  for (generate::RoutedSequence& sequence : sequences) {
    of_each.push_back(world == nullptr ? logits_of(*opened.model.decoder, sequence)
                                       : logits_on_ranks(opened, sequence));
  }
  if (world != nullptr && world->rank() > 0) return;
  write_logits(at::cat(of_each).contiguous(), arguments.out, opened.model.step);
  if (!arguments.routes.empty()) write_routes_of(opened.model, sequences, arguments.routes);
}

ExitCode run(const ScoreArguments& arguments) {
  check(arguments);
  const at::Device device = device_named(arguments.device, "--device");
  on_ranks(arguments.ranks, "score",
           {{"checkpoint", arguments.checkpoint}, {"--ids", arguments.ids}, {"--dtype", arguments.dtype}},
           [&](comm::Communicator* world) { run_on(world, arguments, device); });
  return ExitCode::kDone;
}

}  // namespace

void add_score(Command& program) {
  auto arguments = std::make_shared<ScoreArguments>();
  Command score = program.add(
      "score", "write the logits of a list of token ids",
      {{"fp32 logits [tokens, vocabulary], tensor name \"logits\"",
        "score runs/first-run --ids ids.json --out logits.safetensors"},
       {"computed in fp64", "score runs/first-run --ids ids.json --out logits.safetensors --dtype fp64"},
       {"of one checkpoint",
        "score runs/first-run/checkpoints/step-000000100 --ids ids.json --out logits.safetensors"},
       {"of texts that were sampled, by the experts that wrote them",
        "score runs/experts --replay-routes routes.safetensors --out logits.safetensors"}});
  score.option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory").required();
  score.option("--ids", arguments->ids, "JSON list of token ids");
  score.option("--out", arguments->out, "safetensors file to write").required();
  score.option("--routes", arguments->routes,
               "also write which experts every token was sent to: safetensors file (docs/formats/routes.md)");
  score.option("--replay-routes", arguments->replay_routes,
               "send every token to the experts that this file of `sample` or `score` --routes says; their "
               "weights are this model's. Without --ids its "
               "sequences are scored, one behind the other");
  add_model_options(score, arguments->dtype, arguments->experts, arguments->weights, arguments->device);
  add_spike_options(score, arguments->spikes);
  add_rank_options(score, arguments->ranks);
  score.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
