#include "puzzles/level_mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/json.h"

namespace longhaul::puzzles {
namespace {

constexpr JsonRules kMixtureRules = {.code = ExitCode::kData,
                                     .what = "unusable mixture of levels",
                                     .hint = "longhaul puzzles verify … --mixture FILE makes such files"};

}  // namespace

const LevelMixture::Levels& LevelMixture::levels_of(std::string_view task) const {
  static const Levels kNone{};
  const auto found = tasks_.find(task);
  return found == tasks_.end() ? kNone : found->second;
}

void LevelMixture::add(std::string_view task, int64_t level, LevelAnswers answers) {
  LONGHAUL_ASSERT(
      level >= 0 && level < kLevels && answers.accepted >= 0 && answers.accepted <= answers.answers,
      "level {}", level);
  LevelAnswers& all = tasks_.try_emplace(std::string(task)).first->second[static_cast<size_t>(level)];
  const double kept = std::exp2(-answers.answers / kMemory);
  all.answers = all.answers * kept + answers.answers;
  all.accepted = all.accepted * kept + answers.accepted;
}

double LevelMixture::pass_rate(std::string_view task, int64_t level) const {
  const LevelAnswers& all = levels_of(task)[static_cast<size_t>(level)];
  return (all.accepted + 1) / (all.answers + 2);
}

int64_t LevelMixture::hardest_open(std::string_view task) const {
  const Levels& levels = levels_of(task);
  int64_t open = start_level_;
  for (int64_t level = 0; level < kHardestLevel; ++level) {
    const LevelAnswers& all = levels[static_cast<size_t>(level)];
    if (all.answers >= kEnough && all.accepted >= kMastered * all.answers) open = std::max(open, level + 1);
  }
  return open;
}

std::vector<double> LevelMixture::weights(std::string_view task) const {
  std::vector<double> weights(static_cast<size_t>(kLevels));
  for (int64_t level = 0; level <= hardest_open(task); ++level) {
    const double rate = pass_rate(task, level);
    weights[static_cast<size_t>(level)] = rate * (1 - rate);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<int64_t> LevelMixture::counts(std::string_view task, int64_t total) const {
  const std::vector<double> wanted = weights(task);
  std::vector<int64_t> counts;
  std::vector<std::pair<double, size_t>> rests;  // the largest first; of equal ones the easier level
  for (size_t level = 0; level < wanted.size(); ++level) {
    const double exact = wanted[level] * static_cast<double>(total);
    counts.push_back(static_cast<int64_t>(exact));
    rests.emplace_back(static_cast<double>(counts.back()) - exact, level);
  }
  std::ranges::sort(rests);
  const int64_t missing = total - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (int64_t i = 0; i < missing; ++i) ++counts[rests[static_cast<size_t>(i)].second];
  return counts;
}

nlohmann::ordered_json LevelMixture::json() const {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::object();
  for (const auto& [task, levels] : tasks_) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const LevelAnswers& each : levels)
      rows.push_back({{"answers", each.answers}, {"accepted", each.accepted}});
    tasks[task] = rows;
  }
  return {{"start_level", start_level_}, {"tasks", tasks}};
}

LevelMixture LevelMixture::from_json(const nlohmann::json& json, const std::string& where) {
  const JsonView whole(json, where + ":", kMixtureRules);
  LevelMixture mixture(whole.at("start_level").integer(0, kHardestLevel));
  for (const auto& [task, rows] : whole.at("tasks").value().items()) {
    const JsonView list = whole.at("tasks").at(task);
    list.require(list.array_size() == static_cast<size_t>(kLevels), fmt::format("{} levels", kLevels));
    Levels& levels = mixture.tasks_.try_emplace(task).first->second;
    for (size_t level = 0; level < levels.size(); ++level) {
      levels[level] = {list.at(level).at("answers").number(), list.at(level).at("accepted").number()};
      const auto [answers, accepted] = levels[level];
      list.at(level).require(accepted >= 0 && accepted <= answers && answers < 1e12,
                             "0 ≤ accepted ≤ answers");
    }
  }
  return mixture;
}

LevelMixture LevelMixture::read(const std::filesystem::path& path) {
  return from_json(parse_json(read_text(path), path.string(), kMixtureRules), path.string());
}

void LevelMixture::write(const std::filesystem::path& path) const {
  write_text_atomically(path, json().dump(1) + "\n");
}

}  // namespace longhaul::puzzles
