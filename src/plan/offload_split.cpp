#include "plan/offload_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace longhaul::plan {
namespace {

constexpr double kNothing = 1e-12;

// max c·x with A x ≤ b, x ≥ 0, where b ≥ 0: the simplex method from x = 0, with Bland's rule, which does not
// run in circles.
class Simplex {
 public:
  explicit Simplex(std::vector<double> gains) : gains_(std::move(gains)) {
    for (double& gain : gains_) gain = -gain;
    columns_.resize(gains_.size());
    std::iota(columns_.begin(), columns_.end(), size_t{0});
  }
  void add(std::vector<double> row, double bound) {
    rows_.push_back(std::move(row));
    bounds_.push_back(std::max(0.0, bound));
  }

  std::vector<double> solve() {
    const size_t variables = gains_.size();
    basis_.resize(rows_.size());
    std::iota(basis_.begin(), basis_.end(), variables);
    for (;;) {
      const size_t column = entering();
      if (column == variables) break;
      const size_t row = leaving(column);
      LONGHAUL_ASSERT(row < rows_.size(), "every share is bounded");
      pivot(row, column);
    }
    std::vector<double> x(variables, 0);
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (basis_[i] < variables) x[basis_[i]] = bounds_[i];
    }
    return x;
  }

 private:
  // The lowest variable that raises the sum.
  size_t entering() const {
    size_t best = gains_.size();
    for (size_t j = 0; j < gains_.size(); ++j) {
      if (gains_[j] < -kNothing && (best == gains_.size() || columns_[j] < columns_[best])) best = j;
    }
    return best;
  }
  size_t leaving(size_t column) const {
    size_t best = rows_.size();
    double least = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i][column] <= kNothing) continue;
      const double ratio = bounds_[i] / rows_[i][column];
      if (best == rows_.size() || ratio < least - kNothing ||
          (ratio <= least + kNothing && basis_[i] < basis_[best]))
        best = i, least = ratio;
    }
    return best;
  }
  void pivot(size_t row, size_t column) {
    const double by = rows_[row][column];
    for (double& each : rows_[row]) each /= by;
    bounds_[row] /= by;
    rows_[row][column] = 1 / by;
    const auto subtract = [&](std::vector<double>& from, double& bound) {
      const double times = from[column];
      if (times == 0) return;
      for (size_t j = 0; j < from.size(); ++j) from[j] -= times * rows_[row][j];
      from[column] = -times / by;
      bound -= times * bounds_[row];
    };
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (i != row) subtract(rows_[i], bounds_[i]);
    }
    double ignored = 0;
    subtract(gains_, ignored);
    std::swap(basis_[row], columns_[column]);
  }

  std::vector<double> gains_;
  std::vector<std::vector<double>> rows_;
  std::vector<double> bounds_;
  std::vector<size_t> columns_, basis_;  // which variable a column and a row stand for
};

// When layers begin and end with shares of 0, where a layer waits for the copies of the one
// `ahead` before it.
struct Timeline {
  std::vector<double> begins, ends;
  double stall_s = 0;
};

Timeline timeline_of(std::span<const OffloadedLayer> layers, double rate, int64_t ahead) {
  Timeline timeline;
  std::vector<double> done;
  double now = 0, free = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (const auto before = static_cast<int64_t>(i) - ahead; before >= 0) {
      const double wait = std::max(0.0, done[static_cast<size_t>(before)] - now);
      now += wait, timeline.stall_s += wait;
    }
    timeline.begins.push_back(now);
    now += layers[i].seconds;
    timeline.ends.push_back(now);
    if (layers[i].moved) free = std::max(free, now) + layers[i].whole_bytes / rate;
    done.push_back(layers[i].moved ? free : now);
  }
  timeline.begins.push_back(now);
  return timeline;
}

// The shares of layers, of which those with one number in `kinds` have the same; −1: nothing is moved.
std::vector<double> solved(std::span<const OffloadedLayer> layers, const std::vector<int64_t>& kinds,
                           const Timeline& timeline, double rate, double host_bytes, int64_t ahead) {
  const auto count = static_cast<size_t>(kinds.empty() ? 0 : 1 + *std::ranges::max_element(kinds));
  std::vector<double> gains(count, 0);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (kinds[i] >= 0) gains[static_cast<size_t>(kinds[i])] += layers[i].row_seconds;
  }
  Simplex simplex(gains);
  for (size_t kind = 0; kind < count; ++kind) {
    std::vector<double> row(count, 0);
    row[kind] = 1;
    simplex.add(row, 1);
  }
  std::vector<double> all(count, 0);
  double whole = 0;
  for (size_t j = 0; j < layers.size(); ++j) {
    std::vector<double> row(count, 0);
    double fixed = 0;
    for (size_t i = j; i < layers.size(); ++i) {
      if (!layers[i].moved) continue;
      fixed += layers[i].whole_bytes / rate;
      if (kinds[i] >= 0) row[static_cast<size_t>(kinds[i])] += layers[i].row_bytes / rate;
      const auto until = std::min(layers.size(), i + static_cast<size_t>(ahead));
      if (layers[j].moved) simplex.add(row, timeline.begins[until] - timeline.ends[j] - fixed);
    }
    if (!layers[j].moved) continue;
    whole += layers[j].whole_bytes;
    if (kinds[j] >= 0) all[static_cast<size_t>(kinds[j])] += layers[j].row_bytes;
  }
  simplex.add(all, host_bytes - whole);
  const std::vector<double> of_kinds = simplex.solve();
  std::vector<double> shares;
  for (const int64_t kind : kinds)
    shares.push_back(kind < 0 ? 0 : std::clamp(of_kinds[static_cast<size_t>(kind)], 0.0, 1.0));
  return shares;
}

double saved_s(std::span<const OffloadedLayer> layers, const std::vector<double>& shares) {
  double sum = 0;
  for (size_t i = 0; i < layers.size(); ++i) sum += shares[i] * layers[i].row_seconds;
  return sum;
}

}  // namespace

OffloadSplit split_offload(std::span<const OffloadedLayer> layers, double rate, double host_bytes,
                           int64_t ahead) {
  LONGHAUL_ASSERT(rate > 0 && ahead > 0, "{} bytes a second, {} layers ahead", rate, ahead);
  OffloadSplit split;
  const Timeline timeline = timeline_of(layers, rate, ahead);
  split.stall_s = timeline.stall_s;
  // Many solutions are as good where layers are alike; one share for all that move the same bytes is taken
  // unless it costs more than a hundredth.
  std::vector<int64_t> each, alike;
  std::map<std::pair<double, double>, int64_t> known;
  double whole = 0, all_s = 0;
  int64_t next = 0;
  for (const OffloadedLayer& layer : layers) {
    whole += layer.moved ? layer.whole_bytes : 0;
    all_s += layer.moved ? layer.row_seconds : 0;
    const bool shares = layer.moved && layer.row_bytes > 0;
    each.push_back(shares ? next++ : -1);
    alike.push_back(
        shares ? known.try_emplace({layer.whole_bytes, layer.row_bytes}, std::ssize(known)).first->second
               : -1);
  }
  split.missing_bytes = std::max(0.0, whole - host_bytes);
  const auto solve = [&](const std::vector<int64_t>& kinds) {
    return solved(layers, kinds, timeline, rate, host_bytes, ahead);
  };
  const std::vector<double> best = solve(each);
  split.shares = solve(alike);
  if (saved_s(layers, split.shares) < 0.99 * saved_s(layers, best)) split.shares = best;
  split.again_s = all_s - saved_s(layers, split.shares);
  return split;
}

std::string text_of(std::span<const OffloadedLayer> layers, const OffloadSplit& split, int64_t first_layer) {
  std::map<std::string, std::string> layers_with;  // by their share
  for (size_t i = 0; i < layers.size();) {
    const auto share_text = [&](size_t layer) {
      return layers[layer].moved ? fmt::format("{:.2f}", split.shares[layer]) : std::string("stay");
    };
    size_t end = i;
    while (end < layers.size() && share_text(end) == share_text(i)) ++end;
    const int64_t from = first_layer + static_cast<int64_t>(i),
                  to = first_layer + static_cast<int64_t>(end) - 1;
    std::string& text = layers_with[share_text(i)];
    text +=
        (text.empty() ? "" : ", ") + (from == to ? fmt::format("{}", from) : fmt::format("{}–{}", from, to));
    i = end;
  }
  std::string text;
  for (const auto& [share, numbers] : layers_with)
    text += fmt::format("{}{}: {}", text.empty() ? "layers " : "; ", numbers, share);
  return text;
}

}  // namespace longhaul::plan
