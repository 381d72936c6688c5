#include "serve/serve_metrics.h"

#include <algorithm>
#include <cmath>

namespace longhaul::serve {

void ServeMetrics::Histogram::add(double value) {
  ++counts[static_cast<size_t>(std::ranges::lower_bound(kBounds_s, value) - kBounds_s.begin())];
  sum += value;
}

void ServeMetrics::answered(int status) {
  const std::lock_guard hold(mutex_);
  ++by_status_[status];
}

void ServeMetrics::left() {
  const std::lock_guard hold(mutex_);
  ++left_;
}

void ServeMetrics::first_token(double after_s) {
  const std::lock_guard hold(mutex_);
  first_token_.add(after_s);
}

void ServeMetrics::whole_answer(double after_s) {
  const std::lock_guard hold(mutex_);
  whole_.add(after_s);
}

void ServeMetrics::tokens(int64_t prompt, int64_t drawn, double now_s) {
  const std::lock_guard hold(mutex_);
  prompt_tokens_ += prompt;
  drawn_tokens_ += drawn;
  const auto second = static_cast<int64_t>(std::floor(now_s));
  by_second_[second] += drawn;
  by_second_.erase(by_second_.begin(), by_second_.lower_bound(second - kSeconds));
}

double ServeMetrics::tokens_per_second(double now_s) const {
  const std::lock_guard hold(mutex_);
  const auto second = static_cast<int64_t>(std::floor(now_s));
  int64_t sum = 0;
  for (const auto& [when, count] : by_second_) sum += when < second && when >= second - kSeconds ? count : 0;
  return static_cast<double>(sum) / static_cast<double>(kSeconds);
}

void ServeMetrics::write(observe::OpenMetrics& metrics, double now_s) const {
  metrics.gauge("longhaul_serve_tokens_per_second", "", "Tokens drawn per second, over the last ten seconds.")
      .add({}, tokens_per_second(now_s));
  const std::lock_guard hold(mutex_);
  observe::MetricFamily& requests =
      metrics.counter("longhaul_serve_requests", "", "Requests for texts that were answered, by status.");
  for (const auto& [status, count] : by_status_)
    requests.add({{"status", std::to_string(status)}}, static_cast<double>(count));
  metrics.counter("longhaul_serve_clients_left", "", "Requests whose clients left before the end.")
      .add({}, static_cast<double>(left_));
  metrics.counter("longhaul_serve_prompt_tokens", "", "Tokens of prompts.")
      .add({}, static_cast<double>(prompt_tokens_));
  metrics.counter("longhaul_serve_drawn_tokens", "", "Tokens drawn.")
      .add({}, static_cast<double>(drawn_tokens_));
  const auto histogram = [&](const char* name, const char* help, const Histogram& values) {
    metrics.family(observe::MetricFamily::Type::kHistogram, name, "seconds", help)
        .add_histogram({}, kBounds_s, values.counts, values.sum);
  };
  histogram("longhaul_serve_time_to_first_token_seconds", "From a request to the first token of its answer.",
            first_token_);
  histogram("longhaul_serve_answer_time_seconds", "From a request to the end of its answer.", whole_);
}

}  // namespace longhaul::serve
