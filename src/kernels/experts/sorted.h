// SortedByExpert: arranges the choices of a router as rows sorted by expert, with tokens in order for each
// expert, and back. It covers all experts or a range of them, and every choice or only those that were
// kept: choice −1 is a dropped one, for which the expert gets no row and the token no contribution.
//
//   const SortedByExpert sorted(choice_tk, {.count = experts}, /*every=*/true);
//   out_td = sorted.back(product(sorted.rows(x_td), sorted.rows_per_expert()), weight_tk);
//
// With every choice of every expert it uses permute and combine of op.h. Otherwise it uses take_rows and
// sum_rows of rows.h, with the product with the weight in the precision of sums. Both sum in a fixed order;
// fp32 (fp64), rounded once.
#pragma once

#include "kernels/experts/op.h"

namespace longhaul::kernels {

struct ExpertRange {
  int64_t first = 0, count = 0;
};

class SortedByExpert {
 public:
  // choice_tk int64 [tokens, k]. every: `of` is all experts and no choice was dropped.
  SortedByExpert(const Tensor& choice_tk, ExpertRange of, bool every);

  // of those in `of`
  const std::vector<int64_t>& rows_per_expert() const { return assignment_.rows_per_expert; }
  // differentiable
  Tensor rows(const Tensor& x_td) const;
  // differentiable in both
  Tensor back(const Tensor& y_rd, const Tensor& weight_tk) const;

 private:
  bool every_;
  ExpertAssignment assignment_;  // not every: place is not there
  Tensor choice_r_;              // not every: the number of each row's choice among tokens · k
};

}  // namespace longhaul::kernels
