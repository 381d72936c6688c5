// StatePassing: moves the states of a recurrence from piece to piece of a row (context_recurrence.h describes
// the methods). In the forward pass the state of a piece goes to the next piece, in the backward pass its
// gradient goes to the previous one. Both are one algorithm that visits the pieces in the order of its
// direction.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "parallel/context/context_pieces.h"

namespace longhaul::parallel {

struct ContextFold {
  Tensor state_hkv, decay_hk;  // S and Λ: the state that leaves is Λ ⊙ (the state that entered) + S
};

struct StateKind {
  std::vector<int64_t> sizes;  // [H, Dk, Dv]
  at::TensorOptions options;   // fp32 (fp64)
  bool decay_by_token = false;
  Tensor log_decay_h;  // otherwise every rank knows Λ already; undefined: 1
};

class StatePassing {
 public:
  using Fold = std::function<ContextFold(const ContextPiece&)>;
  using Use = std::function<void(const ContextPiece&, const Tensor& entering_hkv)>;

  StatePassing(recipe::LinearContextMethod method, comm::Communicator& group,
               std::vector<ContextPiece> pieces, StateKind kind);

  // Visits this rank's pieces in the order of the row, in the backward pass in reverse: calls `fold` for all
  // of them, then `use` for each with the state that enters it; undefined: no state enters.
  void run(bool backward, const Fold& fold, const Use& use) const;

  // The same for several independent states (heads): with all-gather the states of one are sent while the
  // next are folded, while pieces that no state enters are used, and while earlier states are used. All have
  // one method, group and row.
  static void run_together(
      const std::vector<StatePassing>& all, bool backward,
      const std::function<ContextFold(size_t, const ContextPiece&)>& fold,
      const std::function<void(size_t, const ContextPiece&, const Tensor& entering_hkv)>& use);

 private:
  struct Step {  // one piece, in the order of the pass
    const ContextPiece* piece;
    bool enters, leaves;  // whether a state comes from the step before, and goes to the next
  };
  std::vector<Step> steps(bool backward) const;
  bool own(const Step& step) const { return step.piece->rank == group_->rank(); }
  // The gather of all ranks' folds in progress: a row of `all` is a state, with Λ as one more column of
  // values.
  struct Gathering {
    std::vector<Step> steps;
    std::vector<int64_t> rows;  // of each rank
    Tensor all{};               // undefined: no state goes from piece to piece
    comm::Work work{};
    size_t used = 0;  // steps that were used already or belong to other ranks
  };
  Gathering begin_gathering(bool backward, const Fold& fold) const;
  void use_before(Gathering& gathering, const Use& use) const;
  void use_gathered(Gathering gathering, const Use& use) const;
  std::vector<ContextFold> folds_of(const Gathering& gathering) const;
  std::string name(bool backward) const;
  void run_chained(const std::vector<Step>& steps, const std::string& name, const Fold& fold,
                   const Use& use) const;
  Tensor decay_of(const ContextPiece& piece) const;

  recipe::LinearContextMethod method_;
  comm::Communicator* group_;
  std::vector<ContextPiece> pieces_;
  StateKind kind_;
};

}  // namespace longhaul::parallel
