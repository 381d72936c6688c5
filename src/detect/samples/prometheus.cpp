#include "detect/samples/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/net/http.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace longhaul::detect {
namespace {

constexpr JsonRules kAnswerRules{.code = ExitCode::kData,
                                 .what = "cannot read the answer of Prometheus",
                                 .hint = "try the query in its own page, /graph"};

// Values come as text: "0.25", "NaN", "+Inf".
float value_in(const JsonView& text) {
  const std::string& word = text.string();
  if (word == "NaN") return std::numeric_limits<float>::quiet_NaN();
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  text.require(!word.empty() && end == word.c_str() + word.size() && std::isfinite(value),
               "a finite number or NaN");
  return static_cast<float>(value);
}

void require_success(const JsonView& root, const std::string& where) {
  if (root.at("status").string() == "success") return;
  throw Error({.code = ExitCode::kData,
               .what = "Prometheus refused a query",
               .expected = "status success",
               .found = root.has("error") ? brief(printable(root.at("error").string()), 300)
                                          : root.at("status").string(),
               .where = where});
}

}  // namespace

std::map<size_t, std::string> queries_of(const std::vector<std::string>& words) {
  std::map<size_t, std::string> queries;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals + 1 == word.size()) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "cannot read a query",
                   .expected = "METRIC=PROMQL, such as 'cpu_usage=avg by (instance) (my_cpu)'",
                   .found = word,
                   .where = "--query"});
    }
    queries[metric_named(std::string_view(word).substr(0, equals), "--query")] = word.substr(equals + 1);
  }
  return queries;
}

Series series_of_answer(std::string_view text, size_t metric, const std::string& label,
                        const std::string& where) {
  const nlohmann::json json = parse_json(text, where, kAnswerRules);
  const JsonView root(json, where + ":", kAnswerRules);
  require_success(root, where);
  root.at("data").at("resultType").require(root.at("data").at("resultType").string() == "matrix", "matrix");
  const JsonView result = root.at("data").at("result");
  Series series{.metric = metric, .where = where};
  std::map<double, std::map<size_t, float>> rows;
  for (size_t i = 0; i < result.array_size(); ++i) {
    const JsonView labels = result.at(i).at("metric");
    if (!labels.has(label)) {
      throw Error({.code = ExitCode::kData,
                   .what = "a series does not say which machine it is of",
                   .expected = fmt::format("the label {} (--label names another)", label),
                   .found = brief(labels.value().dump(), 200),
                   .where = where,
                   .hint = fmt::format("aggregate in the query: avg by ({}) (…)", label)});
    }
    const std::string& machine = labels.at(label).string();
    if (std::find(series.machines.begin(), series.machines.end(), machine) != series.machines.end()) {
      throw Error({.code = ExitCode::kData,
                   .what = "a machine has more than one series",
                   .expected = "one value a machine and second",
                   .found = brief(printable(machine)) + " twice",
                   .where = where,
                   .hint = fmt::format("aggregate in the query: avg by ({}) (…)", label)});
    }
    series.machines.push_back(machine);
    const JsonView values = result.at(i).at("values");
    for (size_t k = 0; k < values.array_size(); ++k)
      rows[values.at(k).at(0).number()][i] = value_in(values.at(k).at(1));
  }
  for (const auto& [time, values] : rows) {
    series.times_s.push_back(time);
    const size_t begin = series.values.size();
    series.values.resize(begin + series.machines.size(), std::numeric_limits<float>::quiet_NaN());
    for (const auto& [machine, value] : values) series.values[begin + machine] = value;
  }
  return series;
}

std::vector<Series> read_prometheus(const PrometheusSource& source, const std::vector<size_t>& wanted,
                                    double first_s, double last_s) {
  const HttpAddress address = http_address(source.url);
  std::vector<Series> all;
  for (const size_t metric : wanted) {
    const auto own = source.queries.find(metric);
    const std::string query = own != source.queries.end() ? own->second : query_of(metric);
    if (query.empty()) continue;  // reported as missing
    const std::string target = fmt::format("/api/v1/query_range?query={}&start={:.3f}&end={:.3f}&step=1",
                                           url_encoded(query), first_s, last_s);
    const HttpAnswer answer = http_get(address, target, source.timeout_s);
    const std::string where = fmt::format("{} {}", source.url, query);
    if (answer.status / 100 != 2 && !answer.body.starts_with('{')) {
      throw Error({.code = ExitCode::kCommunication,
                   .what = "Prometheus did not answer",
                   .expected = "HTTP 200",
                   .found = fmt::format("HTTP {}", answer.status),
                   .where = where});
    }
    Series series = series_of_answer(answer.body, metric, source.label, where);
    if (!series.machines.empty()) all.push_back(std::move(series));
  }
  return all;
}

}  // namespace longhaul::detect
