#include "kernels/matmul/matmul.h"

#include "kernels/cuda/calls.h"
#include "kernels/matmul/product.h"

namespace longhaul::kernels {
namespace {

bool element_known(const Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kFloat;
}
bool columns_side_by_side(const Tensor& tensor) { return tensor.size(1) <= 1 || tensor.stride(1) == 1; }

template <class Element>
const Element* read(const Tensor& tensor) {
  return tensor.defined() ? static_cast<const Element*>(tensor.const_data_ptr()) : nullptr;
}

Tensor product(const Tensor& x, std::span<const int64_t> rows_per_group, const void* panels,
               const Tensor& bias, int64_t k, int64_t n, const Epilogue& epilogue) {
  const Tensor y = epilogue.keeps ? at::empty({x.size(0), n}, x.options().requires_grad(false)) : Tensor();
  const auto groups = row_groups(rows_per_group);
  const auto run = [&]<class Element>(Element) {
    multiply_rows<Element>(
        {read<Element>(x), x.stride(0), static_cast<const Element*>(panels), read<Element>(bias),
         y.defined() ? static_cast<Element*>(y.mutable_data_ptr()) : nullptr, n, k, n, epilogue},
        groups);
  };
  if (x.scalar_type() == at::kBFloat16)
    run(uint16_t{});
  else
    run(float{});
  return y;
}

}  // namespace

Refusal refuse_packed(const Tensor& x, const Tensor& weight, const PackedWeight* kept) {
  if (!x.device().is_cpu() || on_gpu(x)) return "it runs on the CPU";
  if (!element_known(x)) return "it computes in bf16 and fp32";
  if (kept == nullptr) return "the weight is not kept packed";
  if (!weight.is_contiguous()) return "the weight is not contiguous";
  if (!columns_side_by_side(x)) return "the columns of the input do not lie side by side";
  return "";
}

Refusal refuse_packed_weight_gradient(const Tensor& sink, const Tensor& bias_sink, const Tensor& dy,
                                      const Tensor& x) {
  if (!x.device().is_cpu() || on_gpu(x)) return "it runs on the CPU";
  if (!element_known(x) || dy.scalar_type() != x.scalar_type()) return "it computes in bf16 and fp32";
  if (sink.scalar_type() != at::kFloat || !sink.is_contiguous()) return "the sink is not contiguous fp32";
  if (bias_sink.defined() && (bias_sink.scalar_type() != at::kFloat || !bias_sink.is_contiguous()))
    return "the sink of the bias is not contiguous fp32";
  if (!columns_side_by_side(x) || !columns_side_by_side(dy))
    return "the columns of an input do not lie side by side";
  return "";
}

Tensor packed_output(const Tensor& x, std::span<const int64_t> rows_per_group, const Tensor& weight,
                     const Tensor& bias, PackedWeight& kept, uint64_t version, const Epilogue& epilogue) {
  const Tensor flat_bias = bias.defined() ? bias.contiguous() : bias;
  return product(x, rows_per_group, kept.for_output(weight, version), flat_bias, weight.size(-1),
                 weight.size(-2), epilogue);
}

Refusal refuse_packed(const Tensor& x, const Int8Weight& weight) {
  if (!x.device().is_cpu() || !weight.panels().device().is_cpu()) return "it runs on the CPU";
  if (!element_known(x)) return "it computes in bf16 and fp32";
  if (!columns_side_by_side(x)) return "the columns of the input do not lie side by side";
  return "";
}

Tensor packed_output(const Tensor& x, std::span<const int64_t> rows_per_group, const Int8Weight& weight,
                     const Epilogue& epilogue) {
  const int64_t k = weight.in(), n = weight.out();
  const Tensor y = epilogue.keeps ? at::empty({x.size(0), n}, x.options().requires_grad(false)) : Tensor();
  const auto run = [&]<class Element>(Element) {
    multiply_rows<Element, int8_t>(
        {read<Element>(x), x.stride(0), weight.panels().const_data_ptr<int8_t>(), nullptr,
         y.defined() ? static_cast<Element*>(y.mutable_data_ptr()) : nullptr, n, k, n, epilogue,
         weight.scale_eo().const_data_ptr<float>()},
        row_groups(rows_per_group));
  };
  if (x.scalar_type() == at::kBFloat16)
    run(uint16_t{});
  else
    run(float{});
  return y;
}

Tensor packed_wide_output(const Tensor& x, const Tensor& weight, PackedWeight& kept, uint64_t version) {
  const int64_t k = weight.size(1), n = weight.size(0);
  const Tensor y = at::empty({x.size(0), n}, x.options().dtype(at::kFloat).requires_grad(false));
  const void* const panels = kept.for_output(weight, version);
  const auto run = [&]<class Element>(Element) {
    multiply_rows_wide<Element>({read<Element>(x), x.stride(0), static_cast<const Element*>(panels),
                                 y.mutable_data_ptr<float>(), x.size(0), k, n});
  };
  if (x.scalar_type() == at::kBFloat16)
    run(uint16_t{});
  else
    run(float{});
  return y;
}

Tensor packed_input_gradient(const Tensor& dy, std::span<const int64_t> rows_per_group, const Tensor& weight,
                             PackedWeight& kept, uint64_t version, const Epilogue& epilogue) {
  return product(dy, rows_per_group, kept.for_input_gradient(weight, version), Tensor(), weight.size(-2),
                 weight.size(-1), epilogue);
}

void packed_weight_gradient(const Tensor& sink, const Tensor& bias_sink, const Tensor& dy, const Tensor& x,
                            std::span<const int64_t> rows_per_group) {
  const auto groups = row_groups(rows_per_group);
  const auto run = [&]<class Element>(Element) {
    add_weight_gradients<Element>(
        {read<Element>(dy), dy.stride(0), read<Element>(x), x.stride(0), static_cast<float*>(sink.data_ptr()),
         bias_sink.defined() ? static_cast<float*>(bias_sink.data_ptr()) : nullptr, dy.size(1), x.size(1)},
        groups);
  };
  if (x.scalar_type() == at::kBFloat16)
    run(uint16_t{});
  else
    run(float{});
}

}  // namespace longhaul::kernels
