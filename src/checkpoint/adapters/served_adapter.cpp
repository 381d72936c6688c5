#include "checkpoint/adapters/served_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "checkpoint/adapters/adapted_run.h"
#include "layout/adapters.h"
#include "model/served_adapters.h"
#include "recipe/mixers.h"

namespace longhaul::checkpoint {
namespace {

constexpr const char* kMergeInstead =
    "longhaul checkpoint merge RUN DIR, and serve DIR as a model of its own";

void require_same_model(const AdaptedRun& run, const model::Decoder& decoder) {
  const auto own = layout::parameters(run.base()), theirs = layout::parameters(decoder.config());
  const auto differs = [](const layout::ParameterSpec& a, const layout::ParameterSpec& b) {
    return a.tensor.name != b.tensor.name || a.tensor.global_shape != b.tensor.global_shape;
  };
  const auto same = [&](const auto& a, const auto& b) { return !differs(a, b); };
  if (std::ranges::equal(own, theirs, same)) return;
  const auto [a, b] = std::ranges::mismatch(own, theirs, same);
  throw Error({.code = ExitCode::kUsage,
               .what = "an adapter is one of another model",
               .expected = b != theirs.end() ? b->tensor.name : fmt::format("{} tensors", theirs.size()),
               .found = a != own.end() ? a->tensor.name : fmt::format("{} tensors", own.size()),
               .where = run.checkpoint().folder().string(),
               .hint = "the base that the adapter was trained beside (train --from BASE), without adapters"});
}

void require_same_weights(const AdaptedRun& run, const model::Decoder& decoder, const std::string& name) {
  size_t part = 0;
  const model::Parameter* const holder = decoder.parameters().holder_of(name, &part);
  LONGHAUL_ASSERT(holder != nullptr && !holder->narrow(), "{} is not there as it is trained", name);
  const Tensor served = holder->part_of(holder->value.detach(), part);
  if (at::equal(run.read(name).to(served.scalar_type()), served.cpu())) return;
  throw Error({.code = ExitCode::kData,
               .what = "an adapter was trained beside other weights than those that are served",
               .expected = "the weights of the base, which stand in the adapter's checkpoint too",
               .found = name + " differs",
               .where = run.checkpoint().folder().string(),
               .hint = kMergeInstead});
}

// Matrices that are multiplied with each other before a token comes have no adapter of a token.
void require_served_apart(const recipe::ModelConfig& model) {
  const std::vector<recipe::Mixer> mixers = recipe::mixers_used(model);
  if (std::ranges::find(mixers, recipe::Mixer::kMla) == mixers.end()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "latent attention joins its matrices, and no adapter of one text fits between them",
               .expected = "a model without mla layers",
               .found = "mla",
               .where = "--adapter",
               .hint = kMergeInstead});
}

}  // namespace

int64_t add_served_adapter(model::Decoder& decoder, const std::filesystem::path& path) {
  const AdaptedRun run = AdaptedRun::open(path);
  const recipe::AdapterOptions& lora = run.recipe().recipe.model.lora;
  require_served_apart(decoder.config());
  require_same_model(run, decoder);
  if (lora.kind == recipe::AdapterKind::kDora) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "adapters of this kind are not served beside others",
                 .expected = "lora.kind = lora or rslora",
                 .found = "dora, which changes the length of whole rows",
                 .where = run.checkpoint().folder().string(),
                 .hint = kMergeInstead});
  }
  const at::TensorOptions options =
      at::TensorOptions().dtype(decoder.precision().compute).device(decoder.device());
  std::map<std::string, model::ServedAdapters::Matrix> matrices;
  for (const layout::ParameterSpec& spec : layout::parameters(run.base())) {
    if (!run.adapted(spec)) continue;
    const std::string& name = spec.tensor.name;
    require_same_weights(run, decoder, name);
    matrices[name] = {.down_ri = run.read(layout::adapter_down_name(name)).to(options),
                      .up_or = run.read(layout::adapter_up_name(name)).to(options),
                      .scale = lora.scale()};
  }
  return decoder.parameters().served()->add(matrices);
}

}  // namespace longhaul::checkpoint
