#include "layout/schedule/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "recipe/options/option.h"

namespace longhaul::layout {
namespace {

[[noreturn]] void refuse_pipeline(std::string what, std::string expected, std::string found,
                                  std::string where, std::string hint) {
  throw Error({.code = ExitCode::kUsage,
               .what = std::move(what),
               .expected = std::move(expected),
               .found = std::move(found),
               .where = std::move(where),
               .hint = std::move(hint)});
}

int64_t chunks_of(const PipelineOptions& options) {
  const bool two =
      options.schedule == PipelineSchedule::kZbV || options.schedule == PipelineSchedule::kDualPipe;
  const bool open = options.schedule == PipelineSchedule::kInterleaved;
  const int64_t chunks = two ? 2 : open ? options.chunks : 1;
  if (options.chunks < 1 || (options.chunks != 1 && options.chunks != chunks)) {
    refuse_pipeline(
        fmt::format("the schedule {} has {} of a model on a rank", recipe::name_of_value(options.schedule),
                    two    ? "two stages"
                    : open ? "a number of stages"
                           : "one stage"),
        open ? "at least 1" : std::to_string(chunks), std::to_string(options.chunks), "parallel.chunks",
        two ? "parallel.chunks=2" : "parallel.schedule=interleaved");
  }
  return chunks;
}

}  // namespace

Pipeline::Pipeline(int64_t ranks, PipelineOptions options)
    : ranks_(ranks), chunks_(chunks_of(options)), options_(std::move(options)) {
  LONGHAUL_ASSERT(ranks >= 1, "a pipeline of {} ranks", ranks);
  const bool dual = options_.schedule == PipelineSchedule::kDualPipe;
  if (dual && ranks % 2 != 0) {
    refuse_pipeline("a pipeline that runs both ways pairs its ranks", "an even number", std::to_string(ranks),
                    "parallel.pp", "parallel.schedule=zbv");
  }
  stages_ = dual ? ranks : ranks * chunks_;
  const std::vector<int64_t>& given = options_.stage_layers;
  if (given.empty()) return;
  if (static_cast<int64_t>(given.size()) != stages_ ||
      std::ranges::any_of(given, [](int64_t layers) { return layers < 0; })) {
    refuse_pipeline(
        "the layers of the stages do not fit the pipeline", fmt::format("{} numbers of at least 0", stages_),
        fmt::format("[{}]", fmt::join(given, ", ")), "parallel.stage_layers", "parallel.stage_layers=[]");
  }
}

int64_t Pipeline::stage_of(Hop hop) const {
  LONGHAUL_ASSERT(hop.rank >= 0 && hop.rank < ranks_ && hop.chunk >= 0 && hop.chunk < chunks_,
                  "chunk {} of rank {}", hop.chunk, hop.rank);
  const bool back = hop.chunk == 1 && options_.schedule != PipelineSchedule::kInterleaved;
  return back ? stages_ - 1 - hop.rank : hop.chunk * ranks_ + hop.rank;
}

Hop Pipeline::hop(int64_t route, int64_t stage) const {
  LONGHAUL_ASSERT(route >= 0 && route < routes() && stage >= 0 && stage < stages_, "stage {} of route {}",
                  stage, route);
  if (options_.schedule == PipelineSchedule::kInterleaved) return {stage % ranks_, stage / ranks_};
  if (route == 1 || stage >= ranks_) return {stages_ - 1 - stage, 1};
  return {stage, 0};
}

std::vector<int64_t> Pipeline::ranks_of(int64_t stage) const {
  std::vector<int64_t> found;
  for (int64_t route = 0; route < routes(); ++route) found.push_back(hop(route, stage).rank);
  std::ranges::sort(found);
  return found;
}

Range Pipeline::layers_of(int64_t stage, int64_t layers) const {
  const std::vector<int64_t>& given = options_.stage_layers;
  if (given.empty()) return even_part(layers, stages_, stage);
  const int64_t all = std::accumulate(given.begin(), given.end(), int64_t{0});
  if (all != layers) {
    refuse_pipeline("the layers of the stages are not those of the model", fmt::format("{} together", layers),
                    std::to_string(all), "parallel.stage_layers", "parallel.stage_layers=[]");
  }
  const auto begin = given.begin(), end = begin + stage;
  return {std::accumulate(begin, end, int64_t{0}), *end};
}

int64_t Pipeline::stage_with(int64_t layer, int64_t layers) const {
  for (int64_t stage = 0; stage < stages_; ++stage) {
    const Range range = layers_of(stage, layers);
    if (layer >= range.begin && layer < range.end()) return stage;
  }
  LONGHAUL_ASSERT(false, "layer {} of {}", layer, layers);
  return 0;
}

std::vector<bool> first_of_stages(const Pipeline& pipeline, int64_t layers, int64_t first) {
  std::vector<bool> all(static_cast<size_t>(layers), first == 0);
  for (int64_t stage = 0; stage < pipeline.stages(); ++stage) {
    const Range range = pipeline.layers_of(stage, layers);
    for (int64_t layer = range.begin; layer < std::min(range.end(), range.begin + first); ++layer)
      all[static_cast<size_t>(layer)] = true;
  }
  return all;
}

}  // namespace longhaul::layout
