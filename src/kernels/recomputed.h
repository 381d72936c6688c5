// Activation recomputation: a part of a network whose activations are dropped after its forward pass and
// recomputed in its backward pass, from what is kept of its inputs (Chen et al., arXiv 1604.06174). Results
// and gradients are the same bit for bit: the part is recorded the same way both times, and its own
// backward pass accumulates in the same order.
//
// The first run is recorded too, and its graph is dropped: this lets the code that counts the expected
// products of weights' gradients (gradient_sink.h) count each product once.
#pragma once

#include <functional>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct RecomputedPart {
  std::vector<Tensor> inputs;  // floating point; gradients go back to those that want them
  std::vector<Tensor> kept;    // the tensors from which `inputs` are recomputed
  // The first run, called at once. What it needs may be gone when it returns.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> run;
  // Called in the backward pass, so they must own what they need. inputs_again runs without recording;
  // run_again must do the same as run, including calls between ranks except those whose results were kept
  // for it.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& kept)> inputs_again;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> run_again;
};

// Returns the results of `run`. Gradients of inputs that are also kept belong to the inputs.
std::vector<Tensor> recomputed(const char* op, const RecomputedPart& part);

// Keeps tensors that a part got from other ranks and that are small, or that took long to compute relative
// to their size (attention): the first run keeps them, and the second run takes them instead of requesting
// or computing them again. Both runs reach them in the same order. Nothing is kept outside of a part, and
// no gradient flows through kept tensors.
bool runs_again();                                      // this is the second run of a part
void keep_for_second_run(std::vector<Tensor> tensors);  // some may be undefined
std::vector<Tensor> kept_by_first_run();                // in the second run only

}  // namespace longhaul::kernels
