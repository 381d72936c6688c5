// OperatorClock: how long each operator takes on the device that computes it, forward and backward. On a GPU
// the times are those of events in its queue, and nobody waits for them before rows() is called; on the CPU
// they are a clock's.
//
//   OperatorClock clock(device);                     // from now on, every operator of this process is timed
//   { const OperatorFrame step("between operators"); … a training step … }
//   for (const OperatorTime& row : clock.rows()) …
//
// Work counts for the innermost frame. A frame without one around it in its own thread (autograd has threads
// of its own on a GPU) lies in the first frame that is still open, whose own time is then what no operator
// takes: LibTorch's operations between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/device.h"

namespace longhaul::kernels {

struct OperatorTime {
  std::string op, pass;  // "linear", "backward"; pass empty: there is only one
  int64_t calls = 0;
  double milliseconds = 0;  // without what operators inside it take
  // As src/plan/flops.h counts them (a multiply-add is 2; what is made again does not count), without the
  // small products of routers; 0: not counted.
  double flops = 0;
  // The tensors that it reads and writes, each once per call: the least that it moves.
  double bytes = 0;
};

// One object at a time. Frames come from any thread; rows() and the destructor are called when none is open.
class OperatorClock {
 public:
  explicit OperatorClock(at::Device device);
  ~OperatorClock();
  OperatorClock(const OperatorClock&) = delete;
  OperatorClock& operator=(const OperatorClock&) = delete;

  // All that was timed so far, the longest first. Waits for the device.
  std::vector<OperatorTime> rows() const;

  struct Recording;

 private:
  std::unique_ptr<Recording> recording_;
};

// While it lives, the work of this thread counts for the operator. Costs one load where no clock runs.
class OperatorFrame {
 public:
  explicit OperatorFrame(std::string_view op, std::string_view pass = "");
  ~OperatorFrame();
  OperatorFrame(const OperatorFrame&) = delete;
  OperatorFrame& operator=(const OperatorFrame&) = delete;

  // Adds the bytes of those that are defined, each storage once for this frame.
  void moves(const std::vector<Tensor>& tensors);

 private:
  OperatorClock::Recording* recording_ = nullptr;
  int64_t entry_ = -1, outer_ = -1;
  std::vector<const void*> counted_;
};

// Add to the innermost frame of this thread; nothing where no clock runs.
void count_flops(double flops);
// each row with one matrix [.., out, in], of experts too
void count_product(const Tensor& rows, const Tensor& weight);
void count_bytes(double bytes);
bool operators_are_timed();  // where finding out what to count takes time itself

}  // namespace longhaul::kernels
