// LogSoftmax: the log-probabilities of tokens as the engine tells them of those that it draws, from a row of
// logits under a temperature: in fp64, added up in the order of the vocabulary. Training takes the same where
// it is asked for the engine's bits (linear_cross_entropy/log_probabilities.h).
#pragma once

#include <cmath>
#include <limits>
#include <span>

namespace longhaul::kernels {

template <class Logit>
class LogSoftmax {
 public:
  // temperature 0 counts as 1
  LogSoftmax(std::span<const Logit> logits, double temperature)
      : logits_(logits), scale_(temperature == 0 ? 1 : temperature) {
    for (const Logit logit : logits) {
      if (static_cast<double>(logit) > largest_ || std::isnan(logit)) largest_ = static_cast<double>(logit);
    }
    double sum = 0;
    for (const Logit logit : logits) sum += std::exp((static_cast<double>(logit) - largest_) / scale_);
    log_sum_ = std::log(sum);
  }
  double of(int64_t id) const {
    return (static_cast<double>(logits_[static_cast<size_t>(id)]) - largest_) / scale_ - log_sum_;
  }

 private:
  std::span<const Logit> logits_;
  double largest_ = -std::numeric_limits<double>::infinity(), scale_, log_sum_;
};

}  // namespace longhaul::kernels
