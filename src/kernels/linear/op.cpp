#include "kernels/linear/op.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

void run_or_postpone(std::vector<std::function<void()>>* queue, std::function<void()> work) {
  if (queue != nullptr) {
    queue->push_back(std::move(work));
  } else {
    work();
  }
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, const GradientSink& sink) {
    context->save_for_backward({x, weight});
    context->saved_data["weight"] = sink.weight;
    context->saved_data["bias"] = sink.bias;
    context->saved_data["postponed"] = reinterpret_cast<int64_t>(sink.postponed);
    return bias ? at::addmm(*bias, x, weight.t()) : at::mm(x, weight.t());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor x = saved[0], weight = saved[1], dy = gradients[0];
    auto& data = context->saved_data;
    const Tensor sink = data["weight"].toTensor(), bias_sink = data["bias"].toTensor();
    run_or_postpone(reinterpret_cast<std::vector<std::function<void()>>*>(data["postponed"].toInt()), [=] {
      add_weight_gradient(sink, dy, x);
      if (bias_sink.defined()) bias_sink.add_(dy.sum(0, false, bias_sink.scalar_type()));
    });
    return {context->needs_input_grad(0) ? at::mm(dy, weight) : Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

class GroupedLinearFunction : public torch::autograd::Function<GroupedLinearFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::vector<int64_t>& rows_per_expert, const GradientSink& sink) {
    context->save_for_backward({x, weight});
    context->saved_data["rows"] = rows_per_expert;
    context->saved_data["weight"] = sink.weight;
    context->saved_data["postponed"] = reinterpret_cast<int64_t>(sink.postponed);
    Tensor y = at::empty({x.size(0), weight.size(1)}, x.options());
    for_each_group(rows_per_expert, [&](int64_t e, int64_t begin, int64_t rows) {
      Tensor out = y.narrow(0, begin, rows);
      at::mm_out(out, x.narrow(0, begin, rows), weight[e].t());
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor x = saved[0], weight = saved[1], dy = gradients[0].contiguous();
    auto& data = context->saved_data;
    const std::vector<int64_t> rows_per_expert = data["rows"].toIntVector();
    const Tensor sink = data["weight"].toTensor();
    Tensor dx = at::empty_like(x);
    for_each_group(rows_per_expert, [&](int64_t e, int64_t begin, int64_t rows) {
      Tensor out = dx.narrow(0, begin, rows);
      at::mm_out(out, dy.narrow(0, begin, rows), weight[e]);
    });
    run_or_postpone(reinterpret_cast<std::vector<std::function<void()>>*>(data["postponed"].toInt()), [=] {
      for_each_group(rows_per_expert, [&](int64_t e, int64_t begin, int64_t rows) {
        add_weight_gradient(sink[e], dy.narrow(0, begin, rows), x.narrow(0, begin, rows));
      });
    });
    return {dx, Tensor(), Tensor(), Tensor()};
  }

 private:
  template <class Body>
  static void for_each_group(const std::vector<int64_t>& rows_per_expert, const Body& body) {
    int64_t begin = 0;
    for (size_t e = 0; e < rows_per_expert.size(); ++e) {
      if (rows_per_expert[e] > 0) body(static_cast<int64_t>(e), begin, rows_per_expert[e]);
      begin += rows_per_expert[e];
    }
  }
};

}  // namespace

void add_weight_gradient(const Tensor& sink, const Tensor& dy, const Tensor& x) {
  Tensor target = sink;
  if (target.scalar_type() == x.scalar_type()) {
    target.addmm_(dy.t(), x);
  } else {
    target.add_(at::mm(dy.t(), x));  // rounded once to bf16, summed in the sink's precision
  }
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const GradientSink& sink) {
  if (x.dim() != 2 || weight.dim() != 2 || x.size(1) != weight.size(1) || x.scalar_type() != weight.scalar_type()) {
    refuse_argument("linear", "x", "[tokens, in] for a weight " + shape_text(weight), shape_text(x));
  }
  return LinearFunction::apply(x, weight, bias.defined() ? std::optional<Tensor>(bias) : std::nullopt, sink);
}

Tensor grouped_linear(const Tensor& x, const std::vector<int64_t>& rows_per_expert, const Tensor& weight, const GradientSink& sink) {
  int64_t rows = 0;
  for (const int64_t count : rows_per_expert) rows += count;
  if (weight.dim() != 3 || weight.size(0) != static_cast<int64_t>(rows_per_expert.size())) {
    refuse_argument("grouped_linear", "weight", "[" + std::to_string(rows_per_expert.size()) + " experts, out, in]", shape_text(weight));
  }
  if (x.dim() != 2 || x.size(0) != rows || x.size(1) != weight.size(2) || x.scalar_type() != weight.scalar_type()) {
    refuse_argument("grouped_linear", "x", "[" + std::to_string(rows) + " rows, in] for weights " + shape_text(weight), shape_text(x));
  }
  return GroupedLinearFunction::apply(x, weight, rows_per_expert, sink);
}

}  // namespace longhaul::kernels
