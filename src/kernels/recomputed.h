// A part of a network whose activations are dropped after its forward pass and made again, from what is kept of its inputs, in its backward
// pass (Chen et al., arXiv 1604.06174). Bit for bit the same results and gradients: the part is recorded the same way both times, and its own
// backward pass adds up in the same order.
//
// The first run is recorded too, and its graph thrown away: so the products of weights' gradients that are to come are counted by whoever
// counts them (gradient_sink.h), each once.
#pragma once

#include <functional>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct RecomputedPart {
  std::vector<Tensor> inputs;  // floating point; gradients go back to those that want them
  std::vector<Tensor> kept;    // what `inputs` are made of again
  // Now. What it needs may be gone when it returns.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> run;
  // In the backward pass: owns what it needs. inputs_again runs without recording; run_again must do what run did, calls between ranks included but for those
  // whose results were kept for it.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& kept)> inputs_again;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> run_again;
};

// The results of `run`. Gradients of inputs that are also kept are the inputs' own.
std::vector<Tensor> recomputed(const char* op, const RecomputedPart& part);

// What a part got from elsewhere (other ranks) and is small, or took long to make beside its size (attention): its first run keeps it, its second one finds
// it instead of asking, or computing, again. Both come to it in
// the same order. Nothing is kept outside of a part, and none of its gradients go back this way.
bool runs_again();                                      // this is the second run of a part
void keep_for_second_run(std::vector<Tensor> tensors);  // some may be undefined
std::vector<Tensor> kept_by_first_run();                // in the second run only

}  // namespace longhaul::kernels
