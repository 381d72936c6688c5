#include "bench/models/quality.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/progress.h"
#include "base/statistics.h"
#include "base/text/text.h"
#include "observe/format.h"

namespace longhaul::bench {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::infinity();
constexpr int kMoreRates = 3;         // beyond a grid whose last rate is the best
constexpr double kMuchHigher = 1.25;  // of bits: what two seeds of a rate that trains never differ by

std::string key_of_override(const std::string& override) { return override.substr(0, override.find('=')); }

const RateGrid& grid_named(const std::vector<RateGrid>& grids, const std::string& name) {
  const auto found = std::ranges::find(grids, name, &RateGrid::name);
  LONGHAUL_ASSERT(found != grids.end(), "no grid is called {}", name);
  return *found;
}

std::vector<QualityPart> chosen_parts(const QualityRequest& request) {
  const std::vector<QualityPart> all = quality_parts(request.steps);
  if (request.parts.empty()) return all;
  std::vector<QualityPart> chosen;
  for (const std::string& name : request.parts) {
    const auto found = std::ranges::find(all, name, &QualityPart::name);
    if (found == all.end()) {
      std::vector<std::string> names;
      for (const QualityPart& part : all) names.push_back(part.name);
      const std::string nearest = nearest_spelling(name, names);
      throw Error({.code = ExitCode::kUsage,
                   .what = "unknown part of the bench",
                   .expected = fmt::format("{}", fmt::join(names, ", ")),
                   .found = name,
                   .where = "--part",
                   .hint = "--part " + (nearest.empty() ? names.front() : nearest)});
    }
    chosen.push_back(*found);
  }
  return chosen;
}

// Of the runs that came to an end.
Spread spread_of_bits(const std::vector<RunFigures>& runs) {
  std::vector<double> bits;
  for (const RunFigures& run : runs) {
    if (!run.diverged()) bits.push_back(run.bits_per_byte);
  }
  return spread_of(bits);
}

Spread spread_of_differences(const std::vector<RunFigures>& runs, const std::vector<RunFigures>& first) {
  std::vector<double> differences;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].diverged() && !first[i].diverged())
      differences.push_back(runs[i].bits_per_byte - first[i].bits_per_byte);
  }
  return spread_of(differences);
}

nlohmann::ordered_json number_or_null(double number) {
  return std::isfinite(number) ? nlohmann::ordered_json(number) : nlohmann::ordered_json(nullptr);
}

}  // namespace

bool RunFigures::diverged() const { return !std::isfinite(bits_per_byte); }

Overrides overrides_of_run(const QualityRequest& request, const Overrides& own, double lr, int64_t seed) {
  std::map<std::string, std::string> by_key;
  const auto take = [&](const Overrides& overrides) {
    for (const std::string& each : overrides) by_key[key_of_override(each)] = each;
  };
  take({fmt::format("train.steps={}", request.steps),
        fmt::format("optim.warmup_steps={}", std::max<int64_t>(1, request.steps / 20))});
  take(own);
  take({fmt::format("optim.lr={}", lr), fmt::format("train.seed={}", seed),
        fmt::format("data.seed={}", seed)});
  take(request.overrides);
  Overrides all;
  for (const auto& [key, override] : by_key) all.push_back(override);
  return all;
}

double Spread::error() const { return count > 0 ? deviation / std::sqrt(static_cast<double>(count)) : 0; }

Spread spread_of(const std::vector<double>& numbers) {
  Spread spread{.count = static_cast<int64_t>(numbers.size())};
  if (numbers.empty()) return {.mean = kNoNumber};
  const auto count = static_cast<double>(numbers.size());
  for (const double number : numbers) spread.mean += number / count;
  double squares = 0;
  for (const double number : numbers) squares += (number - spread.mean) * (number - spread.mean);
  if (numbers.size() > 1) spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

PickedRate picked(std::vector<std::pair<double, double>> tried) {
  const auto best = std::ranges::min_element(
      tried, {}, [](const auto& each) { return std::isfinite(each.second) ? each.second : kNoNumber; });
  if (best == tried.end() || !std::isfinite(best->second)) {
    throw Error(
        {.code = ExitCode::kNumeric,
         .what = "no learning rate of a grid came to the end of its run",
         .expected = "one whose evaluation is a number",
         .found = fmt::format("{} rates, up from {}", tried.size(), tried.empty() ? 0 : tried.front().first),
         .hint = "optim.warmup_steps=100, or fewer of --part"});
  }
  PickedRate result{.lr = best->first,
                    .at_end = tried.size() > 1 && (best == tried.begin() || best == tried.end() - 1)};
  result.tried = std::move(tried);
  return result;
}

int64_t count_quality_runs(const QualityRequest& request) {
  const std::vector<RateGrid> grids = rate_grids(request.steps);
  std::set<std::string> trials, runs;
  for (const QualityPart& part : chosen_parts(request)) {
    for (const QualityRow& row : part.rows) {
      trials.insert(row.grid);
      runs.insert(row.grid + fmt::format("{}", overrides_of_run(request, row.overrides, 0, 0)));
    }
  }
  auto count = static_cast<int64_t>(runs.size()) * request.seeds;
  for (const std::string& name : trials)
    count += static_cast<int64_t>(grid_named(grids, name).rates.size()) + 1;
  return count;
}

std::vector<QualityOfPart> measure_quality(const QualityRequest& request, const QualityRunner& run,
                                           const std::function<void(const QualityOfPart&)>& ended) {
  const std::vector<RateGrid> grids = rate_grids(request.steps);
  std::map<std::string, PickedRate> rates;
  std::map<Overrides, RunFigures> known;
  Progress progress("runs", count_quality_runs(request));
  const auto figures_of = [&](const Overrides& own, double lr, int64_t seed) {
    const Overrides overrides = overrides_of_run(request, own, lr, seed);
    const auto found = known.find(overrides);
    if (found != known.end()) return found->second;
    const RunFigures figures = run(overrides);
    progress.advance(1);
    return known[overrides] = figures;
  };
  const auto rate_of = [&](const std::string& name) -> const PickedRate& {
    const auto found = rates.find(name);
    if (found != rates.end()) return found->second;
    const RateGrid& grid = grid_named(grids, name);
    std::vector<std::pair<double, double>> tried;
    const auto try_rate = [&](double lr) {
      tried.emplace_back(lr, figures_of(grid.overrides, lr, 0).bits_per_byte);
    };
    for (const double lr : grid.rates) try_rate(lr);
    PickedRate rate = picked(tried);
    for (int more = 0; more < kMoreRates && rate.lr == tried.back().first; ++more) {
      try_rate(2 * rate.lr);
      rate = picked(tried);
    }
    // A second seed, which no row has: a rate with which it fails is at the edge of what trains, and the one
    // below is taken.
    auto at = std::ranges::find(tried, rate.lr, &std::pair<double, double>::first);
    while (at != tried.begin() && !(figures_of(grid.overrides, at->first, request.seeds + 1).bits_per_byte <
                                    kMuchHigher * at->second))
      --at;
    if (at->first != rate.lr) rate.lr = at->first, rate.at_end = at == tried.begin();
    return rates[name] = rate;
  };
  std::vector<QualityOfPart> all;
  for (const QualityPart& part : chosen_parts(request)) {
    QualityOfPart measured{.part = part, .rows = {}};
    for (const QualityRow& row : part.rows) {
      QualityResult result{.label = row.label, .rate = rate_of(row.grid)};
      std::vector<double> seconds;
      for (int64_t seed = 1; seed <= request.seeds; ++seed) {
        const RunFigures figures = figures_of(row.overrides, result.rate.lr, seed);
        result.diverged += figures.diverged() ? 1 : 0;
        result.worst_loss = std::max(result.worst_loss, figures.worst_loss);
        seconds.push_back(figures.step_s);
        result.state_bytes = figures.state_bytes;
        result.runs.push_back(figures);
      }
      result.step_s = longhaul::median(std::move(seconds));
      result.bits = spread_of_bits(result.runs);
      result.difference = spread_of_differences(
          result.runs, measured.rows.empty() ? result.runs : measured.rows.front().runs);
      measured.rows.push_back(std::move(result));
    }
    all.push_back(std::move(measured));
    if (ended) ended(all.back());
  }
  return all;
}

observe::Table table_of(const QualityRequest& request, const QualityOfPart& part) {
  using enum observe::Align;
  observe::Table table(fmt::format("{}: bits per byte of held-out text, {} seeds (* at an end of its grid)",
                                   part.part.title, request.seeds),
                       {{""},
                        {"learning rate", kRight},
                        {"bits per byte", kRight},
                        {"± of seeds", kRight},
                        {"beside the first", kRight},
                        {"± of the mean", kRight},
                        {"worst loss", kRight},
                        {"a step", kRight},
                        {"diverged", kRight}});
  for (const QualityResult& row : part.rows) {
    const bool first = &row == part.rows.data();
    table.row({row.label, fmt::format("{:g}{}", row.rate.lr, row.rate.at_end ? " *" : ""),
               observe::fixed(row.bits.mean, 4), observe::fixed(row.bits.deviation, 4),
               first ? "" : fmt::format("{:+.4f}", row.difference.mean),
               first ? "" : observe::fixed(row.difference.error(), 4), observe::fixed(row.worst_loss, 2),
               observe::milliseconds_text(1e3 * row.step_s),
               row.diverged == 0 ? "" : fmt::format("{} of {}", row.diverged, row.runs.size())});
  }
  return table;
}

nlohmann::ordered_json to_json(const QualityRequest& request, const QualityOfPart& part,
                               const QualityResult& row) {
  nlohmann::ordered_json tried = nlohmann::ordered_json::array(), runs = nlohmann::ordered_json::array();
  for (const auto& [lr, bits] : row.rate.tried) tried.push_back({lr, number_or_null(bits)});
  std::set<std::string> commits;
  for (const RunFigures& run : row.runs)
    runs.push_back(number_or_null(run.bits_per_byte)), commits.insert(run.commit);
  return {{"name", "quality"},
          {"part", part.part.name},
          {"row", row.label},
          {"lr", row.rate.lr},
          {"lr_at_end_of_grid", row.rate.at_end},
          {"lr_tried", std::move(tried)},
          {"bits_per_byte",
           {{"mean", number_or_null(row.bits.mean)},
            {"deviation", row.bits.deviation},
            {"runs", std::move(runs)}}},
          {"difference", {{"mean", number_or_null(row.difference.mean)}, {"error", row.difference.error()}}},
          {"diverged", row.diverged},
          {"worst_loss", number_or_null(row.worst_loss)},
          {"step_seconds", row.step_s},
          {"state_bytes_each", row.state_bytes},
          {"tokens", row.runs.empty() ? 0 : row.runs.front().tokens},
          {"seeds", request.seeds},
          {"commits", commits}};
}

}  // namespace longhaul::bench
