// GradientSink: the destination of the gradient of a weight. Every operator that computes such a gradient
// adds it here, and no other code does:
//
//   absent      the weight is frozen, or there is no training: nothing is computed
//   at once     the product adds to the buffer in the backward pass: micro-batches accumulate without a
//               temporary
//   postponed   the product is wanted later, by the schedule of all (zero-bubble pipelines) or by the code
//               that made this sink: it waits in a queue
//   ready       the last product of the step has been added: the reduction of this gradient over ranks may
//               start
//
// "Ready" is found by counting: recording a forward pass announces a product for each sink
// (differentiable.h), and each product that is added subtracts one. When none is left, and no forward pass
// of the step is still to come, the gradient is complete. If a forward pass is never run backward, its
// weights do not become ready; the end of the step does not depend on it.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

using Postponed = std::vector<std::function<void()>>;  // waiting products, to be run in their order

// The state that all gradients of a model share during a step.
struct BackwardPhase {
  Postponed* postponed = nullptr;  // set: products are put there
  bool all_announced = false;      // the last forward pass of the step is over
};

// Counts the products of one weight that are still to come.
class GradientFlow {
 public:
  void begin_step() { awaited_ = 0, ready_ = false; }
  void announce() { ++awaited_; }
  void arrived();

  const BackwardPhase* phase = nullptr;  // null: products are added at once, and no callback is needed
  std::function<void()> before_product;  // called before each one is added: the buffer may have no memory yet
  std::function<void()> on_ready;        // called once per step, by the thread of the last product

 private:
  int64_t awaited_ = 0;
  bool ready_ = false;
};

class GradientSink {
 public:
  // absent
  GradientSink() = default;
  GradientSink(Tensor buffer, GradientFlow* flow = nullptr)
      : buffer_(std::move(buffer)), flow_(flow) {}  // NOLINT: a tensor is a sink

  // The same sink, but its products wait in `queue` if the phase has no queue of its own; null: unchanged.
  GradientSink into(std::shared_ptr<Postponed> queue) const {
    GradientSink sink = *this;
    sink.queue_ = std::move(queue);
    return sink;
  }

  bool wanted() const { return buffer_.defined(); }
  // shaped like the weight, in the precision of main gradients; undefined: absent
  const Tensor& buffer() const { return buffer_; }

  void announce() const {
    if (wanted() && flow_ != nullptr) flow_->announce();
  }

  // Adds product(buffer) to the buffer, now or later; dropped if the sink is absent.
  void add(std::function<void(const Tensor& buffer)> product) const {
    if (wanted())
      add_together(*this, {}, [buffer = buffer_, product = std::move(product)] { product(buffer); });
  }
  // Adds a product that writes both a weight's gradient and its bias'. At least one of them must be wanted.
  static void add_together(const GradientSink& first, const GradientSink& second,
                           std::function<void()> product);

 private:
  Tensor buffer_;
  GradientFlow* flow_ = nullptr;
  std::shared_ptr<Postponed> queue_;
};

}  // namespace longhaul::kernels
