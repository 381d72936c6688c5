#include "model/toeplitz_positions.h"

#include "kernels/toeplitz/op.h"

namespace longhaul::model {

ToeplitzPositions::ToeplitzPositions(const recipe::ModelConfig&, ParameterSet& parameters)
    : Module("toeplitz"),
      coefficient_(parameters.add_stacked("toeplitz.coefficient.weight", {"toeplitz.coefficient.weight"})),
      rate_(parameters.add_stacked("toeplitz.rate.weight", {"toeplitz.rate.weight"})),
      first_channel_(coefficient_.parts[0].held.offset[0]) {}

Tensor ToeplitzPositions::forward(Context& context, const Tensor& hidden, const layout::SequenceView& view, const MixerRows* state) const {
  const RowFunction as_they_are = [](const Tensor& rows) { return std::vector<Tensor>{rows}; };
  BlockInput input{hidden};
  const Tensor all = context.ops.of_gathered(input, as_they_are, view)[0];
  const int64_t channels = coefficient_.sizes[0], behind = all.size(1) - first_channel_ - channels;
  const bool whole = channels == all.size(1);
  const Tensor own = whole ? all : all.narrow(1, first_channel_, channels);
  const Tensor made = context.ops.toeplitz(own, coefficient_.use(), rate_.use().exp().neg(), toeplitz_of(state), view);
  if (whole) return made;
  // Zeros in the channels of other ranks, so that the sum is a transposition.
  const Tensor padded = at::constant_pad_nd(made, {first_channel_, behind});
  return context.ops.summed(input, {{.product = [](const Tensor& rows) { return rows; }, .x_ti = padded}}, view);
}

}  // namespace longhaul::model
