#include "model/adapters.h"

#include "base/error.h"
#include "layout/adapters.h"

namespace longhaul::model {
namespace {

kernels::LinearWeights weights_of(Parameter& parameter) {
  return {.weight = parameter.value, .sinks = {.weight = parameter.sink()}, .kept = parameter.kept()};
}

// A row's length would be a sum over ranks.
[[noreturn]] void refuse_cut_rows(const std::string& name) {
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "dora needs the rows of a weight that tensor ranks have cut",
       .expected =
           "lora.kind = lora or rslora, or targets whose rows are whole: queries, keys, values, gate and up",
       .found = name,
       .where = "lora.kind, lora.targets and parallel.tp",
       .hint = "parallel.tp=1"});
}

}  // namespace

Adapters::Adapters(ParameterSet& parameters, const Parameter& weight) {
  std::vector<std::string> downs;
  int64_t ranks = 0;
  for (const Part& part : weight.parts) {
    const std::string& name = part.spec.tensor.name;
    const std::string down = layout::adapter_down_name(name),
                      magnitude = layout::adapter_magnitude_name(name);
    if (!parameters.knows(down)) continue;
    if (parameters.knows(magnitude) && !part.cuts[1].over.empty()) refuse_cut_rows(name);
    const std::string up = layout::adapter_up_name(name);
    Parameter& matrix = parameters.add_stacked(up, {up});
    ups_.push_back(
        {.matrix = &matrix,
         .magnitude = parameters.knows(magnitude) ? &parameters.add_stacked(magnitude, {magnitude}) : nullptr,
         .first_row = part.slice.offset[0],
         .rows = part.slice.length[0],
         .first_rank = ranks});
    ranks += matrix.sizes[1];
    scale_ = matrix.parts[0].spec.adapter_of.scale;
    downs.push_back(down);
  }
  if (!downs.empty()) down_ = &parameters.add_stacked(layout::adapter_down_name(weight.name), downs);
}

std::vector<kernels::AdapterUp> Adapters::ups() const {
  std::vector<kernels::AdapterUp> list;
  for (const Up& up : ups_) {
    list.push_back(
        {.weights = weights_of(*up.matrix), .first_column = up.first_row, .first_rank = up.first_rank});
  }
  return list;
}

Tensor Adapters::product(const Tensor& x, const kernels::LinearWeights& base) const {
  if (ups_[0].magnitude == nullptr)
    return kernels::adapted_linear(x, base, weights_of(*down_), ups(), scale_);
  const kernels::LinearWeights plain{.weight = base.weight, .kept = base.kept};
  const Tensor y = kernels::adapted_linear(x, plain, weights_of(*down_), ups(), scale_);
  const Tensor scaled = y.mul(row_scales(base)).to(y.scalar_type());
  return base.bias.defined() ? scaled + base.bias : scaled;
}

// The trained length of each row over the length that it has with the adapter. The latter counts as a
// constant in the backward pass, as in DoRA's §4.3.
Tensor Adapters::row_scales(const kernels::LinearWeights& base) const {
  const Tensor merged = kernels::merged_weight(base.weight, down_->value, ups(), scale_);
  const Tensor length = at::linalg_vector_norm(merged, 2, at::IntArrayRef{1});
  const Tensor before =
      at::linalg_vector_norm(base.weight.detach(), 2, at::IntArrayRef{1}, false, merged.scalar_type());
  std::vector<Tensor> scales;
  int64_t row = 0;
  const auto ones_up_to = [&](int64_t end) {
    if (end > row) scales.push_back(at::ones({end - row}, merged.options()));
    row = end;
  };
  for (const Up& up : ups_) {
    ones_up_to(up.first_row);
    const Tensor trained = before.narrow(0, row, up.rows) + up.magnitude->use();
    scales.push_back(trained / length.narrow(0, row, up.rows));
    row += up.rows;
  }
  ones_up_to(merged.size(0));
  return at::cat(scales);
}

uint64_t Adapters::version() const {
  uint64_t sum = down_->version;
  for (const Up& up : ups_) sum += up.matrix->version + (up.magnitude != nullptr ? up.magnitude->version : 0);
  return sum;
}

Tensor Adapters::merged(const kernels::LinearWeights& base) const {
  const uint64_t newest = version() + base.kept.version;
  if (merged_.defined() && merged_version_ == newest) return merged_;
  const at::NoGradGuard no_gradient;
  Tensor weight = kernels::merged_weight(base.weight, down_->value, ups(), scale_);
  if (ups_[0].magnitude != nullptr) weight = weight.mul_(row_scales(base).unsqueeze(1));
  merged_ = weight.to(base.weight.scalar_type());
  merged_version_ = newest;
  return merged_;
}

}  // namespace longhaul::model
