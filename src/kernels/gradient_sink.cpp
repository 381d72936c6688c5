#include "kernels/gradient_sink.h"

#include "base/error.h"
#include "kernels/operator_clock.h"

namespace longhaul::kernels {

void GradientFlow::arrived() {
  --awaited_;
  if (phase == nullptr || !phase->all_announced) return;
  LONGHAUL_ASSERT(!ready_,
                  "a gradient came after the last one that was announced: its sum over ranks may have begun");
  if (awaited_ > 0) return;
  ready_ = true;
  if (on_ready) on_ready();
}

void GradientSink::add_together(const GradientSink& first, const GradientSink& second,
                                std::function<void()> product) {
  GradientFlow* const flows[] = {first.wanted() ? first.flow_ : nullptr,
                                 second.wanted() ? second.flow_ : nullptr};
  Postponed* queue = first.queue_.get();
  for (const GradientFlow* flow : flows) {
    if (flow != nullptr && flow->phase != nullptr && flow->phase->postponed != nullptr)
      queue = flow->phase->postponed;
  }
  const double bytes = 2.0 * static_cast<double>((first.wanted() ? first.buffer_.nbytes() : 0) +
                                                 (second.wanted() ? second.buffer_.nbytes() : 0));
  const auto whole = [product = std::move(product), first = flows[0], second = flows[1], bytes] {
    count_bytes(bytes);  // what it adds to is read and written
    for (const GradientFlow* flow : {first, second}) {
      if (flow != nullptr && flow->before_product) flow->before_product();
    }
    product();
    if (first != nullptr) first->arrived();
    if (second != nullptr) second->arrived();
  };
  if (queue != nullptr)
    queue->push_back(whole);
  else
    whole();
}

}  // namespace longhaul::kernels
