// Metrics from a Prometheus (or anything with its HTTP interface: Thanos, VictoriaMetrics): one range query a metric, step one second, a series a
// machine. Queries come from the table of metrics (DCGM and node exporters) or from the user, who must give one where no public exporter has the metric.
// A query should look back only a few seconds (avg_over_time(…[15s])): a bare name repeats its last value for five minutes after a machine went silent.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "detect/samples/samples.h"

namespace longhaul::detect {

struct PrometheusSource {
  std::string url;                        // http://host:9090
  std::string label = "instance";         // that names the machine
  std::map<size_t, std::string> queries;  // by metric, instead of the table's
  double timeout_s = 30;
};

// "METRIC=PROMQL" of --query.
std::map<size_t, std::string> queries_of(const std::vector<std::string>& words);

// Of the wanted metrics those that have a query and samples in [first_s, last_s].
std::vector<Series> read_prometheus(const PrometheusSource& source, const std::vector<size_t>& wanted, double first_s, double last_s);

// The answer to one query, as text: for tests.
Series series_of_answer(std::string_view json, size_t metric, const std::string& label, const std::string& where);

}  // namespace longhaul::detect
