#include "bench/decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"
#include "generate/generate.h"
#include "recipe/load.h"

namespace longhaul::bench {
namespace {

using Ids = std::vector<std::vector<int64_t>>;

Timing timing_of(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  return {milliseconds[milliseconds.size() / 2], milliseconds.front(), milliseconds.back(), static_cast<int64_t>(milliseconds.size())};
}

std::vector<int64_t> random_prompt(const DecodeRequest& request, int64_t vocabulary) {
  const RandomStream random(request.seed, "bench/decode/prompt");
  std::vector<int64_t> ids(static_cast<size_t>(request.prompt));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(random.below(i, static_cast<uint64_t>(vocabulary)));
  return ids;
}

}  // namespace

Result bench_decode(const DecodeRequest& request) {
  const DeviceScope scope(request.device);
  const recipe::ModelConfig config = recipe::load_defaults({"model.preset=" + request.preset, "train.dtype=" + request.dtype}).recipe.model;
  model::Decoder decoder(config, Precision::named(request.dtype), request.device, model::Use::kInference);
  decoder.parameters().initialise(request.seed);
  const std::vector<int64_t> prompt = random_prompt(request, config.vocabulary);
  const generate::GenerateSettings settings{.tokens = request.tokens, .seed = request.seed, .count = request.count};
  const auto ids_of = [](const std::vector<generate::Generation>& generations, Ids& into) {
    for (const generate::Generation& each : generations) into.push_back(each.ids);
  };
  const auto together = [&] {
    Ids ids;
    ids_of(generate::generate_batch(decoder, std::span(&prompt, 1), settings), ids);
    return ids;
  };
  const auto one_by_one = [&] {
    Ids ids;
    for (int64_t i = 0; i < request.count; ++i) {
      generate::GenerateSettings one = settings;
      one.count = 1;
      one.seed += static_cast<uint64_t>(i);
      ids.push_back(generate::generate(decoder, prompt, one).ids);
    }
    return ids;
  };

  std::vector<double> batched, alone;
  bool same = true;
  for (int64_t run = 0; run <= request.runs; ++run) {
    const auto timed = [&](const auto& way, std::vector<double>& milliseconds) {
      const Stopwatch watch;
      const Ids ids = way();
      if (run > 0) milliseconds.push_back(watch.milliseconds());
      return ids;
    };
    const Ids in_batch = timed(together, batched), singly = timed(one_by_one, alone);
    same = same && in_batch == singly;
  }
  Result result{.name = "decode",
                .shape = fmt::format("{}, {} x {} after {}", request.preset, request.count, request.tokens, request.prompt),
                .dtype = request.dtype};
  if (request.device.is_cuda()) result.implementation = name_of(request.device);
  result.passes = {{.name = "together", .time = timing_of(batched)}, {.name = "one_by_one", .time = timing_of(alone)}};
  const double tokens = static_cast<double>(request.count * request.tokens);
  const double ratio = result.passes[1].time.median / result.passes[0].time.median;
  result.figures = {{"tokens_per_second_together", tokens / (result.passes[0].time.median * 1e-3)},
                    {"tokens_per_second_one_by_one", tokens / (result.passes[1].time.median * 1e-3)},
                    {"ratio", ratio}};
  result.error = same ? -1 : 1;
  return result;
}

}  // namespace longhaul::bench
