// ServeMetrics: what a server has done, for /metrics. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "observe/open_metrics.h"

namespace longhaul::serve {

class ServeMetrics {
 public:
  void answered(int status);         // a request for texts, by the status of its answer
  void left();                       // its client left before the end
  void first_token(double after_s);  // since the request was read
  void whole_answer(double after_s);
  void tokens(int64_t prompt, int64_t drawn, double now_s);
  // Of the last whole seconds, on average.
  double tokens_per_second(double now_s) const;
  void write(observe::OpenMetrics& metrics, double now_s) const;

 private:
  static constexpr std::array<double, 11> kBounds_s = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};
  struct Histogram {
    std::vector<int64_t> counts = std::vector<int64_t>(kBounds_s.size() + 1);
    double sum = 0;
    void add(double value);
  };
  static constexpr int64_t kSeconds = 10;

  mutable std::mutex mutex_;
  std::map<int, int64_t> by_status_;
  int64_t left_ = 0, prompt_tokens_ = 0, drawn_tokens_ = 0;
  Histogram first_token_, whole_;
  std::map<int64_t, int64_t> by_second_;  // drawn tokens, of the last seconds
};

}  // namespace longhaul::serve
