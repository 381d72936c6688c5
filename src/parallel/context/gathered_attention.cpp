#include "parallel/context/gathered_attention.h"

#include <algorithm>
#include <numeric>

#include "kernels/attention/raw.h"
#include "kernels/differentiable.h"
#include "kernels/experts/rows.h"
#include "kernels/saved/recomputed.h"
#include "layout/head_groups.h"
#include "parallel/context/context_pieces.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using comm::Communicator;
using comm::Work;
using kernels::AttentionGradients;
using kernels::AttentionOutside;
using kernels::AttentionProblem;
using kernels::AttentionResult;
using kernels::BackwardCall;
using kernels::Recorded;
using kernels::Visibility;
using layout::Range;

Tensor rows(const Tensor& x, const Range& range) { return x.narrow(0, range.begin, range.length); }
Tensor heads(const Tensor& x, const Range& range) { return x.narrow(1, range.begin, range.length); }

Tensor rows_in_order(const Tensor& x_thd, const Tensor& index) {
  return kernels::take_rows(x_thd.flatten(1), index).view({index.size(0), x_thd.size(1), x_thd.size(2)});
}

// A run of this rank's queries, and the keys of the row that they may see.
struct QueryRun {
  Range queries, keys;
  Visibility visible;
};

// What every group of heads of a call has in common.
struct Row {
  std::vector<QueryRun> runs;
  std::vector<int64_t> rank_tokens;  // of each rank
  Tensor to_row, to_ranks;           // from the order of ranks to that of the row, and back

  int64_t tokens() const { return std::accumulate(rank_tokens.begin(), rank_tokens.end(), int64_t{0}); }
};

Row row_of(const Communicator& group, const layout::SequenceView& view,
           const kernels::AttentionOptions& options, at::Device device) {
  Row row{.runs = {}, .rank_tokens = view.context_lengths(), .to_row = {}, .to_ranks = {}};
  const std::vector<int64_t> order = view.context_order();
  row.to_ranks = to_tensor(order, device);
  row.to_row = to_tensor(layout::inverse_permutation(order), device);
  Visibility whole = Visibility::packed(view.layout.document_offsets, view.layout.document_offsets);
  whole.window = options.window;
  whole.causal = options.causal;
  for (const ContextPiece& piece : context_pieces(view)) {
    if (piece.rank != group.rank()) continue;
    const auto& documents = view.layout.document_offsets;
    // of the document that the run begins in
    const int64_t first = *std::prev(std::ranges::upper_bound(documents, piece.tokens.begin));
    const int64_t end =
        options.causal ? piece.tokens.end() : *std::ranges::lower_bound(documents, piece.tokens.end());
    const Range keys{first, end - first};
    row.runs.push_back({{piece.local_begin, piece.tokens.length},
                        keys,
                        whole.pair({piece.tokens.begin, piece.tokens.end()}, {keys.begin, keys.end()})});
  }
  return row;
}

// The heads of one group.
struct HeadGroup {
  Range keys, queries;
};

std::vector<HeadGroup> head_groups(int64_t key_heads, int64_t query_heads) {
  const int64_t groups = layout::key_head_groups(key_heads), each = query_heads / key_heads;
  std::vector<HeadGroup> all;
  for (int64_t g = 0; g < groups; ++g) {
    const Range keys = layout::even_part(key_heads, groups, g);
    all.push_back({keys, {keys.begin * each, keys.length * each}});
  }
  return all;
}

// Keys and values of some heads that are on their way from all ranks.
class Coming {
 public:
  Coming(Communicator& group, const Row& row, const Tensor& k, const Tensor& v, const HeadGroup& of,
         bool again) {
    for (const auto& [x, name] : {std::pair{k, "keys"}, std::pair{v, "values"}}) {
      const Tensor own = heads(x, of.keys).contiguous();
      all_.push_back(at::empty({row.tokens(), own.size(1), own.size(2)}, own.options()));
      works_.push_back(group.all_gather(
          own, all_.back(), {.name = std::string(name) + (again ? " (backward)" : "")}, row.rank_tokens));
    }
  }
  // In the order of the row.
  std::pair<Tensor, Tensor> arrived(const Row& row) {
    for (Work& work : works_) work.wait();
    return {rows_in_order(all_[0], row.to_row), rows_in_order(all_[1], row.to_row)};
  }

 private:
  std::vector<Tensor> all_;
  std::vector<Work> works_;
};

// Calls with(group of heads, k, v of the row) for each group, while the next one's are on their way.
void each_group(Communicator& group, const Row& row, const Tensor& q, const Tensor& k, const Tensor& v,
                bool again, const auto& with) {
  const std::vector<HeadGroup> groups = head_groups(k.size(1), q.size(1));
  Coming here(group, row, k, v, groups[0], again);
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto [k_row, v_row] = here.arrived(row);
    if (g + 1 < groups.size()) here = Coming(group, row, k, v, groups[g + 1], again);
    with(groups[g], k_row, v_row);
  }
}

AttentionProblem problem_of(const QueryRun& run, const HeadGroup& of, const Tensor& q, const Tensor& k_row,
                            const Tensor& v_row, double scale) {
  return {rows(heads(q, of.queries), run.queries), rows(k_row, run.keys), rows(v_row, run.keys), run.visible,
          scale};
}

// A layer that is made again (kernels/saved/recomputed.h) finds the result: nothing is gathered before its
// backward pass.
AttentionResult forward(Communicator& group, const Row& row, const Tensor& q, const Tensor& k,
                        const Tensor& v, double scale) {
  if (kernels::runs_again()) {
    const std::vector<Tensor> kept = kernels::kept_by_first_run();
    return {kept.at(0), kept.at(1)};
  }
  const ScalarType wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const AttentionResult all{at::empty({q.size(0), q.size(1), v.size(2)}, v.options()),
                            at::empty({q.size(0), q.size(1)}, q.options().dtype(wide))};
  each_group(group, row, q, k, v, /*again=*/false,
             [&](const HeadGroup& of, const Tensor& k_row, const Tensor& v_row) {
               for (const QueryRun& run : row.runs) {
                 const AttentionResult part =
                     kernels::attention_forward(problem_of(run, of, q, k_row, v_row, scale));
                 rows(heads(all.o_thd, of.queries), run.queries).copy_(part.o_thd);
                 rows(heads(all.logsumexp_th, of.queries), run.queries).copy_(part.logsumexp_th);
               }
             });
  kernels::keep_for_second_run({all.o_thd, all.logsumexp_th});
  return all;
}

// Gradients of some heads' keys or values on their way home.
struct GoingHome {
  Tensor sum, own, into;  // of all ranks' tokens; of this rank's; where they belong
  Work work;
};

std::vector<Tensor> backward(Communicator& group, const Row& row, const Tensor& q, const Tensor& k,
                             const Tensor& v, const AttentionOutside& outside, double scale) {
  const ScalarType wide = outside.delta_th.scalar_type();
  const auto options = q.options().dtype(wide);
  const Tensor dq = at::zeros(q.sizes(), options), dk = at::empty(k.sizes(), k.options()),
               dv = at::empty(v.sizes(), v.options());
  std::vector<GoingHome> home;
  const auto send_home = [&](const Tensor& of_row, const Tensor& into, const char* name) {
    GoingHome& one = home.emplace_back();
    one.sum = rows_in_order(of_row, row.to_ranks);
    one.own = at::empty(into.sizes(), options);
    one.into = into;
    one.work = group.reduce_scatter(one.sum, one.own, comm::Reduction::kSum, {.name = name}, row.rank_tokens);
  };
  const auto arrive = [&] {
    for (GoingHome& one : home) {
      one.work.wait();
      one.into.copy_(one.own);
    }
    home.clear();
  };
  each_group(
      group, row, q, k, v, /*again=*/true,
      [&](const HeadGroup& of, const Tensor& k_row, const Tensor& v_row) {
        const Tensor dk_row = at::zeros(k_row.sizes(), options), dv_row = at::zeros(v_row.sizes(), options);
        for (const QueryRun& run : row.runs) {
          const auto own = [&](const Tensor& x) {
            return rows(heads(x, of.queries), run.queries).contiguous();
          };
          kernels::attention_backward(
              problem_of(run, of, q, k_row, v_row, scale),
              {own(outside.d_o_thd), own(outside.logsumexp_th), own(outside.delta_th), own(outside.o_thd)},
              {rows(heads(dq, of.queries), run.queries), rows(dk_row, run.keys), rows(dv_row, run.keys)});
        }
        arrive();  // the group before: it had this one's computing to come home
        send_home(dk_row, heads(dk, of.keys), "keys (gradient)");
        send_home(dv_row, heads(dv, of.keys), "values (gradient)");
      });
  arrive();
  return {dq.to(q.scalar_type()), dk, dv};
}

}  // namespace

Tensor gathered_attention(Communicator& group, const Tensor& q, const Tensor& k, const Tensor& v,
                          const layout::SequenceView& view, const kernels::AttentionOptions& options) {
  const double scale = options.scale;
  return kernels::differentiable("gathered_attention", {q, k, v}, [&]() -> Recorded {
    const Row row = row_of(group, view, options, q.device());
    const AttentionResult all = forward(group, row, q.detach(), k.detach(), v.detach(), scale);
    return {.results = {all.o_thd, all.logsumexp_th},
            .saved = {q, k, v, all.o_thd, all.logsumexp_th},
            .backward =
                [&group, row, scale](const BackwardCall& call) {
                  const Tensor& d_o = call.gradients[0];
                  const AttentionOutside outside{d_o.contiguous(), call.saved[4],
                                                 kernels::attention_delta(call.saved[3], d_o, Tensor()),
                                                 call.saved[3]};
                  return backward(group, row, call.saved[0], call.saved[1], call.saved[2], outside, scale);
                },
            .not_recorded = {1}};
  })[0];
}

}  // namespace longhaul::parallel
