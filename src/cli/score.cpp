// `longhaul score CKPT --ids ids.json --out logits.safetensors`
#include <fmt/format.h>

#include "base/file.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/output.h"
#include "data/tokenizer/commands.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "storage/safetensors.h"
#include "tensor/device.h"
#include "tensor/to_tensor.h"

namespace longhaul::cli {
namespace {

struct ScoreArguments {
  std::string checkpoint, ids, out, dtype, experts, device = "auto";
};

ExitCode run(const ScoreArguments& arguments) {
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  auto model = checkpoint::open_model(arguments.checkpoint, arguments.dtype, device, arguments.experts);
  const std::vector<int32_t> ids = data::read_ids(read_text(arguments.ids), arguments.ids);
  if (ids.empty()) {
    throw Error(
        {.code = ExitCode::kData, .what = "there are no ids to score", .expected = "a JSON list of token ids", .where = arguments.ids});
  }
  const int64_t rows = model.recipe.recipe.model.vocabulary;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < rows) continue;
    throw Error({.code = ExitCode::kData,
                 .what = "a token id lies outside the model's vocabulary",
                 .expected = fmt::format("0 to {}", rows - 1),
                 .found = fmt::format("{} in place {} of {}", ids[i], i + 1, ids.size()),
                 .where = arguments.ids,
                 .hint = "use the tokenizer that the model was trained with"});
  }
  const at::NoGradGuard no_gradient;
  model::LocalOps ops;
  model::Context context(ops, model.decoder->precision());
  context.training = false;
  const Tensor hidden = model.decoder->hidden(context, to_tensor(ids, device), layout::make_single(static_cast<int64_t>(ids.size())));
  const Tensor logits = model.decoder->logits(hidden).to(at::kFloat).cpu().contiguous();
  storage::LocalFileSystem files;
  const storage::TensorData data{"logits",
                                 storage::DType::kF32,
                                 {logits.size(0), logits.size(1)},
                                 {static_cast<const std::byte*>(logits.const_data_ptr()), static_cast<size_t>(logits.nbytes())}};
  storage::write_safetensors(files, arguments.out, {&data, 1});
  print(fmt::format("logits [{}, {}] of step {} written to {}\n", logits.size(0), logits.size(1), model.step, arguments.out));
  return ExitCode::kDone;
}

}  // namespace

void add_score(Command& program) {
  auto arguments = std::make_shared<ScoreArguments>();
  Command score = program.add(
      "score", "write the logits of a list of token ids",
      {{"fp32 logits [tokens, vocabulary], tensor name \"logits\"", "score runs/first-run --ids ids.json --out logits.safetensors"},
       {"computed in fp64", "score runs/first-run --ids ids.json --out logits.safetensors --dtype fp64"},
       {"of one checkpoint", "score runs/first-run/checkpoints/step-000000100 --ids ids.json --out logits.safetensors"}});
  score.option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory").required();
  score.option("--ids", arguments->ids, "JSON list of token ids").required();
  score.option("--out", arguments->out, "safetensors file to write").required();
  score.option("--dtype", arguments->dtype, "bf16, fp32 or fp64 (default: as trained)");
  score
      .option("--experts", arguments->experts, "int8: weights of experts in eight bits (docs/design/decoding.md; default: as --dtype says)")
      .one_of({"int8"});
  score.option("--device", arguments->device, "auto (a GPU when there is one), cpu, cuda or cuda:N").default_shown();
  score.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
