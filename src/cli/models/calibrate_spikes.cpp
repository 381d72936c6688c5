#include "cli/models/calibrate_spikes.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "checkpoint/calibrated_groups.h"
#include "generate/engine.h"
#include "generate/prompts_file.h"
#include "kernels/spikes/statistics.h"
#include "model/context.h"
#include "model/spiking_product.h"
#include "tensor/to_tensor.h"

namespace longhaul::cli {
namespace {

void require_groups(const checkpoint::OpenModel& model) {
  const bool there = std::ranges::any_of(model.decoder->parameters().all(),
                                         [](const auto& parameter) { return parameter->groups.has_value(); });
  if (there) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "texts calibrate weights in eight bits by groups, and this model is opened without any",
       .expected = "--spikes, on the CPU",
       .found = "weights as wide as they are stored",
       .where = "--spikes-texts",
       .hint = "add --spikes, or leave --spikes-texts out"});
}

// Reads a text as the model would; what its matrices see is gathered. → its tokens
int64_t read_text_of(const checkpoint::OpenModel& model, const generate::Prompt& text,
                     const data::Tokenizer& tokenizer) {
  std::vector<int64_t> ids;
  if (text.ids) {
    ids = *text.ids;
  } else {
    for (const int32_t id : tokenizer.encode_prompt(text.text)) ids.push_back(id);
  }
  ids.resize(std::min<size_t>(ids.size(), static_cast<size_t>(kCalibrationTokens)));
  generate::require_readable(ids, model.recipe.recipe.model, text.where);
  model::LocalOps ops;
  model::Context context(ops, model.decoder->precision());
  context.training = false;
  const layout::SequenceLayout layout = layout::make_single(static_cast<int64_t>(ids.size()));
  model.decoder->hidden(context, to_tensor(std::span<const int64_t>(ids), model.decoder->device()), layout);
  return std::ssize(ids);
}

}  // namespace

void calibrate_spikes(checkpoint::OpenModel& model, const data::Tokenizer& tokenizer,
                      const std::string& file) {
  if (file.empty()) return;
  require_groups(model);
  std::vector<generate::Prompt> texts = generate::read_prompts(file);
  texts.resize(std::min<size_t>(texts.size(), static_cast<size_t>(kCalibrationTexts)));
  const at::NoGradGuard no_gradient;
  const auto statistics = model::gather_statistics(*model.decoder->spiking());
  statistics->gather_squares();
  int64_t tokens = 0;
  for (const generate::Prompt& text : texts) tokens += read_text_of(model, text, tokenizer);
  model.decoder->spiking()->statistics = nullptr;
  const int64_t matrices = checkpoint::calibrate_groups(model, statistics->mean_squares());
  log_info("{} matrices are rounded by what they read of {} ({} tokens) of {}", matrices,
           counted(std::ssize(texts), "text"), count_text(tokens), file);
}

}  // namespace longhaul::cli
