// Sinks whose products wait in a queue, as a schedule would have them.
#pragma once

#include <functional>
#include <vector>

#include "kernels/gradient_sink.h"

namespace longhaul::testing {

class PostponedProducts {
 public:
  PostponedProducts() { flow_.phase = &phase_; }
  PostponedProducts(const PostponedProducts&) = delete;
  PostponedProducts& operator=(const PostponedProducts&) = delete;

  kernels::GradientSink to(const Tensor& buffer) { return {buffer, &flow_}; }
  const std::vector<std::function<void()>>& queue() const { return queue_; }
  void run() const {
    for (const auto& product : queue_) product();
  }

 private:
  std::vector<std::function<void()>> queue_;
  kernels::BackwardPhase phase_{.postponed = &queue_};
  kernels::GradientFlow flow_;
};

}  // namespace longhaul::testing
