#include "model/mixers/toeplitz_positions.h"

#include "kernels/toeplitz/grid.h"
#include "kernels/toeplitz/op.h"
#include "recipe/mixers.h"
#include "tensor/device.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

ToeplitzPositions::ToeplitzPositions(const recipe::ModelConfig& config, ParameterSet& parameters)
    : Module("toeplitz"),
      grid_(recipe::grid_of(config).begin(), recipe::grid_of(config).end()),
      places_(config.lightnet.tokens_of_grid()),
      coefficient_(parameters.add_stacked("toeplitz.coefficient.weight", {"toeplitz.coefficient.weight"})),
      rate_(parameters.add_stacked("toeplitz.rate.weight", {"toeplitz.rate.weight"})),
      first_channel_(coefficient_.parts[0].held.offset[0]) {}

Tensor ToeplitzPositions::forward(Context& context, const Tensor& hidden, const layout::SequenceView& view,
                                  const MixerRows* state) const {
  const RowFunction as_they_are = [](const Tensor& rows) { return std::vector<Tensor>{rows}; };
  BlockInput input{hidden};
  const Tensor all = context.ops.of_gathered(input, as_they_are, view)[0];
  const int64_t channels = coefficient_.sizes[0], behind = all.size(1) - first_channel_ - channels;
  const bool whole = channels == all.size(1);
  const Tensor own = whole ? all : all.narrow(1, first_channel_, channels);
  const Tensor made = grid_.empty() ? context.ops.toeplitz(own, coefficient_.use(), rate_.use().exp().neg(),
                                                           toeplitz_of(state), view)
                                    : along_axes(own, view);
  if (whole) return made;
  // Zeros in the channels of other ranks, so that the sum is a transposition.
  const Tensor padded = at::constant_pad_nd(made, {first_channel_, behind});
  return context.ops.summed(input, {{.product = [](const Tensor& rows) { return rows; }, .x_ti = padded}},
                            view);
}

// Every document is laid out as a whole grid, with zeros where it ends early, behind its first token.
Tensor ToeplitzPositions::along_axes(const Tensor& x, const layout::SequenceView& view) const {
  std::vector<int64_t> tokens, cells;
  for (const layout::Segment& segment : view.segments) {
    for (int64_t t = segment.local_start; t < segment.local_start + segment.length; ++t) {
      const int64_t position = view.positions_of_axis(0)[static_cast<size_t>(t)];
      if (position < 1 || position > places_) continue;
      tokens.push_back(t);
      cells.push_back(segment.document * places_ + position - 1);
    }
  }
  const auto axes = static_cast<int64_t>(grid_.size());
  const Tensor coefficient = coefficient_.use().unflatten(1, {-1, axes}),
               log_decay = rate_.use().exp().neg().unflatten(0, {-1, axes});
  std::vector<kernels::ToeplitzAxis> of_axes;
  for (int64_t a = 0; a < axes; ++a)
    of_axes.push_back({coefficient.select(2, a).contiguous(), log_decay.select(1, a).contiguous()});

  const Tensor at_tokens = to_device(to_tensor(tokens), x.device()),
               at_cells = to_device(to_tensor(cells), x.device());
  const Tensor laid_out = x.new_zeros({view.layout.documents() * places_, x.size(1)})
                              .index_copy(0, at_cells, x.index_select(0, at_tokens));
  const std::vector<kernels::GridSizes> grids(static_cast<size_t>(view.layout.documents()), grid_);
  return x.index_copy(0, at_tokens,
                      kernels::toeplitz_of_grids(laid_out, grids, of_axes).index_select(0, at_cells));
}

}  // namespace longhaul::model
