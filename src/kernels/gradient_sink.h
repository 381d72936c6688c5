// GradientSink: where the gradient of a weight goes. Every operator that makes one adds it here, and nothing else does:
//
//   absent      the weight is frozen, or nobody trains: nothing is computed
//   at once     the product adds to the buffer in the backward pass: micro-batches add up without a temporary
//   postponed   it is wanted later, by the schedule of all (zero-bubble pipelines) or by whoever made this sink: the product waits in a queue
//   ready       the last product of the step has arrived: whoever reduces gradients over ranks may start with this one
//
// "Ready" comes from counting: recording a forward pass announces a product for each sink (differentiable.h), a product that was added takes
// one off; when nothing is left, and no forward pass of the step is still to come, the gradient is whole. A forward pass that nobody runs
// backward leaves its weights unready: the end of the step does not depend on them.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

using Postponed = std::vector<std::function<void()>>;  // products that wait, to be run in their order

// What the gradients of a model have in common while a step goes on.
struct BackwardPhase {
  Postponed* postponed = nullptr;  // set: products are put there
  bool all_announced = false;      // the last forward pass of the step is over
};

// The products of one weight that are still to come.
class GradientFlow {
 public:
  void begin_step() { awaited_ = 0, ready_ = false; }
  void announce() { ++awaited_; }
  void arrived();

  const BackwardPhase* phase = nullptr;  // null: at once, and nobody wants to know
  std::function<void()> before_product;  // called before each one is added: the buffer may have no memory yet
  std::function<void()> on_ready;        // called once a step, by the thread of the last product

 private:
  int64_t awaited_ = 0;
  bool ready_ = false;
};

class GradientSink {
 public:
  GradientSink() = default;                                                                               // absent
  GradientSink(Tensor buffer, GradientFlow* flow = nullptr) : buffer_(std::move(buffer)), flow_(flow) {}  // NOLINT: a tensor is a sink

  // The same, whose products wait in `queue` where the phase has none of its own; null: as it is.
  GradientSink into(std::shared_ptr<Postponed> queue) const {
    GradientSink sink = *this;
    sink.queue_ = std::move(queue);
    return sink;
  }

  bool wanted() const { return buffer_.defined(); }
  const Tensor& buffer() const { return buffer_; }  // shaped like the weight, in the precision of main gradients; undefined: absent

  void announce() const {
    if (wanted() && flow_ != nullptr) flow_->announce();
  }

  // product(buffer) adds to it, now or later; dropped where the sink is absent.
  void add(std::function<void(const Tensor& buffer)> product) const {
    if (wanted()) add_together(*this, {}, [buffer = buffer_, product = std::move(product)] { product(buffer); });
  }
  // A product that adds to both: a weight's and its bias'. One of them is wanted.
  static void add_together(const GradientSink& first, const GradientSink& second, std::function<void()> product);

 private:
  Tensor buffer_;
  GradientFlow* flow_ = nullptr;
  std::shared_ptr<Postponed> queue_;
};

}  // namespace longhaul::kernels
