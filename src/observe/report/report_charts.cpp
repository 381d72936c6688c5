// Chooses the charts of a run's page, and their ranges.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "observe/events/machine_metrics.h"
#include "observe/format.h"
#include "observe/report/report.h"

namespace longhaul::observe {
namespace {

constexpr size_t kBuckets = 500;  // of the horizontal axis: about 1,000 points a line

template <class Value>
std::vector<Point> points_of(const RunHistory& run, Value value) {
  std::vector<Point> points;
  points.reserve(run.steps.size());
  for (const StepReport& step : run.steps) points.push_back({static_cast<double>(step.step), value(step)});
  return points;
}

std::vector<double> finite_values(const std::vector<Point>& points) {
  std::vector<double> values;
  for (const Point& p : points) {
    if (std::isfinite(p.y)) values.push_back(p.y);
  }
  return values;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double last_step(const RunHistory& run) {
  double last = 1;
  if (!run.steps.empty()) last = std::max(last, static_cast<double>(run.steps.back().step));
  if (!run.evaluations.empty()) last = std::max(last, static_cast<double>(run.evaluations.back().step));
  return last;
}

void mark_events(const RunHistory& run, Chart& chart) {
  for (const auto& checkpoint : run.checkpoints) {
    chart.marks.push_back({.x = static_cast<double>(checkpoint.step),
                           .title = fmt::format("checkpoint of step {}, training waited {}", checkpoint.step,
                                                milliseconds_text(checkpoint.blocking_milliseconds)),
                           .style = "save"});
  }
  for (const int64_t step : run.resumes) {
    chart.marks.push_back({.x = static_cast<double>(step),
                           .title = fmt::format("resumed from step {}", step),
                           .style = "resume",
                           .through = true});
  }
  int64_t shown = 0;
  for (const StepReport& step : run.steps) {
    if (std::isfinite(step.loss) && !step.skipped.value_or(false)) continue;
    if (++shown > 200) break;  // beyond that the axis is red anyway
    chart.marks.push_back({.x = static_cast<double>(step.step),
                           .title = fmt::format("step {}: loss {}{}", step.step, fixed(step.loss, 4),
                                                step.skipped.value_or(false) ? ", skipped" : ""),
                           .style = "bad"});
  }
  std::erase_if(chart.marks, [&](const Mark& mark) { return mark.x > chart.x_max; });
}

// The median is for curves in which single steps are far off (a checkpoint, an evaluation).
enum class Middle { kMean, kMedian };
// Adds a smoothed curve over its faint original, if there are enough points to tell them apart.
void add_curve(Chart& chart, const std::vector<Point>& points, Series series, Middle middle = Middle::kMean) {
  const double window = smoothing_window(points.size());
  if (window > 1) {
    Series behind = series;
    behind.faint = true;
    behind.points = thinned(points, kBuckets);
    chart.series.push_back(std::move(behind));
    series.points = middle == Middle::kMean ? smoothed(points, window) : running_median(points, window);
    series.name += middle == Middle::kMean ? ", smoothed" : ", running median";
  } else {
    series.points = points;
  }
  chart.series.push_back(std::move(series));
}

// Loss in nats per token on the left. A held-out token has a fixed number of bytes, so bits per byte are the
// same axis in another unit, and the results of gzip and xz are lines on it.
Chart loss_chart(const RunHistory& run) {
  Chart chart{.id = "loss",
              .title = "Loss",
              .unit = "nats per token",
              .width = 1080,
              .height = 400,
              .x_max = last_step(run)};
  const auto points = points_of(run, [](const StepReport& s) { return s.loss; });
  add_curve(chart, points, {.name = "training", .style = "train"});

  double ratio = 0;  // of the last evaluation, which reads the whole held-out part
  const double none = std::nan("");
  for (const Evaluation& e : run.evaluations) {
    const double loss = e.loss.value_or(none), bits = e.bits_per_byte.value_or(none);
    if (loss > 0 && std::isfinite(bits / loss) && bits > 0) ratio = bits / loss;
  }
  std::vector<Point> heldout;
  for (const Evaluation& e : run.evaluations) {
    const auto& value = ratio > 0 ? e.bits_per_byte : e.loss;
    if (value) heldout.push_back({static_cast<double>(e.step), *value});
  }
  if (!heldout.empty()) {
    chart.series.push_back({.name = ratio > 0 ? "held out, bits per byte" : "held out",
                            .style = "eval",
                            .points = thinned(heldout, kBuckets),
                            .dots = heldout.size() <= 50,
                            .scale = ratio > 0 ? ratio : 1});
    for (Point& p : heldout) p.y /= chart.series.back().scale;
  }
  if (ratio > 0) {
    chart.right_ratio = ratio;
    chart.right_unit = "bits per byte";
    if (run.baseline) {
      chart.references.push_back({run.baseline->gzip_bits_per_byte / ratio,
                                  fmt::format("gzip −9  {}", fixed(run.baseline->gzip_bits_per_byte, 3)),
                                  "gzip"});
      chart.references.push_back({run.baseline->xz_bits_per_byte / ratio,
                                  fmt::format("xz −9  {}", fixed(run.baseline->xz_bits_per_byte, 3)), "xz"});
    }
  }
  // The first steps fall from ln(vocabulary) so fast that they would take most of the picture, so they may
  // leave it at the top.
  const double begin = points.size() >= 60 ? chart.x_max * 0.02 : 0;
  std::vector<double> seen;
  for (const auto* list : {&points, static_cast<const std::vector<Point>*>(&heldout)}) {
    for (const Point& p : *list) {
      if (std::isfinite(p.y) && p.x >= begin) seen.push_back(p.y);
    }
  }
  for (const Reference& r : chart.references) seen.push_back(r.y);
  const auto [low, high] = std::minmax_element(seen.begin(), seen.end());
  const double least = seen.empty() ? 0 : *low, greatest = seen.empty() ? 1 : *high;
  const double room = std::max((greatest - least) * 0.06, 1e-6 + std::abs(greatest) * 1e-3);
  chart.y_low = least - room;
  chart.y_high = greatest + room;
  mark_events(run, chart);
  return chart;
}

// From zero to a little above usual values; the few higher points are cut, and this is stated.
void fit_from_zero(Chart& chart, const std::vector<Point>& points) {
  const auto values = finite_values(points);
  const double most = quantile(values, 1), usual = quantile(values, 0.99);
  chart.y_low = 0;
  chart.y_high = usual > 0 && most > 2 * usual ? usual * 1.5 : most > 0 ? most * 1.08 : 1;
  if (most > chart.y_high) {
    const std::string peak =
        chart.tick_form == NumberForm::kMilliseconds ? milliseconds_text(most) : compact(most);
    chart.caption = fmt::format("The peak of {} is beyond the axis.", peak);
  }
}

Chart gradient_chart(const RunHistory& run) {
  Chart chart{.id = "gradient",
              .title = "Gradient norm",
              .unit = "before clipping",
              .x_max = last_step(run),
              .tick_form = NumberForm::kFixed3};
  const auto points = points_of(run, [](const StepReport& s) { return s.grad_norm; });
  add_curve(chart, points, {.name = "norm", .style = "train", .form = NumberForm::kFixed3});
  std::vector<double> values = finite_values(points);
  std::erase_if(values, [](double v) { return v <= 0; });
  const double least = quantile(values, 0), most = quantile(values, 1);
  if (least > 0 && most / least > 12) {
    chart.log_y = true;
    chart.y_low = least / 1.2;
    chart.y_high = most * 1.2;
    chart.unit += ", logarithmic";
  } else {
    fit_from_zero(chart, points);
  }
  return chart;
}

Chart rate_chart(const RunHistory& run) {
  Chart chart{
      .id = "rate", .title = "Learning rate", .x_max = last_step(run), .tick_form = NumberForm::kScientific};
  const auto points = points_of(run, [](const StepReport& s) { return s.learning_rate; });
  chart.series.push_back({.name = "rate",
                          .style = "train",
                          .points = thinned(points, kBuckets),
                          .form = NumberForm::kScientific});
  fit_from_zero(chart, points);
  return chart;
}

Chart speed_chart(const RunHistory& run) {
  Chart chart{.id = "speed", .title = "Speed", .unit = "tokens per second", .x_max = last_step(run)};
  const auto points = points_of(run, [](const StepReport& s) { return s.tokens_per_second; });
  add_curve(chart, points, {.name = "tokens/s", .style = "train", .form = NumberForm::kGrouped},
            Middle::kMedian);
  std::vector<double> ratios;
  for (const StepReport& s : run.steps) {
    if (s.mfu && std::isfinite(*s.mfu) && s.tokens_per_second > 0)
      ratios.push_back(*s.mfu / s.tokens_per_second);
  }
  // FLOPs per token do not change within a run, so MFU is the same curve in another unit.
  if (!ratios.empty()) {
    chart.right_ratio = quantile(ratios, 0.5);
    chart.right_percent = true;
    chart.right_unit = "MFU, causal";
  }
  fit_from_zero(chart, points);
  return chart;
}

Chart time_chart(const RunHistory& run) {
  Chart chart{
      .id = "time", .title = "Step time", .x_max = last_step(run), .tick_form = NumberForm::kMilliseconds};
  const auto points = points_of(run, [](const StepReport& s) { return s.milliseconds; });
  add_curve(chart, points, {.name = "step", .style = "train", .form = NumberForm::kMilliseconds},
            Middle::kMedian);
  const auto waits =
      points_of(run, [](const StepReport& s) { return s.data_wait_milliseconds.value_or(std::nan("")); });
  if (!finite_values(waits).empty()) {
    chart.series.push_back({.name = "waiting for data",
                            .style = "eval",
                            .points = thinned(waits, kBuckets),
                            .form = NumberForm::kMilliseconds,
                            .filled = true});
  }
  fit_from_zero(chart, points);
  return chart;
}

// Optional fields: a chart only where some step has a value.
void add_optional(std::vector<Chart>& charts, const RunHistory& run, Chart chart, Series series,
                  const std::function<double(const StepReport&)>& value) {
  const auto points = points_of(run, value);
  if (finite_values(points).empty()) return;
  chart.x_max = last_step(run);
  add_curve(chart, points, std::move(series));
  fit_from_zero(chart, points);
  charts.push_back(std::move(chart));
}

// The metrics of a task; steps and held-out data share a picture if both have the metric.
Chart metric_chart(const RunHistory& run, const std::string& name, const std::string& id) {
  Chart chart{.id = id, .title = name, .x_max = last_step(run)};
  std::vector<Point> trained, heldout;
  for (const StepReport& step : run.steps) {
    if (const auto value = metric(step.metrics, name))
      trained.push_back({static_cast<double>(step.step), *value});
  }
  for (const Evaluation& e : run.evaluations) {
    if (const auto value = metric(e.metrics, name)) heldout.push_back({static_cast<double>(e.step), *value});
  }
  if (!trained.empty()) add_curve(chart, trained, {.name = "training", .style = "train"});
  if (!heldout.empty()) {
    chart.series.push_back({.name = "held out",
                            .style = "eval",
                            .points = thinned(heldout, kBuckets),
                            .dots = heldout.size() <= 50});
  }
  trained.insert(trained.end(), heldout.begin(), heldout.end());
  std::vector<double> values = finite_values(trained);
  const double least = quantile(values, 0), most = quantile(values, 1);
  const double room = std::max((most - least) * 0.06, 1e-6 + std::abs(most) * 1e-3);
  chart.y_low = least - room;
  chart.y_high = most + room;
  return chart;
}

}  // namespace

double smoothing_window(size_t points) {
  return points < 60 ? 1 : std::max(5.0, static_cast<double>(points) / 40);
}

std::vector<Chart> report_charts(const RunHistory& run) {
  std::vector<Chart> charts;
  if (run.steps.empty() && run.evaluations.empty()) return charts;
  charts.push_back(loss_chart(run));
  if (run.steps.empty()) return charts;
  charts.push_back(rate_chart(run));
  charts.push_back(gradient_chart(run));
  charts.push_back(speed_chart(run));
  charts.push_back(time_chart(run));
  add_optional(charts, run, {.id = "memory", .title = "Memory", .unit = "GB resident"},
               {.name = "resident", .style = "train", .form = NumberForm::kFixed3}, [](const StepReport& s) {
                 return s.resident_bytes ? static_cast<double>(*s.resident_bytes) * 1e-9 : std::nan("");
               });
  // A model without experts has none: 0 at every step.
  if (std::ranges::any_of(run.steps, [](const StepReport& s) { return s.auxiliary_loss.value_or(0) != 0; })) {
    add_optional(charts, run, {.id = "auxiliary", .title = "Auxiliary loss", .unit = "of the routers"},
                 {.name = "auxiliary", .style = "train"},
                 [](const StepReport& s) { return s.auxiliary_loss.value_or(std::nan("")); });
  }
  std::set<std::string> names = metric_names(run.steps);
  names.merge(metric_names(run.evaluations));
  for (const std::string& name : names) {
    if (!name.starts_with(kShareOfLayer))
      charts.push_back(metric_chart(run, name, fmt::format("metric-{}", charts.size())));
  }
  if (charts.size() % 2 == 0) {  // next to the wide first one the others are in pairs
    charts.back().width = charts.front().width;
    charts.back().height = 200;
  }
  return charts;
}

}  // namespace longhaul::observe
