// `longhaul evaluate CKPT --data PATH --json`
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/folders.h"
#include "base/progress.h"
#include "base/text.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/model_tokenizer.h"
#include "cli/output.h"
#include "data/corpus.h"
#include "data/prepare.h"
#include "evaluate/perplexity.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

struct EvaluateArguments {
  std::string checkpoint, data, jsonl_field, tokenizer, dtype, device = "auto";
  int64_t context = 0;
  bool json = false;
};

// The texts below `path`, all of them held out, as token shards in the user's cache.
data::PreparedSource prepare_held_out(const EvaluateArguments& arguments, const recipe::DataOptions& trained_on,
                                      const data::Tokenizer& tokenizer) {
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

ExitCode run(const EvaluateArguments& arguments) {
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  auto model = checkpoint::open_model(arguments.checkpoint, arguments.dtype, device);
  const auto tokenizer = tokenizer_for(model, arguments.tokenizer);
  const auto& recipe = model.recipe.recipe;
  const data::PreparedSource source = prepare_held_out(arguments, recipe.data, tokenizer);
  data::EvaluationReader reader({&source.held_out}, {.context = arguments.context > 0 ? arguments.context : recipe.train.sequence});
  Progress progress("evaluating", reader.tokens(), Progress::Unit::kTokens);
  const auto result = *evaluate::evaluate(*model.decoder, reader, [&](int64_t tokens) {
    progress.advance(tokens);
    return true;
  });
  if (arguments.json) {
    print_json({{"step", model.step},
                {"loss", result.loss},
                {"bits_per_byte", result.bits_per_byte},
                {"perplexity", result.perplexity},
                {"tokens", result.tokens},
                {"bytes", result.bytes},
                {"checkpoint", model.folder.string()}});
  } else {
    print(fmt::format("step {}: {:.4f} bits per byte, loss {:.4f}, perplexity {:.2f} on {}, {}\n", model.step, result.bits_per_byte,
                      result.loss, result.perplexity, counted(result.tokens, "token"), bytes_text(result.bytes)));
  }
  return ExitCode::kDone;
}

}  // namespace

void add_evaluate(Command& program) {
  auto arguments = std::make_shared<EvaluateArguments>();
  Command evaluate =
      program.add("evaluate", "bits per byte and perplexity of a model on texts",
                  {{"every text below a folder", "evaluate runs/first-run --data ~/texts"},
                   {"with a longer context than it was trained with", "evaluate runs/first-run --data ~/texts --context 4096"},
                   {"for a program", "evaluate runs/first-run --data ~/texts --json"}});
  evaluate.option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory").required();
  evaluate.option("--data", arguments->data, "file or folder of text or JSONL").required();
  evaluate.option("--jsonl-field", arguments->jsonl_field,
                  "key that holds the text of a document in JSONL files (default: data.jsonl_field)");
  evaluate.option("--context", arguments->context, "longest context in tokens (default: train.sequence)").at_least(1);
  evaluate.option("--tokenizer", arguments->tokenizer, "tokenizer.json (default: the run's own)");
  evaluate.option("--dtype", arguments->dtype, "bf16, fp32 or fp64 (default: as trained)");
  evaluate.option("--device", arguments->device, "auto (a GPU when there is one), cpu, cuda or cuda:N").default_shown();
  evaluate.json_flag(arguments->json);
  evaluate.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
