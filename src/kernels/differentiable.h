// How our operators take part in LibTorch's autograd. The forward pass runs without recording; what it leaves says how gradients go back:
//
//   differentiable("swiglu", {x}, [&] -> Recorded {
//     const Tensor y = …;
//     return {.results = {y}, .saved = {x}, .backward = [](const BackwardCall& call) { return …one gradient an input…; }};
//   });
//
// LibTorch's own way is a class an operator (torch::autograd::Function); each costs its file five seconds of compiling.
#pragma once

#include <functional>
#include <vector>

#include "kernels/gradient_sink.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// What a backward pass gets.
struct BackwardCall {
  std::vector<Tensor> saved;      // as the forward pass left them; autograd has refused those that were written to since
  std::vector<Tensor> gradients;  // one a result
  std::vector<bool> wanted;       // one an input: whether anybody uses its gradient
};

// A tensor that can be made again at little cost, whole and to the bit; others of its storage come with it.
struct CheapTensor {
  Tensor tensor;             // of the forward pass: a result, or what is saved
  std::vector<Tensor> from;  // inputs, results or what is saved; may be cheap themselves
  std::function<Tensor(const std::vector<Tensor>& from)> make;
};

// What a forward pass leaves.
struct Recorded {
  std::vector<Tensor> results;
  // Inputs and results that the backward pass reads stand here: a closure that held a result would keep itself alive, and one that held an
  // input would not notice that it was written to. Other tensors (sinks) belong in the closure.
  std::vector<Tensor> saved;
  // One gradient an input, in their order; undefined: none. It has no derivative of its own: who asks for one (create_graph, then backward
  // again) gets an error instead of a silent zero.
  std::function<std::vector<Tensor>(const BackwardCall&)> backward;
  std::vector<GradientSink> sinks{};   // that the backward pass adds to, each once
  bool zeros_for_missing = true;       // a result that nothing used has a gradient of zeros; else an undefined one
  std::vector<size_t> not_recorded{};  // numbers of results without a gradient
  std::vector<CheapTensor> cheap{};    // what selective recomputation does not keep (saved_tensors.h)
};

// While one lives, this thread runs a forward pass for the second time (recomputed.h): products of weights were announced by the first.
class MadeAgain {
 public:
  MadeAgain();
  ~MadeAgain();
  MadeAgain(const MadeAgain&) = delete;
  MadeAgain& operator=(const MadeAgain&) = delete;
};

// The results. `inputs` (some may be undefined) are all tensors that want gradients; nothing is recorded where none of them does.
std::vector<Tensor> differentiable(const char* op, const std::vector<Tensor>& inputs, const std::function<Recorded()>& forward);

}  // namespace longhaul::kernels
