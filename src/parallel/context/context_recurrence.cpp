#include "parallel/context/context_recurrence.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/linear_recurrence/raw.h"
#include "kernels/saved/recomputed.h"
#include "parallel/context/context_states.h"
#include "parallel/context/head_exchange.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using kernels::BackwardCall;
using kernels::LinearRecurrenceOptions;
using kernels::Recorded;
using kernels::RecurrenceFold;
using kernels::RecurrenceGradients;
using kernels::RecurrenceInputs;

enum Operand : size_t { kQ, kK, kV, kDecay, kBound, kOperands };

// This rank's operands, and what it takes of them for one of its pieces.
struct Operands {
  std::vector<Tensor> of;
  LinearRecurrenceOptions options;

  int64_t heads() const { return of[kQ].size(1); }
  bool decay_by_token() const { return of[kDecay].defined() && of[kDecay].dim() > 1; }
  ScalarType state_type() const { return of[kQ].scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
  std::vector<int64_t> state_sizes() const { return {heads(), of[kQ].size(2), of[kV].size(2)}; }

  // Part `i` of `parts` of the heads.
  Operands heads(int64_t parts, int64_t i) const {
    Operands part{.of = {}, .options = options};
    for (size_t operand = 0; operand < of.size(); ++operand)
      part.of.push_back(heads_of(operand, of[operand], parts, i));
    return part;
  }
  // Of operand number `operand`, or of its gradient.
  static Tensor heads_of(size_t operand, const Tensor& x, int64_t parts, int64_t i) {
    if (!x.defined()) return x;
    const int64_t axis = head_axis(operand, x), heads = x.size(axis) / parts;
    return x.narrow(axis, i * heads, heads);
  }
  static int64_t head_axis(size_t operand, const Tensor& x) {
    return operand == kBound || x.dim() == 1 ? 0 : 1;
  }

  // `length` tokens of this rank from `begin` on, cut into runs.
  RecurrenceInputs part(int64_t begin, int64_t length, const std::vector<int64_t>& offsets) const {
    const auto rows = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, length) : x; };
    RecurrenceInputs in{
        rows(of[kQ]), rows(of[kK]),       rows(of[kV]), decay_by_token() ? rows(of[kDecay]) : of[kDecay],
        {},           to_tensor(offsets), options};
    in.options.gate.lower_bound_hk = of[kBound];
    return in;
  }
  // A piece that begins in `entering`, the state of its first run; undefined: zeros.
  RecurrenceInputs whole(const ContextPiece& piece, const Tensor& entering) const {
    RecurrenceInputs in = part(piece.local_begin, piece.tokens.length, piece.offsets);
    if (entering.defined()) in.initial_state_nhkv = states_of_runs(piece, 0, entering);
    return in;
  }
  Tensor states_of_runs(const ContextPiece& piece, int64_t run, const Tensor& state) const {
    std::vector<int64_t> sizes = state_sizes();
    sizes.insert(sizes.begin(), piece.runs());
    const Tensor states = at::zeros(sizes, of[kQ].options().dtype(state_type()).requires_grad(false));
    states.select(0, run).copy_(state);
    return states;
  }
};

ContextFold one_document(const RecurrenceFold& fold) {
  return {fold.state_nhkv.squeeze(0), fold.decay_nhk.squeeze(0)};
}

// What the last run of a piece leaves.
ContextFold fold_end(const Operands& operands, const ContextPiece& piece) {
  const int64_t begin = piece.offsets[piece.offsets.size() - 2], length = piece.tokens.length - begin;
  return one_document(kernels::fold_recurrence(operands.part(piece.local_begin + begin, length, {0, length}),
                                               operands.heads()));
}

// What the first run of a piece gives to the state that enters.
ContextFold fold_begin(const Operands& operands, const ContextPiece& piece, const Tensor& d_o) {
  const int64_t length = piece.offsets[1];
  return one_document(kernels::fold_recurrence_gradient(operands.part(piece.local_begin, length, {0, length}),
                                                        d_o.narrow(0, piece.local_begin, length)));
}

// The heads in as many parts as `passings` has, each with the operands of its own.
struct HeadParts {
  std::vector<Operands> operands;
  std::vector<StatePassing> passings;
};

HeadParts parts_of(recipe::LinearContextMethod method, comm::Communicator& group,
                   const std::vector<ContextPiece>& pieces, const Operands& all) {
  bool halves = method == recipe::LinearContextMethod::kAllGather && group.size() > 1;
  for (size_t i = 0; i < kOperands; ++i) {
    const Tensor& x = all.of[i];
    halves = halves && (!x.defined() || x.size(Operands::head_axis(i, x)) % kGatheredHalves == 0);
  }
  const int64_t parts = halves ? kGatheredHalves : 1;
  HeadParts made;
  for (int64_t i = 0; i < parts; ++i) {
    const Operands part = all.heads(parts, i);
    made.operands.push_back(part);
    made.passings.emplace_back(
        method, group, pieces,
        StateKind{.sizes = part.state_sizes(),
                  .options = part.of[kQ].options().dtype(part.state_type()).requires_grad(false),
                  .decay_by_token = part.decay_by_token(),
                  .log_decay_h = part.of[kDecay]});
  }
  return made;
}

// What the backward pass of one part of the heads reads: of each piece, in the order of the row.
struct Kept {
  std::vector<Tensor> entering, boundaries;
};

// Of the pieces of this rank, in the order of its tokens, which is that of the row. A layer that is
// recomputed finds the states that entered them: no rank is asked again. Where it keeps recurrences it finds
// the rest too.
Tensor forward(const Operands& operands, const HeadParts& parts, const std::vector<ContextPiece>& own,
               std::vector<Kept>& kept) {
  std::vector<std::vector<Tensor>> o(parts.operands.size());
  kept.resize(parts.operands.size());
  const auto use = [&](size_t part, const ContextPiece& piece, const Tensor& state) {
    const kernels::RecurrenceRun run = kernels::run_recurrence(parts.operands[part].whole(piece, state));
    kept[part].entering.push_back(state);
    kept[part].boundaries.push_back(run.boundaries);
    o[part].push_back(run.result.o_thd);
  };
  const bool whole = kernels::keeps_recurrences();
  if (kernels::runs_again()) {
    for (size_t part = 0; part < parts.operands.size(); ++part) {
      const std::vector<Tensor> entering = kernels::kept_by_first_run();
      if (whole) {
        kept[part] = {entering, kernels::kept_by_first_run()};
        o[part] = kernels::kept_by_first_run();
        continue;
      }
      for (size_t i = 0; i < own.size(); ++i) use(part, own[i], entering[i]);
    }
  } else {
    StatePassing::run_together(
        parts.passings, /*backward=*/false,
        [&](size_t part, const ContextPiece& piece) { return fold_end(parts.operands[part], piece); }, use);
    for (size_t part = 0; part < parts.operands.size(); ++part) {
      kernels::keep_for_second_run(kept[part].entering);
      if (!whole) continue;
      kernels::keep_for_second_run(kept[part].boundaries);
      kernels::keep_for_second_run(o[part]);
    }
  }
  if (o[0].empty())
    return at::empty({0, operands.heads(), operands.of[kV].size(2)},
                     operands.of[kV].options().requires_grad(false));
  std::vector<Tensor> of_parts;
  for (const std::vector<Tensor>& pieces : o)
    of_parts.push_back(pieces.size() == 1 ? pieces[0] : at::cat(pieces));
  return of_parts.size() == 1 ? of_parts[0] : at::cat(of_parts, 1);
}

// Gradients of the operands, part by part of the heads and piece by piece into rows of the whole.
class Gradients {
 public:
  Gradients(const Operands& operands, bool decay) : operands_(operands), decay_(decay) {
    for (size_t i = 0; i < kOperands; ++i) {
      const bool wanted = operands.of[i].defined() && (i < kDecay || decay);
      sum_.push_back(wanted ? at::zeros(operands.of[i].sizes(), operands.of[i].options().requires_grad(false))
                            : Tensor());
    }
  }
  void add(int64_t parts, int64_t part, const ContextPiece& piece, const RecurrenceGradients& of) {
    const auto heads = [&](size_t i) { return Operands::heads_of(i, sum_[i], parts, part); };
    const auto rows = [&](size_t i) { return heads(i).narrow(0, piece.local_begin, piece.tokens.length); };
    rows(kQ).copy_(of.q_thk);
    if (sum_[kK].defined()) rows(kK).copy_(of.k_thk);
    rows(kV).copy_(of.v_thv);
    if (!decay_) return;
    if (operands_.decay_by_token()) {
      rows(kDecay).copy_(of.log_decay);
    } else {
      heads(kDecay).add_(of.log_decay);
    }
    if (sum_[kBound].defined()) heads(kBound).add_(of.lower_bound_hk);
  }
  std::vector<Tensor> take() { return std::move(sum_); }

 private:
  const Operands& operands_;
  bool decay_;
  std::vector<Tensor> sum_;
};

std::vector<Tensor> backward(const Operands& operands, const HeadParts& parts, const std::vector<Kept>& kept,
                             const Tensor& d_o, bool decay) {
  Gradients gradients(operands, decay);
  const auto count = static_cast<int64_t>(parts.operands.size());
  std::vector<Tensor> d_o_of;
  std::vector<size_t> left;  // pieces come last first
  for (int64_t i = 0; i < count; ++i) {
    d_o_of.push_back(Operands::heads_of(kV, d_o, count, i));
    left.push_back(kept[static_cast<size_t>(i)].entering.size());
  }
  StatePassing::run_together(
      parts.passings, /*backward=*/true,
      [&](size_t part, const ContextPiece& piece) {
        return fold_begin(parts.operands[part], piece, d_o_of[part]);
      },
      [&](size_t part, const ContextPiece& piece, const Tensor& d_leaving) {
        const Operands& own = parts.operands[part];
        const size_t at = --left[part];
        const Tensor d_final =
            d_leaving.defined() ? own.states_of_runs(piece, piece.runs() - 1, d_leaving) : Tensor();
        gradients.add(count, static_cast<int64_t>(part), piece,
                      kernels::run_recurrence_backward(
                          own.whole(piece, kept[part].entering[at]), kept[part].boundaries[at],
                          d_o_of[part].narrow(0, piece.local_begin, piece.tokens.length), d_final, decay));
      });
  return gradients.take();
}

// Ulysses.
Tensor recurrence_of_heads(comm::Communicator& group, const Operands& all, const layout::SequenceView& view) {
  const HeadExchange heads(group, neighbours_of(view, context_pieces(view), 0, group.size()),
                           all.of[kQ].device());
  static constexpr const char* kNames[kOperands] = {"queries to heads", "keys to heads", "values to heads",
                                                    "decays to heads", ""};
  std::vector<Tensor> own;
  for (size_t i = 0; i < kOperands; ++i) {
    const Tensor& x = all.of[i];
    LONGHAUL_ASSERT(!x.defined() || x.size(Operands::head_axis(i, x)) % group.size() == 0,
                    "{} heads over {} context ranks", x.size(Operands::head_axis(i, x)), group.size());
    if (!x.defined()) {
      own.push_back(x);
    } else if (Operands::head_axis(i, x) == 0) {  // every rank knows those of all heads
      own.push_back(Operands::heads_of(i, x, group.size(), group.rank()));
    } else {
      const bool vectors = x.dim() == 3;
      const Tensor of_heads = heads.to_heads(vectors ? x : x.unsqueeze(2), kNames[i]);
      own.push_back(vectors ? of_heads : of_heads.squeeze(2));
    }
  }
  LinearRecurrenceOptions options = all.options;
  options.gate.lower_bound_hk = own[kBound];
  const Tensor offsets = to_tensor(view.layout.document_offsets);
  return heads.to_tokens(
      kernels::linear_recurrence(own[kQ], own[kK], own[kV], own[kDecay], {}, offsets, options).o_thd,
      "results to tokens");
}

}  // namespace

Tensor context_recurrence(recipe::LinearContextMethod method, comm::Communicator& group, const Tensor& q,
                          const Tensor& k, const Tensor& v, const Tensor& log_decay,
                          const layout::SequenceView& view, const LinearRecurrenceOptions& options) {
  LONGHAUL_ASSERT(!options.reverse, "context ranks run documents from their first token to the last");
  const std::vector<Tensor> inputs{q, k, v, log_decay, options.gate.lower_bound_hk};
  if (method == recipe::LinearContextMethod::kUlysses)
    return recurrence_of_heads(group, {inputs, options}, view);
  // a closure that held an input would not notice that it was written to
  LinearRecurrenceOptions plain = options;
  plain.gate.lower_bound_hk = Tensor();
  const auto wants = [](const Tensor& x) { return x.defined() && x.requires_grad(); };
  const bool decay = wants(log_decay) || wants(options.gate.lower_bound_hk);
  return kernels::differentiable("context_recurrence", inputs, [&]() -> Recorded {
    const Operands operands{inputs, plain};
    const std::vector<ContextPiece> pieces = context_pieces(view);
    std::vector<Kept> kept;
    std::vector<ContextPiece> own;
    std::ranges::copy_if(pieces, std::back_inserter(own),
                         [&](const ContextPiece& piece) { return piece.rank == group.rank(); });
    const Tensor o = forward(operands, parts_of(method, group, pieces, operands), own, kept);
    return {.results = {o},
            .saved = inputs,
            .backward = [method, &group, pieces, kept, plain, decay](const BackwardCall& call) {
              const Operands saved{call.saved, plain};
              return backward(saved, parts_of(method, group, pieces, saved), kept,
                              call.gradients[0].contiguous(), decay);
            }};
  })[0];
}

}  // namespace longhaul::parallel
