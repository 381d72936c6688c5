#include "kernels/experts/op.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

// out[t] = Σ_k x[place_tk], in the order of k.
Tensor gather_sum(const Tensor& x_rd, const Tensor& place_tk) {
  const int64_t tokens = place_tk.size(0), k = place_tk.size(1), hidden = x_rd.size(1);
  Tensor out = at::empty({tokens, hidden}, x_rd.options());
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x_rd.scalar_type(), "gather_sum", [&] {
    using Real = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
    const scalar_t* x = x_rd.const_data_ptr<scalar_t>();
    const int64_t* place = place_tk.const_data_ptr<int64_t>();
    scalar_t* y = out.mutable_data_ptr<scalar_t>();
    parallel_for(0, tokens, 32, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t c = 0; c < hidden; ++c) {
          Real sum = 0;
          for (int64_t i = 0; i < k; ++i) sum += static_cast<Real>(x[place[t * k + i] * hidden + c]);
          y[t * hidden + c] = static_cast<scalar_t>(sum);
        }
      }
    });
  });
  return out;
}

class PermuteFunction : public torch::autograd::Function<PermuteFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& source, const Tensor& place) {
    context->save_for_backward({place});
    return x.index_select(0, source);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gather_sum(gradients[0].contiguous(), context->get_saved_variables()[0]), Tensor(), Tensor()};
  }
};

class CombineFunction : public torch::autograd::Function<CombineFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& y, const Tensor& weight, const Tensor& source,
                        const Tensor& place) {
    context->save_for_backward({y, weight, source, place});
    return gather_sum(y.mul(sorted(weight, place, y.scalar_type())), place);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &y = saved[0], &weight = saved[1], &source = saved[2], &place = saved[3];
    const Tensor spread = gradients[0].index_select(0, source);  // [rows, hidden]
    const Tensor d_row = spread.mul(y).sum(1, false, weight.scalar_type());
    return {spread.mul(sorted(weight, place, y.scalar_type())), d_row.index_select(0, place.view(-1)).view(weight.sizes()), Tensor(), Tensor()};
  }

 private:
  // The weight of each sorted row, [rows, 1].
  static Tensor sorted(const Tensor& weight_tk, const Tensor& place_tk, ScalarType type) {
    Tensor rows = at::empty({weight_tk.numel()}, weight_tk.options());
    rows.index_copy_(0, place_tk.view(-1), weight_tk.reshape({-1}));
    return rows.unsqueeze(1).to(type);
  }
};

}  // namespace

ExpertAssignment assign_experts(const Tensor& choice_tk, int64_t experts) {
  if (choice_tk.dim() != 2 || choice_tk.scalar_type() != at::kLong) {
    refuse_argument("assign_experts", "choice", "[tokens, k] int64", shape_text(choice_tk));
  }
  const Tensor choice = choice_tk.contiguous();
  const int64_t tokens = choice.size(0), k = choice.size(1);
  const int64_t* expert = choice.const_data_ptr<int64_t>();
  ExpertAssignment assignment{at::empty({tokens * k}, at::kLong), at::empty({tokens, k}, at::kLong),
                              std::vector<int64_t>(static_cast<size_t>(experts), 0)};
  for (int64_t i = 0; i < tokens * k; ++i) {
    if (expert[i] < 0 || expert[i] >= experts) {
      refuse_argument("assign_experts", "choice", "0 to " + std::to_string(experts - 1), std::to_string(expert[i]));
    }
    ++assignment.rows_per_expert[static_cast<size_t>(expert[i])];
  }
  std::vector<int64_t> next(static_cast<size_t>(experts), 0);
  for (size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + assignment.rows_per_expert[e - 1];
  int64_t *source = assignment.source_r.mutable_data_ptr<int64_t>(), *place = assignment.place_tk.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < tokens * k; ++i) {
    const int64_t row = next[static_cast<size_t>(expert[i])]++;
    source[row] = i / k;
    place[i] = row;
  }
  return assignment;
}

Tensor permute_to_experts(const Tensor& x, const ExpertAssignment& assignment) {
  return PermuteFunction::apply(x, assignment.source_r, assignment.place_tk);
}

Tensor combine_experts(const Tensor& y, const Tensor& weight, const ExpertAssignment& assignment) {
  return CombineFunction::apply(y, weight, assignment.source_r, assignment.place_tk);
}

}  // namespace longhaul::kernels
