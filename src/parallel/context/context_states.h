// StatePassing: how the states of a recurrence get from piece to piece of a row (context_recurrence.h has the methods). Forward a piece's state
// goes to the piece behind it, backward its gradient to the piece before: one algorithm, that sees the pieces in the order in which it goes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "parallel/context/context_pieces.h"

namespace longhaul::parallel {

struct ContextFold {
  Tensor state_hkv, decay_hk;  // S and Λ: what comes out is Λ ⊙ (what came in) + S
};

struct StateKind {
  std::vector<int64_t> sizes;  // [H, Dk, Dv]
  at::TensorOptions options;   // fp32 (fp64)
  bool decay_by_token = false;
  Tensor log_decay_h;  // else every rank knows Λ by itself; undefined: 1
};

class StatePassing {
 public:
  using Fold = std::function<ContextFold(const ContextPiece&)>;
  using Use = std::function<void(const ContextPiece&, const Tensor& entering_hkv)>;

  StatePassing(recipe::LinearContextMethod method, comm::Communicator& group, std::vector<ContextPiece> pieces, StateKind kind);

  // Of this rank's pieces, in the order of the row, backward the other way round: `fold`s them all, then `use`s each with what enters it;
  // undefined: nothing does.
  void run(bool backward, const Fold& fold, const Use& use) const;

  // The same for several states that know nothing of each other (heads): with all-gather those of one are on their way while the next are folded,
  // pieces that nothing enters are used, and those before are used. Of one method, group and row.
  static void run_together(const std::vector<StatePassing>& all, bool backward,
                           const std::function<ContextFold(size_t, const ContextPiece&)>& fold,
                           const std::function<void(size_t, const ContextPiece&, const Tensor& entering_hkv)>& use);

 private:
  struct Step {  // a piece in the order of a run
    const ContextPiece* piece;
    bool enters, leaves;  // whether a state comes from the step before, and goes to the next
  };
  std::vector<Step> steps(bool backward) const;
  bool own(const Step& step) const { return step.piece->rank == group_->rank(); }
  // The folds of all ranks on their way: a row of `all` is a state, with Λ as a further column of values.
  struct Gathering {
    std::vector<Step> steps;
    std::vector<int64_t> rows;  // of each rank
    Tensor all{};               // undefined: nothing goes from piece to piece
    comm::Work work{};
    size_t used = 0;  // steps that have been used already, or are other ranks'
  };
  Gathering begin_gathering(bool backward, const Fold& fold) const;
  void use_before(Gathering& gathering, const Use& use) const;
  void use_gathered(Gathering gathering, const Use& use) const;
  std::vector<ContextFold> folds_of(const Gathering& gathering) const;
  std::string name(bool backward) const;
  void run_chained(const std::vector<Step>& steps, const std::string& name, const Fold& fold, const Use& use) const;
  Tensor decay_of(const ContextPiece& piece) const;

  recipe::LinearContextMethod method_;
  comm::Communicator* group_;
  std::vector<ContextPiece> pieces_;
  StateKind kind_;
};

}  // namespace longhaul::parallel
