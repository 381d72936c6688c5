#include "data/order/data_position.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/corpus/skip_file.h"

namespace longhaul::data {
using nlohmann::json;

int64_t sample_at(int64_t position, const std::vector<SampleRange>& skip) {
  for (const SampleRange& range : skip) {  // a handful of ranges
    if (position < range.begin) break;
    position += range.end - range.begin;
  }
  return position;
}

json to_json(const DataPosition& position) {
  json skip = json::array();
  for (const SampleRange& range : position.skip) skip.push_back({range.begin, range.end});
  return {{"first_sample", position.first_sample},
          {"skip", skip},
          {"datasets", position.datasets},
          {"tokenizer_sha256", position.tokenizer_sha256},
          {"sequence", position.sequence},
          {"seed", position.seed},
          {"packing", position.packing}};
}

DataPosition data_position_from_json(const json& j) {
  try {
    DataPosition position;
    position.first_sample = j.at("first_sample");
    for (const json& range : j.at("skip")) position.skip.push_back({range.at(0), range.at(1)});
    position.datasets = j.at("datasets").get<std::vector<std::string>>();
    position.tokenizer_sha256 = j.at("tokenizer_sha256");
    position.sequence = j.at("sequence");
    position.seed = j.at("seed");
    position.packing = j.value("packing", int64_t{1});  // not written before version 2
    return position;
  } catch (const json::exception& problem) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the checkpoint's data position cannot be read",
                 .found = problem.what()});
  }
}

namespace {

std::string text_of(const std::vector<SampleRange>& skip) {
  std::string text;
  for (const SampleRange& range : skip)
    text += fmt::format("{}[{}, {})", text.empty() ? "" : ", ", range.begin, range.end);
  return text.empty() ? "none" : text;
}

// True if the order of what `saved` has trained on is unchanged.
bool only_adds_later_ones(const DataPosition& saved, const std::vector<SampleRange>& now) {
  std::vector<SampleRange> both = saved.skip;
  both.insert(both.end(), now.begin(), now.end());
  if (merged(both) != merged(now)) return false;  // a range was removed
  int64_t next = saved.first_sample;              // the position's sample
  for (const SampleRange& range : merged(saved.skip)) {
    if (next < range.begin) break;
    next += range.end - range.begin;
  }
  const auto before_next = [next](const std::vector<SampleRange>& ranges) {
    std::vector<SampleRange> before;
    for (const SampleRange& range : merged(ranges)) {
      if (range.begin < next) before.push_back({range.begin, std::min(range.end, next)});
    }
    return before;
  };
  return before_next(saved.skip) == before_next(now);
}

}  // namespace

void require_same_data(const DataPosition& saved, const DataPosition& now) {
  const auto require = [](const char* what, const std::string& before, const std::string& after,
                          const char* hint) {
    if (before == after) return;
    throw Error({.code = ExitCode::kData,
                 .what = fmt::format("the {} changed since the checkpoint was written", what),
                 .expected = before,
                 .found = after,
                 .hint = hint});
  };
  require("tokenizer", saved.tokenizer_sha256, now.tokenizer_sha256,
          "use the run's tokenizer.json, or start anew with --fresh");
  require("training text", fmt::format("{}", fmt::join(saved.datasets, ", ")),
          fmt::format("{}", fmt::join(now.datasets, ", ")),
          "restore the files of data.source, or start anew with --fresh");
  require("sequence length", std::to_string(saved.sequence), std::to_string(now.sequence),
          "set train.sequence back, or start anew with --fresh");
  require("order of the samples", fmt::format("packing version {}", saved.packing),
          fmt::format("packing version {}", now.packing),
          "go on with the Longhaul that wrote it, or start anew with --fresh");
  require("seed of the data order", std::to_string(saved.seed), std::to_string(now.seed),
          "set data.seed back, or start anew with --fresh");
  if (!only_adds_later_ones(saved, now.skip)) {
    require("list of samples to skip", text_of(saved.skip), text_of(now.skip),
            "bring control/skip.json of the run folder back as it was, or start anew with --fresh");
  }
  require("first sample of the next step", std::to_string(saved.first_sample),
          std::to_string(now.first_sample),
          "set train.batch and optim.stages back, or start anew with --fresh");
}

}  // namespace longhaul::data
