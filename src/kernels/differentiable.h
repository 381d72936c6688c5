// Connects our operators to LibTorch's autograd. The forward pass runs without recording; what it returns
// says how gradients are computed:
//
//   differentiable("swiglu", {x}, [&] -> Recorded {
//     const Tensor y = …;
//     return {.results = {y}, .saved = {x}, .backward = [](const BackwardCall& call) {
//         return …one gradient an input…; }};
//   });
//
// LibTorch's own way needs one class for each operator (torch::autograd::Function), and each class costs
// its file five seconds of compile time.
#pragma once

#include <functional>
#include <vector>

#include "kernels/gradient_sink.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// The arguments of a backward pass.
struct BackwardCall {
  // As the forward pass left them; autograd raises an error if one was written to since.
  std::vector<Tensor> saved;
  std::vector<Tensor> gradients;  // one for each result
  std::vector<bool> wanted;       // one for each input: whether its gradient is used
};

// A tensor that can be recomputed at little cost, whole and to the bit; other tensors of its storage are
// recomputed with it.
struct CheapTensor {
  Tensor tensor;             // a tensor of the forward pass: a result or a saved tensor
  std::vector<Tensor> from;  // inputs, results or saved tensors; may be cheap themselves
  std::function<Tensor(const std::vector<Tensor>& from)> make;
};

// The result of a forward pass.
struct Recorded {
  std::vector<Tensor> results;
  // The inputs and results that the backward pass reads. They must not be captured in the closure: a
  // closure that held a result would keep itself alive, and one that held an input would not notice that it
  // was written to. Other tensors (sinks) belong in the closure.
  std::vector<Tensor> saved;
  // Returns one gradient for each input, in their order; undefined: none. The backward pass has no
  // derivative of its own: code that asks for one (create_graph, then backward again) gets an error instead
  // of a silent zero.
  std::function<std::vector<Tensor>(const BackwardCall&)> backward;
  std::vector<GradientSink> sinks{};   // the sinks to which the backward pass adds, each once
  bool zeros_for_missing = true;       // an unused result gets a gradient of zeros, else an undefined one
  std::vector<size_t> not_recorded{};  // indices of results without a gradient
  std::vector<CheapTensor> cheap{};    // tensors that selective recomputation does not keep (saved_tensors.h)
};

// While an object of this class lives, this thread runs a forward pass for the second time (recomputed.h):
// the first run has announced the products of weights already.
class MadeAgain {
 public:
  MadeAgain();
  ~MadeAgain();
  MadeAgain(const MadeAgain&) = delete;
  MadeAgain& operator=(const MadeAgain&) = delete;
};

// Returns the results. `op`: the name in errors and in times (operator_clock.h). `inputs` (some may be
// undefined) are all tensors that may want gradients; nothing is recorded if none of them does.
std::vector<Tensor> differentiable(const char* op, const std::vector<Tensor>& inputs,
                                   const std::function<Recorded()>& forward);

}  // namespace longhaul::kernels
