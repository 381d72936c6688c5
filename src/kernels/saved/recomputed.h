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
  // What recurrences gave is kept, as what attention gave always is; and of products the rows that the
  // thread's SavedTensors has room for.
  bool by_tokens = false;
};

// Returns the results of `run`. Gradients of inputs that are also kept belong to the inputs.
std::vector<Tensor> recomputed(const char* op, const RecomputedPart& part);

// Keeps tensors that a part got from other ranks and that are small, or that took long to compute relative
// to their size (attention): the first run keeps them, and the second run takes them instead of requesting
// or computing them again. Both runs reach them in the same order. Nothing is kept outside of a part, and
// no gradient flows through kept tensors.
bool runs_again();  // this is the second run of a part
// some may be undefined
void keep_for_second_run(const std::vector<Tensor>& tensors);
std::vector<Tensor> kept_by_first_run();  // in the second run only, once

// While an object of this class lives, what this thread runs belongs to no part: it is run once.
class OutsideParts {
 public:
  OutsideParts();
  ~OutsideParts();
  OutsideParts(const OutsideParts&) = delete;
  OutsideParts& operator=(const OutsideParts&) = delete;

 private:
  void* part_;
};

// Returns what `make(0)` gives: tensors of `rows` rows, made by products each row of which depends on its row
// of the input alone. In a part that keeps a share of rows (SavedTensors::row_share) the first run keeps as
// many of the first rows, rounded up, and the second run finds these and makes the others: make(begin) gives
// the rows from `begin` on. exact: rows have the same bits made alone and among others; if not, all are kept
// or none.
std::vector<Tensor> rows_once(int64_t rows, bool exact,
                              const std::function<std::vector<Tensor>(int64_t begin)>& make);

// Whether the part that runs keeps what recurrences gave (RecomputedPart::by_tokens).
bool keeps_recurrences();
// Returns what `compute` gives. In a part that keeps recurrences only the first run calls it, and the second
// run finds the same tensors; but whoever gives an initial state reads the final one too, which is not kept:
// then both runs call it.
std::vector<Tensor> recurrence_once(const Tensor& initial_state,
                                    const std::function<std::vector<Tensor>()>& compute);
// The final state of a recurrence that was found, which nothing reads: NaN, in one element of memory.
Tensor unread_state(at::IntArrayRef sizes, at::TensorOptions options);

}  // namespace longhaul::kernels
