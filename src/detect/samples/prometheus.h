// Reads metrics from a Prometheus server (or one with its HTTP interface: Thanos, VictoriaMetrics): one range
// query per metric with a step of one second, and one series per machine. Queries come from the table of
// metrics (DCGM and node exporters) or from the user, who must give one where no public exporter has the
// metric. A query should look back only a few seconds (avg_over_time(…[15s])): a bare name repeats its last
// value for five minutes after a machine went silent.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "detect/samples/samples.h"

namespace longhaul::detect {

struct PrometheusSource {
  std::string url;                        // http://host:9090
  std::string label = "instance";         // the label that names the machine
  std::map<size_t, std::string> queries;  // by metric; they replace the table's
  double timeout_s = 30;
};

// Parses the "METRIC=PROMQL" values of --query.
std::map<size_t, std::string> queries_of(const std::vector<std::string>& words);

// Returns the wanted metrics that have a query, and samples in [first_s, last_s].
std::vector<Series> read_prometheus(const PrometheusSource& source, const std::vector<size_t>& wanted,
                                    double first_s, double last_s);

// Parses the answer to one query; public for tests.
Series series_of_answer(std::string_view json, size_t metric, const std::string& label,
                        const std::string& where);

}  // namespace longhaul::detect
