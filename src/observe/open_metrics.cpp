#include "observe/open_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace longhaul::observe {
namespace {

std::string escaped_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c != '\r' && c != '\0')
      out += c;
  }
  return out;
}

std::string number_of_metric(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{:.17g}", value);
}

std::string label_text(const MetricLabels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped_value(value));
  return text.empty() ? "" : "{" + text + "}";
}

MetricLabels with(MetricLabels labels, std::string_view name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

}  // namespace

void MetricFamily::sample(const char* suffix, const MetricLabels& labels, double value) {
  samples_.push_back({suffix, label_text(labels), number_of_metric(value)});
}

MetricFamily& MetricFamily::add(const MetricLabels& labels, double value) {
  LONGHAUL_ASSERT(type_ == Type::kGauge || type_ == Type::kCounter || type_ == Type::kInfo,
                  "{} has samples of another form", name_);
  sample(type_ == Type::kCounter ? "_total" : type_ == Type::kInfo ? "_info" : "", labels, value);
  return *this;
}

MetricFamily& MetricFamily::add_histogram(const MetricLabels& labels, std::span<const double> bounds,
                                          std::span<const int64_t> counts, double sum) {
  LONGHAUL_ASSERT(type_ == Type::kHistogram && counts.size() == bounds.size() + 1,
                  "{} has {} counts for {} bounds", name_, counts.size(), bounds.size());
  int64_t so_far = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    so_far += counts[i];
    const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
    samples_.push_back(
        {"_bucket",
         label_text(
             with(labels, "le", bound.find_first_of(".eI") == std::string::npos ? bound + ".0" : bound)),
         fmt::to_string(so_far)});
  }
  samples_.push_back({"_count", label_text(labels), fmt::to_string(so_far)});
  sample("_sum", labels, sum);
  return *this;
}

MetricFamily& MetricFamily::add_states(const MetricLabels& labels, std::span<const std::string_view> states,
                                       std::string_view now) {
  LONGHAUL_ASSERT(type_ == Type::kStateSet, "{} is no set of states", name_);
  for (const std::string_view state : states)
    sample("", with(labels, name_, std::string(state)), state == now ? 1 : 0);
  return *this;
}

MetricFamily& OpenMetrics::family(MetricFamily::Type type, std::string_view name, std::string_view unit,
                                  std::string_view help) {
  const auto known = std::ranges::find(families_, name, &MetricFamily::name_);
  if (known != families_.end()) return *known;
  LONGHAUL_ASSERT(unit.empty() || name.ends_with(unit), "{} must end in its unit {}", name, unit);
  MetricFamily& made = families_.emplace_back();
  made.type_ = type, made.name_ = name, made.unit_ = unit, made.help_ = help;
  return made;
}

std::string OpenMetrics::text(bool open_metrics) const {
  const auto type_of = [&](MetricFamily::Type type) {
    switch (type) {
      case MetricFamily::Type::kCounter:
        return "counter";
      case MetricFamily::Type::kHistogram:
        return "histogram";
      case MetricFamily::Type::kInfo:
        return open_metrics ? "info" : "gauge";
      case MetricFamily::Type::kStateSet:
        return open_metrics ? "stateset" : "gauge";
      default:
        return "gauge";
    }
  };
  std::string out;
  for (const MetricFamily& each : families_) {
    if (each.samples_.empty()) continue;
    // The older format names a family like its samples.
    const char* const suffix = open_metrics                                 ? ""
                               : each.type_ == MetricFamily::Type::kCounter ? "_total"
                               : each.type_ == MetricFamily::Type::kInfo    ? "_info"
                                                                            : "";
    out += fmt::format("# TYPE {}{} {}\n", each.name_, suffix, type_of(each.type_));
    if (open_metrics && !each.unit_.empty()) out += fmt::format("# UNIT {} {}\n", each.name_, each.unit_);
    out += fmt::format("# HELP {}{} {}\n", each.name_, suffix, escaped_value(each.help_));
    for (const MetricFamily::Sample& sample : each.samples_)
      out += fmt::format("{}{}{} {}\n", each.name_, sample.suffix, sample.labels, sample.value);
  }
  return out + (open_metrics ? "# EOF\n" : "");
}

bool wants_open_metrics(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos;
}

std::string_view metrics_type(bool open_metrics) {
  return open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                      : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace longhaul::observe
