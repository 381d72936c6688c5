#include "parallel/experts/flex_dispatch.h"

#include <cmath>

#include "kernels/experts/rows.h"
#include "kernels/experts/sorted.h"
#include "layout/expert_spread.h"
#include "parallel/collectives.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using layout::Axis;
using model::ExpertChoices;
using model::ExpertProduct;
using Rows = std::vector<int64_t>;

// The tokens that go to each rank of ep-etp, in their order, rank by rank.
struct Destinations {
  Tensor token_r, choice_rk;
  Rows rows;  // to each rank
};

Destinations destinations_of(const Owners& owners, const ExpertChoices& choices) {
  const int64_t tokens = choices.choice_tk.size(0), k = choices.choice_tk.size(1);
  if (choices.choice_tk.is_meta()) {  // nobody knows: as many as come on the average
    const double share = layout::chance_of_any(choices.experts, owners.experts, k);
    const Rows rows(static_cast<size_t>(owners.ep * owners.etp),
                    std::llround(share * static_cast<double>(tokens)));
    const int64_t all = std::ssize(rows) * rows[0];
    return {at::empty({all}, choices.choice_tk.options()), at::empty({all, k}, choices.choice_tk.options()),
            rows};
  }
  const Tensor choice = choices.choice_tk.cpu().contiguous();
  const int64_t* const expert = choice.const_data_ptr<int64_t>();
  std::vector<Rows> tokens_of(static_cast<size_t>(owners.ep));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = t * k; i < (t + 1) * k; ++i) {
      if (expert[i] < 0) continue;  // dropped
      Rows& of_rank = tokens_of[static_cast<size_t>(expert[i] / owners.experts)];
      if (of_rank.empty() || of_rank.back() != t) of_rank.push_back(t);
    }
  }
  Destinations result;
  Rows all;
  for (const Rows& of_rank : tokens_of) {
    for (int64_t etp = 0; etp < owners.etp; ++etp) {
      all.insert(all.end(), of_rank.begin(), of_rank.end());
      result.rows.push_back(std::ssize(of_rank));
    }
  }
  result.token_r = to_tensor(all, choices.choice_tk.device());
  result.choice_rk = choices.choice_tk.index_select(0, result.token_r);
  return result;
}

// One group of tokens on its way to the ranks of its experts and back.
class TokensUnderWay {
 public:
  TokensUnderWay(const Owners& owners, const ExpertChoices& choices)
      : owners_(owners), choices_(choices), to_(destinations_of(owners, choices)) {}

  const Rows& sent() const { return to_.rows; }
  void receives(Rows rows) { received_ = std::move(rows); }

  void begin_to_ranks(const Tensor& hidden) {
    choice_ = exchange(to_.choice_rk.to(at::kInt), "choices to experts");
    weight_ = exchange(kernels::take_rows(choices_.weight_tk, to_.token_r), "weights to experts");
    moving_ = exchange(kernels::take_rows(hidden, to_.token_r), "tokens to experts");
  }
  void compute(const ExpertProduct& product, bool delay) {
    moving_ = in_turn(moving_, owners_.turns);
    const kernels::SortedByExpert sorted(end(choice_).to(at::kLong),
                                         {owners_.rank * owners_.experts, owners_.experts}, /*every=*/false);
    const Tensor weight = end(weight_);
    const auto later = queue_for(moving_.values, delay);
    const Tensor arrived = end(moving_, emptying(later));
    const Tensor made = sorted.back(product(sorted.rows(arrived), sorted.rows_per_expert(), later), weight);
    moving_ = begin_exchange_rows(everyone(), made, received_, to_.rows, "sums of experts");
  }
  Tensor ended() {
    return kernels::sum_rows(end(in_turn(moving_, owners_.turns)), to_.token_r, choices_.choice_tk.size(0));
  }

 private:
  comm::Communicator& everyone() const { return owners_.over({Axis::kEp, Axis::kEtp}); }
  Begun exchange(const Tensor& rows, const char* name) const {
    return begin_exchange_rows(everyone(), rows, to_.rows, received_, name);
  }

  const Owners& owners_;
  const ExpertChoices& choices_;
  Destinations to_;
  Rows received_;  // from each rank
  Begun choice_, weight_, moving_;
};

// How many tokens of each group the ranks have for each other: they tell each other.
void announce(const Owners& owners, std::vector<TokensUnderWay>& groups) {
  const int64_t ranks = owners.ep * owners.etp;
  const auto count = std::ssize(groups);
  const Tensor own = at::empty({ranks, count}, at::kLong), others = at::empty({ranks, count}, at::kLong);
  for (int64_t g = 0; g < count; ++g)
    own.select(1, g).copy_(to_tensor(groups[static_cast<size_t>(g)].sent()));
  const Rows one_each(static_cast<size_t>(ranks), 1);
  owners.over({Axis::kEp, Axis::kEtp})
      .all_to_all(own, others, one_each, one_each, {.name = "tokens for experts"})
      .wait();
  for (int64_t g = 0; g < count; ++g) {
    const Tensor of_group = others.select(1, g).contiguous();
    groups[static_cast<size_t>(g)].receives(
        Rows(of_group.const_data_ptr<int64_t>(), of_group.const_data_ptr<int64_t>() + ranks));
  }
}

}  // namespace

std::vector<Tensor> flex(const Owners& owners, const recipe::ExpertOptions& options,
                         const std::vector<Tensor>& hidden, const std::vector<ExpertChoices>& groups,
                         const ExpertProduct& product) {
  std::vector<TokensUnderWay> under_way;
  for (const ExpertChoices& group : groups) under_way.emplace_back(owners, group);
  announce(owners, under_way);
  const auto count = std::ssize(under_way);
  std::vector<Tensor> results(under_way.size());
  for (int64_t slot = 0; slot < count + 2; ++slot) {
    const auto stage = [&](int64_t behind, const auto& run) {
      const int64_t g = slot - behind;
      if (g >= 0 && g < count) run(static_cast<size_t>(g));
    };
    stage(0, [&](size_t g) { under_way[g].begin_to_ranks(hidden[g]); });
    stage(1, [&](size_t g) { under_way[g].compute(product, options.delay_gradients); });
    stage(2, [&](size_t g) { results[g] = under_way[g].ended(); });
  }
  return results;
}

}  // namespace longhaul::parallel
