// prove: a model trained on several ranks gives what one process gives. For every layout of ranks the
// recipe's model, made small, takes three optimizer steps on packed documents of awkward lengths, by ranks
// that are threads (of some layouts also by processes: prove_processes.h); the loss and the gradient norm of
// every step, every gradient of the first and every parameter after the last are compared with those of a
// single process, on every rank that holds a copy. Each layout also takes the third step from a checkpoint
// that the layout before saved behind the second, the first one from the single process's.
//
//   workers (parallel.workers)  take the mean of their weights behind each step, as an outer loop does; all
//                               see the same, so it is what each has. What
//          they do that see other documents has no equal in one process (docs/design/outer-loops.md)
//   elastic (train.elastic)   no difference at all, in either precision, from an elastic run of one process
//   fp64   the largest difference relative to the largest value of the tensor, 1e-12: sums are taken in
//          another order, nothing else
//   bf16   two steps: losses and the first norm 2 %, the first gradients, and by how much the first update
//          moved the masters, 20 % (with experts 40 %), by the root mean square of the tensor: partial
//          products are rounded before they are summed, a unit of 2^-8 a rounding, layers add up, and where
//          two experts are nearly alike a token may choose the other one. A tensor whose bf16 gradient in one
//          process is off the fp64 one by more than 10 % may differ by twice that, 50 % at most: two ways are
//          each so far off. It shows that the bf16 way through the kernels runs and means the same (a wrong
//          method is off by its whole size); fp64 shows exactness. And every rank's values behind the last
//          update are the rounding of the masters, which others may hold, to the bit.
//
//   fp32   as fp64, and measured from the numbers of one process in fp64: 1e-6, or twice as far as one
//          process in fp32 is from them, 1e-5 at most. A unit is 6e-8, and activations are rounded to it in
//          every layer, so two ways that are each 7e-7 off may be 1e-6 apart (bench/results/prove.md has what
//          was seen); wrong methods are off by 1e-3 and more
//   copies in each precision: what two ranks hold of the same part of a tensor, gradients and values, is the
//     same to the bit
//
// fp64 is always tried; of bf16 and fp32 the recipe's own (train.dtype).
//
// A tensor whose values are below a hundredth of the model's largest is measured by that: the gradient of a
// key's bias is zero but for rounding. The optimizer's eps is 1e-2 here (those of squares 1e-4, and below
// 1e-2 lion's signs fade): with 1e-8 a gradient that is zero but for rounding (1e-17) would move a parameter
// by a whole step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "prove/prove_layouts.h"
#include "prove/prove_mistakes.h"
#include "prove/prove_processes.h"

namespace longhaul::prove {

struct Proof {
  enum class Status { kTried, kRefused, kSkipped };
  std::string layout;
  int64_t ranks = 1;
  Status status = Status::kTried;
  std::string reason;        // of a refusal, a skip or a failure
  double worst = 0;          // relative difference of anything, in fp64
  double worst_working = 0;  // in the recipe's precision: in fp32 of anything, in bf16 of gradients
  // in fp32: how far one process is from fp64 itself; 0 of elastic runs, whose bits are compared
  double of_one_process = 0;
  // where `worst` is; of a failure the first one beyond the bound, in the order of the model
  std::string tensor;
  std::string resumed_from;  // the layout whose checkpoint it went on from
  double seconds = 0;        // that it took
  bool holds = true;

  std::string_view status_name() const;  // "tried"
};

inline constexpr double kProofBound = 1e-12, kProofBoundFp32 = 1e-6, kProofLimitFp32 = 1e-5,
                        kProofBoundBf16 = 0.2, kProofBoundBf16Experts = 0.4, kProofLimitBf16 = 0.5,
                        kProofBoundBf16Scalars = 0.02;

struct ProofRequest {
  recipe::ModelConfig model;
  recipe::OptimOptions optim{};
  std::vector<ProofLayout> layouts;
  recipe::Dtype dtype = recipe::Dtype::kBf16;        // train.dtype: the working precision, tried beside fp64
  std::function<void(const ProofLayout&)> begins{};  // called before each
  // How ranks that are threads get their communicators; unset: comm::run_ranks.
  std::function<void(int64_t ranks, const std::function<void(comm::Communicator&)>& body)> run_threads{};
  ProofProcess process{};  // of layouts whose ranks are processes; unset: these are skipped
};
std::vector<Proof> prove(const ProofRequest& request);

}  // namespace longhaul::prove
