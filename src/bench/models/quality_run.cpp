// The runs of `bench quality`, and what they leave in its folder:
//
//   results/<hash of the overrides>.json   of a run that has ended
//   runs/<the same>                        of one that has not: a run folder, from which it goes on
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/signals.h"
#include "base/statistics.h"
#include "base/version.h"
#include "bench/models/quality.h"
#include "language/tasks.h"
#include "layout/parameters.h"
#include "observe/events/run_history.h"
#include "recipe/load.h"
#include "recipe/sections/optim_groups.h"
#include "run/run.h"

namespace longhaul::bench {
namespace {

constexpr std::string_view kQualityRecipe =
    "version = 1\n[model]\nlayers = 4\nhidden = 128\nvocabulary = 2048\nheads = 2\nkv_heads = 2\nhead_dim = "
    "64\n"
    "mixers = [\"lightning*3\", \"softmax\"]\nchannel = \"swiglu\"\nintermediate = 128\nexperts = "
    "4\nexperts_per_token = 2\n"
    "auxiliary_loss = 0.01\nwiring = \"post_norm\"\nposition = \"rotary\"\nrotary_dim = 32\ntie_embeddings = "
    "true\n"
    "[data]\nsource = [\"libtorch\"]\nremove_copies = true\ntokenizer = \"train\"\nvocabulary = 2048\n"
    "[train]\ndtype = \"bf16\"\nsequence = 256\nbatch = 8\nmicro_batch = 8\ncheckpoint_every = "
    "0\ncheckpoint_keep = 1\n"
    "checkpoint_memory_every = 0\n[optim]\nschedule = \"cosine\"\n[sample]\ntokens = 0\n"
    "[observe]\ncompression_baseline = false\nreport = false\ntensorboard = false\n";

constexpr double kNothing = std::numeric_limits<double>::infinity();

nlohmann::ordered_json json_of_result(const Overrides& overrides, const RunFigures& figures) {
  const auto number = [](double x) {
    return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
  };
  return {{"overrides", overrides},
          {"bits_per_byte", number(figures.bits_per_byte)},
          {"worst_loss", number(figures.worst_loss)},
          {"step_seconds", figures.step_s},
          {"state_bytes_each", figures.state_bytes},
          {"tokens", figures.tokens},
          {"commit", figures.commit}};
}

// Nothing where the file is not what such a bench writes: the run is then done again.
std::optional<RunFigures> result_in(const std::filesystem::path& path, const Overrides& overrides) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto json = nlohmann::json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* key) {
    return json.at(key).is_null() ? kNothing : json.at(key).get<double>();
  };
  try {
    if (json.at("overrides").get<Overrides>() != overrides) return std::nullopt;
    return RunFigures{.bits_per_byte = number("bits_per_byte"),
                      .worst_loss = number("worst_loss"),
                      .step_s = json.at("step_seconds").get<double>(),
                      .state_bytes = json.at("state_bytes_each").get<double>(),
                      .tokens = json.at("tokens").get<int64_t>(),
                      .commit = json.at("commit").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

RunFigures figures_of_history(const observe::RunHistory& history) {
  RunFigures figures{.bits_per_byte = kNothing, .commit = build_version().commit};
  std::vector<double> seconds;
  const auto steps = static_cast<int64_t>(history.steps.size());
  for (const observe::StepReport& step : history.steps) {
    seconds.push_back(step.milliseconds * 1e-3);
    if (step.step * 10 > steps)
      figures.worst_loss = std::isfinite(step.loss) ? std::max(figures.worst_loss, step.loss) : kNothing;
    figures.tokens = step.tokens;
  }
  figures.step_s = seconds.empty() ? 0 : longhaul::median(std::move(seconds));
  return figures;
}

double state_bytes_each(const recipe::Recipe& recipe) {
  double bytes = 0, elements = 0;
  for (const layout::ParameterSpec& spec : layout::parameters(recipe.model)) {
    const layout::Shape& shape = spec.tensor.global_shape;
    bytes +=
        static_cast<double>(recipe::state_bytes(recipe.optim, spec.tensor.role, spec.layer, shape, shape, 4));
    elements += static_cast<double>(spec.elements());
  }
  return bytes / elements;
}

RunFigures trained(const Overrides& given, const std::filesystem::path& folder) {
  const recipe::LoadedRecipe first = recipe::load_text(kQualityRecipe, "bench quality", given);
  Overrides overrides = given;  // one evaluation, behind the last step
  overrides.push_back(fmt::format("train.evaluate_every={}", first.recipe.train.steps));
  bool numbers = true;
  try {
    const train::Outcome outcome =
        run::run_training({.recipe = recipe::load_text(kQualityRecipe, "bench quality", overrides),
                           .run_folder = folder,
                           .quiet = true},
                          language::tasks());
    if (outcome.reason != "finished") {
      throw Error({.code = ExitCode::kPreemptedSaved,
                   .what = "the bench was stopped",
                   .found = fmt::format("a run that ended for: {}", outcome.reason),
                   .hint = "type the same again: it goes on from here"});
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kNumeric) throw;
    numbers = false;
  }
  const observe::RunHistory history = observe::read_run(folder);
  RunFigures figures = figures_of_history(history);
  figures.state_bytes = state_bytes_each(first.recipe);
  if (numbers && !history.evaluations.empty())
    figures.bits_per_byte = history.evaluations.back().bits_per_byte.value_or(kNothing);
  return figures;
}

}  // namespace

QualityRunner quality_runner(const QualityRequest& request) {
  auto temporary = std::make_shared<std::optional<TemporaryFolder>>();
  if (request.folder.empty()) temporary->emplace();
  const std::filesystem::path folder =
      std::filesystem::absolute(request.folder.empty() ? (*temporary)->path() : request.folder);
  make_folders(folder / "results");
  make_folders(folder / "runs");
  return [folder, temporary](const Overrides& overrides) {
    const std::string name = fmt::format("{:016x}", xxh3(fmt::format("{}", fmt::join(overrides, "\n"))));
    const std::filesystem::path result = folder / "results" / (name + ".json"), run = folder / "runs" / name;
    if (const auto known = result_in(result, overrides)) return *known;
    const RunFigures figures = trained(overrides, run);
    write_text_atomically(result, json_of_result(overrides, figures).dump(2) + "\n");
    std::filesystem::remove_all(run);
    throw_if_stop_requested("the bench");
    return figures;
  };
}

}  // namespace longhaul::bench
