#include "parallel/experts/expert_dispatch.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "kernels/experts/rows.h"
#include "kernels/experts/sorted.h"
#include "parallel/collectives.h"
#include "parallel/experts/expert_owners.h"
#include "parallel/experts/flex_dispatch.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using kernels::SortedByExpert;
using layout::Axis;
using model::ExpertChoices;
using model::ExpertProduct;
using Rows = std::vector<int64_t>;

// The choices, in `count` runs of tokens.
std::vector<ExpertChoices> in_groups(const ExpertChoices& choices, int64_t count) {
  if (count == 1) return {choices};
  Rows tokens;
  for (int64_t g = 0; g < count; ++g)
    tokens.push_back(layout::even_part(choices.choice_tk.size(0), count, g).length);
  const auto choice = choices.choice_tk.split_with_sizes(tokens),
             weight = choices.weight_tk.split_with_sizes(tokens);
  std::vector<ExpertChoices> result;
  const int64_t most_tokens = (choices.most_tokens + count - 1) / count,
                most_rows = std::min(choices.most_rows, most_tokens);
  for (size_t g = 0; g < tokens.size(); ++g)
    result.push_back({choice[g], weight[g], choices.experts, choices.every, most_rows, most_tokens});
  return result;
}

std::vector<Tensor> rows_in_groups(const Tensor& rows, const std::vector<ExpertChoices>& groups) {
  if (groups.size() == 1) return {rows};
  Rows tokens;
  for (const ExpertChoices& group : groups) tokens.push_back(group.choice_tk.size(0));
  return rows.split_with_sizes(tokens);
}

// Rows sorted by expert, and as many for each as there may be at most, with zeros behind those that there are
// (docs/sources/moe-parallel-folding.md §3.2).
class Padding {
 public:
  Padding() = default;  // none
  Padding(const Rows& per_expert, int64_t most, at::Device device) {
    // the row behind the last one
    const int64_t zeros = std::accumulate(per_expert.begin(), per_expert.end(), int64_t{0});
    Rows into, back;
    for (int64_t next = 0; const int64_t count : per_expert) {
      LONGHAUL_ASSERT(device.is_meta() || count <= most, "{} rows for an expert that has room for {}", count,
                      most);
      for (int64_t i = 0; i < most; ++i) {
        if (i < count) back.push_back(std::ssize(into));
        into.push_back(i < count ? next++ : zeros);
      }
    }
    back.resize(static_cast<size_t>(zeros));  // meta: the counts are guesses, their number is not
    into_ = to_tensor(into, device), back_ = to_tensor(back, device);
  }

  Tensor padded(const Tensor& rows) const {
    if (!into_.defined()) return rows;
    return kernels::take_rows(
        at::cat({rows, at::zeros({1, rows.size(1)}, rows.options().requires_grad(false))}), into_);
  }
  Tensor unpadded(const Tensor& rows) const {
    return back_.defined() ? kernels::take_rows(rows, back_) : rows;
  }

 private:
  Tensor into_, back_;
};

// One group of tokens on its way to the experts and back.
class RowsUnderWay {
 public:
  // rows_of(rank, expert): how many rows of the group every rank of ep-etp has for every expert. in_order:
  // the group's rows, sorted; undefined: not yet.
  RowsUnderWay(const Owners& owners, const ExpertChoices& choices, SortedByExpert sorted,
               const int64_t* all_rows, int64_t stride, Padding padding, Tensor in_order)
      : owners_(owners),
        weight_(choices.weight_tk),
        sorted_(std::move(sorted)),
        padding_(std::move(padding)),
        rows_(std::move(in_order)) {
    const auto rows_of = [&](int64_t ep, int64_t etp, int64_t expert) {
      return all_rows[(ep * owners.etp + etp) * stride + expert];
    };
    const int64_t first = owners.rank * owners.experts, own = owners.groups.place().coordinate(Axis::kEtp);
    const auto sum = [&](int64_t ep, int64_t etp, int64_t first_expert) {
      int64_t rows = 0;
      for (int64_t e = 0; e < owners.experts; ++e) rows += rows_of(ep, etp, first_expert + e);
      return rows;
    };
    of_etp_.assign(static_cast<size_t>(owners.etp), 0);
    for (int64_t ep = 0; ep < owners.ep; ++ep) {
      sent_.push_back(sum(owners.rank, own, ep * owners.experts));
      received_.push_back(sum(ep, own, first));
      for (int64_t etp = 0; etp < owners.etp; ++etp) of_etp_[static_cast<size_t>(etp)] += sum(ep, etp, first);
    }
    // They lie by etp rank, by ep rank within it and by expert within that. An expert wants its own together,
    // in the order of ranks.
    Rows order;
    order.reserve(static_cast<size_t>(std::accumulate(of_etp_.begin(), of_etp_.end(), int64_t{0})));
    for (int64_t expert = 0; expert < owners.experts; ++expert) {
      const size_t before = order.size();
      int64_t begin = 0;
      for (int64_t etp = 0; etp < owners.etp; ++etp) {
        for (int64_t ep = 0; ep < owners.ep; ++ep) {
          for (int64_t e = 0; e < owners.experts; ++e) {
            const int64_t rows = rows_of(ep, etp, first + e);
            for (int64_t i = 0; e == expert && i < rows; ++i) order.push_back(begin + i);
            begin += rows;
          }
        }
      }
      per_expert_.push_back(static_cast<int64_t>(order.size() - before));
    }
    const at::Device device = choices.choice_tk.device();
    order_ = to_tensor(order, device);
    inverse_ = to_tensor(layout::inverse_permutation(order), device);
  }

  void begin_to_experts(const Tensor& hidden) {
    const Tensor rows = rows_.defined() ? std::exchange(rows_, Tensor()) : sorted_.rows(hidden);
    moving_ = exchange(padding_.padded(rows), sent_, received_, "rows to experts");
  }
  void begin_gather() {
    if (owners_.etp == 1) return;
    moving_ = begin_gather_rows(owners_.over({Axis::kEtp}), end(in_turn(moving_, owners_.turns)), of_etp_,
                                "rows of the ranks that share experts");
  }
  void compute(const ExpertProduct& product, bool delay) {
    if (owners_.etp == 1 || owners_.ep == 1) moving_ = in_turn(moving_, owners_.turns);
    const auto later = queue_for(moving_.values, delay);
    const Tensor arrived = end(moving_, emptying(later));
    const Tensor made =
        kernels::take_rows(product(kernels::take_rows(arrived, order_), per_expert_, later), inverse_);
    if (owners_.etp == 1) return begin_back(made);
    moving_ = begin_sum_scatter_rows(owners_.over({Axis::kEtp}), made, of_etp_,
                                     "products of the ranks that share experts");
  }
  void begin_from_experts() {
    if (owners_.etp > 1) begin_back(end(owners_.ep == 1 ? in_turn(moving_, owners_.turns) : moving_));
  }
  Tensor ended() { return sorted_.back(padding_.unpadded(end(in_turn(moving_, owners_.turns))), weight_); }

 private:
  void begin_back(const Tensor& rows) { moving_ = exchange(rows, received_, sent_, "rows from experts"); }
  Begun exchange(const Tensor& rows, const Rows& send, const Rows& receive, const char* name) const {
    if (owners_.ep == 1) return {rows, nullptr};
    return begin_exchange_rows(owners_.over({Axis::kEp}), rows, send, receive, name);
  }

  const Owners& owners_;
  Tensor weight_;
  SortedByExpert sorted_;
  Padding padding_;
  Tensor rows_;
  // rows to and from each rank of ep; of each rank of etp; of each expert
  Rows sent_, received_, of_etp_, per_expert_;
  Tensor order_, inverse_;
  Begun moving_;
};

// How many rows the ranks have for the experts: they tell each other, or, padded, know. The first group's
// rows are sorted while the numbers travel.
std::vector<RowsUnderWay> announced(const Owners& owners, const std::vector<ExpertChoices>& groups,
                                    const std::vector<Tensor>& hidden, bool padded) {
  const auto count = static_cast<int64_t>(groups.size()), experts = groups[0].experts,
             ranks = owners.ep * owners.etp;
  const Tensor own = at::empty({1, count, experts}, at::kLong),
               all = at::empty({ranks, count, experts}, at::kLong);
  std::vector<SortedByExpert> sorted;
  for (int64_t g = 0; g < count; ++g) {
    const ExpertChoices& group = groups[static_cast<size_t>(g)];
    sorted.emplace_back(group.choice_tk, kernels::ExpertRange{.count = experts}, group.every);
    own[0][g].copy_(to_tensor(sorted.back().rows_per_expert()));
    if (padded) all.select(1, g).fill_(group.most_rows);
  }
  Tensor first_rows;
  if (!padded) {
    comm::Work telling =
        owners.over({Axis::kEp, Axis::kEtp}).all_gather(own, all, {.name = "rows of experts"});
    first_rows = sorted[0].rows(hidden[0]);
    telling.wait();
  }
  std::vector<RowsUnderWay> result;
  for (int64_t g = 0; g < count; ++g) {
    const ExpertChoices& group = groups[static_cast<size_t>(g)];
    SortedByExpert& rows = sorted[static_cast<size_t>(g)];
    const Padding padding =
        padded ? Padding(rows.rows_per_expert(), group.most_rows, group.choice_tk.device()) : Padding();
    result.emplace_back(owners, group, std::move(rows), all.const_data_ptr<int64_t>() + g * experts,
                        count * experts, padding, g == 0 ? first_rows : Tensor());
  }
  return result;
}

// Each group passes the stages in their order, one stage behind the group before it
// (docs/sources/minimax-01.md §4.1). In a slot a later group's rows are gathered before an earlier one's
// products are added: both use the links of etp, and rows that are late make the next product late.
std::vector<Tensor> all_to_all(const Owners& owners, const recipe::ExpertOptions& options,
                               const std::vector<Tensor>& hidden, const std::vector<ExpertChoices>& groups,
                               const ExpertProduct& product) {
  // Where nothing is dropped (evaluation) nobody knows how many rows there can be.
  std::vector<RowsUnderWay> under_way =
      announced(owners, groups, hidden, options.padded && groups[0].most_rows > 0);
  const auto count = static_cast<int64_t>(under_way.size());
  std::vector<Tensor> results(under_way.size());
  for (int64_t slot = 0; slot < count + 4; ++slot) {
    const auto stage = [&](int64_t behind, const auto& run) {
      const int64_t g = slot - behind;
      if (g >= 0 && g < count) run(static_cast<size_t>(g));
    };
    stage(0, [&](size_t g) { under_way[g].begin_to_experts(hidden[g]); });
    stage(1, [&](size_t g) { under_way[g].begin_gather(); });
    stage(2, [&](size_t g) { under_way[g].compute(product, options.delay_gradients); });
    stage(3, [&](size_t g) { under_way[g].begin_from_experts(); });
    stage(4, [&](size_t g) { results[g] = under_way[g].ended(); });
  }
  return results;
}

std::vector<Tensor> all_gather(const Owners& owners, const recipe::ExpertOptions& options,
                               const std::vector<Tensor>& hidden, const std::vector<ExpertChoices>& groups,
                               const ExpertProduct& product) {
  comm::Communicator& everyone = owners.over({Axis::kEp, Axis::kEtp});
  const int64_t ranks = owners.ep * owners.etp;
  const auto count = static_cast<int64_t>(groups.size());
  Rows own;
  for (const Tensor& rows : hidden) own.push_back(rows.size(0));
  const Tensor counts = at::empty({ranks, count}, at::kLong);
  everyone.all_gather(to_tensor(own).unsqueeze(0), counts, {.name = "tokens of the ranks with experts"})
      .wait();
  std::vector<Rows> tokens;
  for (int64_t g = 0; g < count; ++g) {
    const Tensor of_group = counts.select(1, g).contiguous();
    tokens.emplace_back(of_group.const_data_ptr<int64_t>(), of_group.const_data_ptr<int64_t>() + ranks);
  }
  std::vector<Begun> moving;
  std::vector<Tensor> choices, weights;
  for (size_t g = 0; g < hidden.size(); ++g) {
    choices.push_back(gather_rows(everyone, groups[g].choice_tk, tokens[g], "choices of all tokens"));
    weights.push_back(gather_rows(everyone, groups[g].weight_tk, tokens[g], "weights of all choices"));
    moving.push_back(begin_gather_rows(everyone, hidden[g], tokens[g], "tokens to experts"));
  }
  for (size_t g = 0; g < hidden.size(); ++g) {
    const SortedByExpert sorted(choices[g], {owners.rank * owners.experts, owners.experts},
                                groups[g].every && owners.ep == 1);
    const auto later = queue_for(moving[g].values, options.delay_gradients);
    const Tensor all = end(in_turn(moving[g], owners.turns), emptying(later));
    const Tensor made = sorted.back(product(sorted.rows(all), sorted.rows_per_expert(), later), weights[g]);
    moving[g] = begin_sum_scatter_rows(everyone, made, tokens[g], "sums of experts");
  }
  std::vector<Tensor> results;
  for (const Begun& begun : moving) results.push_back(end(in_turn(begun, owners.turns)));
  return results;
}

}  // namespace

Tensor dispatch_to_experts(const MeshGroups& mesh_groups, const recipe::ExpertOptions& options,
                           const Tensor& hidden, const ExpertChoices& choices, const ExpertProduct& product,
                           Turns* turns) {
  const Owners owners(mesh_groups, choices.experts, turns);
  const std::vector<ExpertChoices> groups = in_groups(choices, options.token_groups);
  const auto dispatch = [&] {
    switch (options.dispatcher) {
      case recipe::Dispatcher::kAllToAll:
        return all_to_all;
      case recipe::Dispatcher::kAllGather:
        return all_gather;
      case recipe::Dispatcher::kFlex:
        return flex;
    }
    LONGHAUL_ASSERT(false, "a dispatcher");
  }();
  const std::vector<Tensor> results =
      dispatch(owners, options, rows_in_groups(hidden, groups), groups, product);
  return results.size() == 1 ? results[0] : at::cat(results);
}

}  // namespace longhaul::parallel
