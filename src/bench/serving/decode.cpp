#include "bench/serving/decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "generate/generate.h"
#include "recipe/load.h"

namespace longhaul::bench {
namespace {

using Ids = std::vector<std::vector<int64_t>>;

Timing timing_of(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  return {milliseconds[milliseconds.size() / 2], milliseconds.front(), milliseconds.back(),
          static_cast<int64_t>(milliseconds.size())};
}

std::vector<int64_t> random_prompt(const DecodeRequest& request, int64_t vocabulary) {
  const RandomStream random(request.seed, "bench/decode/prompt");
  std::vector<int64_t> ids(static_cast<size_t>(request.prompt));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int64_t>(random.below(i, static_cast<uint64_t>(vocabulary)));
  return ids;
}

// One model, and how long it took each way.
class Contender {
 public:
  Contender(const DecodeRequest& request, const recipe::ModelConfig& config, model::Use use)
      : request_(request),
        decoder_(config, Precision::named(request.dtype), request.device, use),
        prompt_(random_prompt(request, config.vocabulary)),
        settings_{.tokens = request.tokens, .seed = request.seed, .count = request.count} {
    decoder_.parameters().initialise(request.seed);
  }

  // Both ways once; whether the tokens are the same.
  bool run(bool timed) {
    const Ids in_batch = time(timed, batched_, [&] { return together(); });
    return in_batch == time(timed, alone_, [&] { return one_by_one(); });
  }

  Timing batched() const { return timing_of(batched_); }
  Timing alone() const { return timing_of(alone_); }

 private:
  Ids together() {
    Ids ids;
    for (const generate::Generation& each :
         generate::generate_batch(decoder_, std::span(&prompt_, 1), settings_))
      ids.push_back(each.ids);
    return ids;
  }
  Ids one_by_one() {
    Ids ids;
    for (int64_t i = 0; i < request_.count; ++i) {
      generate::GenerateSettings one = settings_;
      one.count = 1;
      one.seed += static_cast<uint64_t>(i);
      ids.push_back(generate::generate(decoder_, prompt_, one).ids);
    }
    return ids;
  }
  template <class Way>
  static Ids time(bool timed, std::vector<double>& milliseconds, const Way& way) {
    const Stopwatch watch;
    Ids ids = way();
    if (timed) milliseconds.push_back(watch.milliseconds());
    return ids;
  }

  const DecodeRequest& request_;
  model::Decoder decoder_;
  std::vector<int64_t> prompt_;
  generate::GenerateSettings settings_;
  std::vector<double> batched_, alone_;
};

void require_possible(const DecodeRequest& request, const recipe::ModelConfig& config) {
  if (!request.weights.empty() && (!request.device.is_cpu() || request.dtype == "fp64")) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "products with weights in eight bits by groups are the CPU's, in bf16 and fp32",
                 .expected = "--device cpu, --dtype bf16 or fp32",
                 .found = fmt::format("{}, {}", request.device.str(), request.dtype),
                 .where = "--weights",
                 .hint = "leave --weights out"});
  }
  if (request.experts.empty() || config.experts > 0) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "there are no experts to keep in eight bits",
               .expected = "a preset with experts, as hybrid-bench",
               .found = request.preset,
               .where = "--preset",
               .hint = "--preset hybrid-bench"});
}

}  // namespace

Result bench_decode(const DecodeRequest& request) {
  const DeviceScope scope(request.device);
  const recipe::ModelConfig config =
      recipe::load_defaults({"model.preset=" + request.preset, "train.dtype=" + request.dtype}).recipe.model;
  require_possible(request, config);
  std::vector<std::pair<std::string, std::unique_ptr<Contender>>> contenders;  // with what their names end in
  contenders.emplace_back("", std::make_unique<Contender>(request, config, model::Use::kInference));
  if (!request.experts.empty())
    contenders.emplace_back("_int8", std::make_unique<Contender>(request, config, model::Use::kInt8Experts));
  if (!request.weights.empty())
    contenders.emplace_back("_weights_int8",
                            std::make_unique<Contender>(request, config, model::Use::kIntegers));

  bool same = true;
  for (int64_t run = 0; run <= request.runs; ++run) {
    for (const auto& [suffix, contender] : contenders) same = contender->run(/*timed=*/run > 0) && same;
  }
  Result result{.name = "decode",
                .shape = fmt::format("{}, {} x {} after {}", request.preset, request.count, request.tokens,
                                     request.prompt),
                .dtype = request.dtype};
  if (request.device.is_cuda()) result.implementation = name_of(request.device);
  const double tokens = static_cast<double>(request.count * request.tokens);
  for (const auto& [suffix, contender] : contenders) {
    const Timing batched = contender->batched(), alone = contender->alone();
    result.passes.push_back({.name = "together" + suffix, .time = batched});
    result.passes.push_back({.name = "one_by_one" + suffix, .time = alone});
    result.figures.emplace_back("tokens_per_second_together" + suffix, tokens / (batched.median * 1e-3));
    result.figures.emplace_back("tokens_per_second_one_by_one" + suffix, tokens / (alone.median * 1e-3));
    result.figures.emplace_back("ratio" + suffix, alone.median / batched.median);
    if (suffix.empty()) continue;
    const Contender& wide = *contenders.front().second;
    const std::string name = suffix.substr(1);
    result.figures.emplace_back(name + "_together", wide.batched().median / batched.median);
    result.figures.emplace_back(name + "_one_by_one", wide.alone().median / alone.median);
  }
  result.error = same ? -1 : 1;
  return result;
}

}  // namespace longhaul::bench
