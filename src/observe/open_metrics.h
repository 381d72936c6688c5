// Metrics as text for Prometheus and similar systems: families in the order in which they were made, each
// with its type, unit, help and samples together. There are two dialects: OpenMetrics 1.0 for clients that
// ask for it in Accept, else Prometheus' text format 0.0.4, which has no units, info or statesets.
//
//   OpenMetrics metrics;
//   metrics.gauge("longhaul_loss", "", "Loss of the last step.").add({{"job", "first-run"}}, 1.25);
//   reply.body = metrics.text(wants_open_metrics(request.accept));
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longhaul::observe {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class MetricFamily {
 public:
  enum class Type { kGauge, kCounter, kHistogram, kInfo, kStateSet };
  // For a counter: the total so far, without _total in the family's name.
  MetricFamily& add(const MetricLabels& labels, double value);
  // counts: for each bucket separately, one more than bounds.
  MetricFamily& add_histogram(const MetricLabels& labels, std::span<const double> bounds,
                              std::span<const int64_t> counts, double sum);
  MetricFamily& add_states(const MetricLabels& labels, std::span<const std::string_view> states,
                           std::string_view now);
  const std::string& name() const { return name_; }

 private:
  friend class OpenMetrics;
  struct Sample {
    std::string suffix, labels, value;
  };
  void sample(const char* suffix, const MetricLabels& labels, double value);
  Type type_ = Type::kGauge;
  std::string name_, unit_, help_;
  std::vector<Sample> samples_;
};

class OpenMetrics {
 public:
  // The same name gives the same family again. The name ends with the unit: longhaul_step_time_seconds,
  // "seconds".
  MetricFamily& gauge(std::string_view name, std::string_view unit, std::string_view help) {
    return family(MetricFamily::Type::kGauge, name, unit, help);
  }
  MetricFamily& counter(std::string_view name, std::string_view unit, std::string_view help) {
    return family(MetricFamily::Type::kCounter, name, unit, help);
  }
  MetricFamily& family(MetricFamily::Type type, std::string_view name, std::string_view unit,
                       std::string_view help);

  std::string text(bool open_metrics) const;  // families without samples are left out
  const std::deque<MetricFamily>& families() const { return families_; }

 private:
  std::deque<MetricFamily> families_;  // a deque, so that their addresses stay valid
};

bool wants_open_metrics(std::string_view accept);
std::string_view metrics_type(bool open_metrics);  // Content-Type

}  // namespace longhaul::observe
