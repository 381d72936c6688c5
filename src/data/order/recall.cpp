#include "data/order/recall.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "base/random.h"
#include "layout/sequence.h"

namespace longhaul::data {
namespace {

using recipe::RecallKind;

constexpr int64_t kGapToken = 0, kAgainToken = 1;  // of "copy"

// `count` different numbers of [low, high), in random order (Floyd's choice, then a shuffle).
std::vector<int64_t> different(const RandomStream& random, uint64_t& at, int64_t count, int64_t low,
                               int64_t high) {
  std::unordered_set<int64_t> taken;
  std::vector<int64_t> chosen;
  for (int64_t j = high - low - count; j < high - low; ++j) {
    const auto drawn = static_cast<int64_t>(random.below(at++, static_cast<uint64_t>(j + 1)));
    const int64_t value = taken.insert(drawn).second ? drawn : (taken.insert(j), j);
    chosen.push_back(low + value);
  }
  for (size_t i = chosen.size(); i > 1; --i) std::swap(chosen[i - 1], chosen[random.below(at++, i)]);
  return chosen;
}

// `count` different slots of [0, slots), drawn one after the other with weights (slot + 1)^(a−1): the `count`
// largest values of u^(1/w), as logarithms (Efraimidis and Spirakis 2006), in the order in which they would
// have been drawn.
std::vector<int64_t> slots_by_power_law(const RandomStream& random, uint64_t& at, int64_t count,
                                        int64_t slots, double a) {
  std::vector<std::pair<double, int64_t>> keys;
  for (int64_t s = 0; s < slots; ++s) {
    const double u = 1 - random.uniform(at++);  // (0, 1]
    keys.emplace_back(std::log(u) * std::pow(static_cast<double>(s + 1), 1 - a), s);
  }
  std::partial_sort(keys.begin(), keys.begin() + count, keys.end(), std::greater<>());
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) chosen.push_back(keys[static_cast<size_t>(i)].second);
  return chosen;
}

RecallRow mqar_row(const RecallShape& shape, const RandomStream& random) {
  uint64_t at = 0;
  const int64_t half = shape.vocabulary / 2, pairs = shape.pairs;
  const std::vector<int64_t> keys = different(random, at, pairs, 1, half);
  const std::vector<int64_t> values = different(random, at, pairs, half, shape.vocabulary);
  const std::vector<int64_t> slots =
      slots_by_power_law(random, at, pairs, (shape.sequence - 2 * pairs) / 2, shape.nearness);
  RecallRow row;
  for (int64_t t = 0; t < shape.sequence; ++t)
    row.inputs.push_back(static_cast<int64_t>(random.below(at++, static_cast<uint64_t>(shape.vocabulary))));
  row.labels.assign(static_cast<size_t>(shape.sequence), layout::kIgnoreLabel);
  for (int64_t p = 0; p < pairs; ++p) {
    const auto i = static_cast<size_t>(p);
    row.inputs[2 * i] = keys[i];
    row.inputs[2 * i + 1] = values[i];
    const auto question = static_cast<size_t>(2 * pairs + 2 * slots[i]);
    row.inputs[question] = keys[i];
    row.labels[question] = values[i];
  }
  return row;
}

RecallRow copy_row(const RecallShape& shape, const RandomStream& random) {
  RecallRow row;
  row.inputs.assign(static_cast<size_t>(shape.sequence), kGapToken);
  row.labels.assign(static_cast<size_t>(shape.sequence), layout::kIgnoreLabel);
  const int64_t again = shape.sequence - shape.pairs;  // where the second half, the question, begins
  row.inputs[static_cast<size_t>(again)] = kAgainToken;
  for (int64_t p = 0; p < shape.pairs; ++p) {
    const int64_t token = 2 + static_cast<int64_t>(random.below(static_cast<uint64_t>(p),
                                                                static_cast<uint64_t>(shape.vocabulary - 2)));
    row.inputs[static_cast<size_t>(p)] = token;
    row.labels[static_cast<size_t>(again + p)] = token;
    if (p + 1 < shape.pairs) row.inputs[static_cast<size_t>(again + p + 1)] = token;
  }
  return row;
}

}  // namespace

std::string problem_of(const RecallShape& shape) {
  if (shape.pairs < 1) return "at least one pair is needed";
  if (shape.kind == RecallKind::kCopy) {
    if (shape.sequence < 2 * shape.pairs)
      return fmt::format("{} tokens twice need a sequence of {}", shape.pairs, 2 * shape.pairs);
    return shape.vocabulary < 4 ? "copies need a vocabulary of at least 4" : "";
  }
  if (shape.sequence < 4 * shape.pairs)
    return fmt::format("{} pairs and their questions need a sequence of {}", shape.pairs, 4 * shape.pairs);
  if (shape.vocabulary / 2 <= shape.pairs)
    return fmt::format("{} different keys and values need a vocabulary of {}", shape.pairs,
                       2 * shape.pairs + 2);
  return "";
}

RecallRow recall_row(const RecallShape& shape, uint64_t seed, int64_t index) {
  if (const std::string problem = problem_of(shape); !problem.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "such sequences cannot be made",
                 .expected = problem,
                 .found = fmt::format("{} pairs, {} tokens, a vocabulary of {}", shape.pairs, shape.sequence,
                                      shape.vocabulary),
                 .where = "recall.pairs, the sequence and the vocabulary",
                 .hint = "fewer pairs, or longer sequences"});
  }
  const RandomStream random(seed, fmt::format("data/recall/{}", index));
  return shape.kind == RecallKind::kMqar ? mqar_row(shape, random) : copy_row(shape, random);
}

double chance_of(const RecallShape& shape) {
  const int64_t answers =
      shape.kind == RecallKind::kMqar ? shape.vocabulary - shape.vocabulary / 2 : shape.vocabulary - 2;
  return 1 / static_cast<double>(answers);
}

}  // namespace longhaul::data
