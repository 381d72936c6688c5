#include "plan/published.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "plan/published/published_build.h"

namespace longhaul::plan {

const std::vector<PublishedRow>& published_rows() {
  static const std::vector<PublishedRow> all = [] {
    PublishedBuild build;
    add_rows_of_a100(build);
    add_rows_of_h100(build);
    add_rows_of_experts(build);
    add_rows_of_shards(build);
    return build.rows;
  }();
  return all;
}

std::vector<PublishedRow> published_rows(RowUse use, const std::string& device) {
  std::vector<PublishedRow> rows;
  for (const PublishedRow& row : published_rows()) {
    if (row.use == use && row.cluster.device.name == device) rows.push_back(row);
  }
  return rows;
}

namespace {

bool same_task(const PublishedRow& a, const PublishedRow& b) {
  const auto task = [](const PublishedRow& row) {
    const Work& work = row.work;
    return std::tuple(work.layers, work.hidden, work.vocabulary, work.sequence, work.dense_parameters,
                      work.expert_parameters, work.experts_per_token, row.batch, row.layout.world(),
                      row.cluster.device.name);
  };
  return task(a) == task(b);
}

}  // namespace

std::vector<PublishedPair> published_pairs() {
  std::vector<PublishedPair> pairs;
  const std::vector<PublishedRow>& rows = published_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = i + 1; j < rows.size(); ++j) {
      if (!same_task(rows[i], rows[j]) || rows[i].layout == rows[j].layout) continue;
      const bool first = rows[i].seconds < rows[j].seconds;
      pairs.push_back({.faster = &rows[first ? i : j], .slower = &rows[first ? j : i]});
    }
  }
  return pairs;
}

bool in_published_order(const PublishedPair& pair) {
  return predicted(*pair.faster) < predicted(*pair.slower);
}

bool clearly_apart(const PublishedPair& pair) { return pair.slower->seconds > 1.25 * pair.faster->seconds; }

Efficiency scaled(Efficiency efficiency, double factor) {
  efficiency.products *= factor, efficiency.memory *= factor, efficiency.attention *= factor,
      efficiency.recurrence *= factor;
  efficiency.layer_s /= factor, efficiency.message_s /= factor, efficiency.stop_s /= factor,
      efficiency.step_s /= factor;
  return efficiency;
}

double predicted(const PublishedRow& row, const Efficiency& efficiency) {
  Cluster cluster = row.cluster;
  cluster.efficiency = scaled(efficiency, row.reach);
  return step_parts(row.work, row.layout, row.batch, cluster, row.practice).total();
}

double predicted(const PublishedRow& row) { return predicted(row, row.cluster.efficiency); }

std::pair<double, double> predicted_range(const PublishedRow& row) {
  std::pair<double, double> range(predicted(row), predicted(row));
  PublishedRow other = row;
  for (const int64_t chunks : row.stages) {
    other.layout.chunks = chunks;
    other.layout.schedule =
        chunks > 1 ? recipe::PipelineSchedule::kInterleaved : recipe::PipelineSchedule::k1F1B;
    // One stage: there is no other work meanwhile.
    other.practice.pipeline_exposed = chunks > 1 ? row.practice.pipeline_exposed : 1;
    const double seconds = predicted(other);
    range = {std::min(range.first, seconds), std::max(range.second, seconds)};
  }
  return range;
}

Errors errors_of(const std::vector<PublishedRow>& rows) {
  Errors errors;
  for (const PublishedRow& row : rows) {
    const double error = std::abs(predicted(row) / row.seconds - 1);
    ++errors.rows;
    errors.mean += error;
    errors.worst = std::max(errors.worst, error);
  }
  if (errors.rows > 0) errors.mean /= static_cast<double>(errors.rows);
  return errors;
}

}  // namespace longhaul::plan
