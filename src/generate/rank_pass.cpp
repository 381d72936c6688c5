#include "generate/rank_pass.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "generate/engine_parts.h"
#include "layout/sequence_view.h"
#include "model/context.h"
#include "parallel/collectives.h"
#include "tensor/to_tensor.h"

namespace longhaul::generate {

using layout::Axis;

RankPass::RankPass(model::Decoder& decoder, const parallel::Ranks& ranks) : decoder_(decoder), ranks_(ranks) {
  LONGHAUL_ASSERT(ranks.groups() != nullptr && ranks.share().context_ranks == 1,
                  "ranks that share tensors and layers, and no tokens");
  comm::Communicator& tensors = ranks.groups()->over({Axis::kTp});
  const model::Parameter* const head =
      decoder.parameters().holder_of(decoder.config().tie_embeddings ? "embedding.weight" : "head.weight");
  const int64_t own = head != nullptr ? head->parts[0].held.length[0] : 0;
  const Tensor all = at::empty({tensors.size()}, at::kLong);
  tensors.all_gather(at::full({1}, own, at::kLong), all, {.name = "rows of the head"}).wait();
  vocabulary_rows_.assign(all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel());
}

// Hidden states of this rank's tokens behind its layers, which the stage before has sent its own of.
Tensor RankPass::hidden_of_stage(model::Context& context, const std::vector<int64_t>& ids,
                                 const layout::SequenceView& view, const model::DecoderRows* rows) const {
  comm::Communicator& stages = ranks_.groups()->over({Axis::kPp});
  Tensor hidden_td;
  if (stages.rank() == 0) {
    hidden_td = decoder_.embed(context, to_tensor(ids), view, rows);
  } else {
    hidden_td = at::empty({view.own.length, decoder_.config().hidden},
                          at::TensorOptions().dtype(decoder_.precision().compute).device(decoder_.device()));
    stages.exchange({comm::receive_from(stages.rank() - 1, hidden_td)}, {.name = "hidden states"}).wait();
  }
  hidden_td = decoder_.layers(context, hidden_td, view, rows).contiguous();
  if (stages.rank() + 1 < stages.size())
    stages.exchange({comm::send_to(stages.rank() + 1, hidden_td)}, {.name = "hidden states"}).wait();
  return hidden_td;
}

// On the last stage: every tensor rank has some rows of the head, and the others' come to it.
Tensor RankPass::all_logits(const Tensor& hidden, const layout::SequenceView& view,
                            const std::vector<int64_t>& wanted) const {
  comm::Communicator& tensors = ranks_.groups()->over({Axis::kTp});
  const Tensor normed = decoder_.normed(hidden);
  const Tensor all = tensors.size() == 1 ? normed
                                         : parallel::gather_rows(tensors, normed, view.tensor_lengths(),
                                                                 "tokens for the head");
  const Tensor own = decoder_.logits(all.index_select(0, to_tensor(wanted, decoder_.device())));
  if (tensors.size() == 1) return own;
  return parallel::gather_rows(tensors, own.t().contiguous(), vocabulary_rows_, "logits").t().contiguous();
}

Tensor RankPass::logits(const std::vector<int64_t>& ids, const layout::SequenceLayout& layout,
                        const std::vector<int64_t>& wanted, const model::DecoderRows* rows) const {
  const at::NoGradGuard no_gradient;
  model::Context context(ranks_.ops(), decoder_.precision());
  context.training = false;
  const layout::SequenceView view(layout, ranks_.share());
  comm::Communicator& stages = ranks_.groups()->over({Axis::kPp});
  const Tensor hidden_td = hidden_of_stage(context, ids, view, rows);
  const bool last = stages.rank() + 1 == stages.size();
  const ScalarType wide = decoder_.precision().compute == at::kDouble ? at::kDouble : at::kFloat;
  Tensor result = last ? all_logits(hidden_td, view, wanted)
                       : at::empty({std::ssize(wanted), decoder_.config().vocabulary},
                                   at::TensorOptions().dtype(wide).device(decoder_.device()));
  LONGHAUL_ASSERT(result.scalar_type() == wide, "logits in {}", longhaul::name_of(result.scalar_type()));
  if (stages.size() > 1) stages.broadcast(result, stages.size() - 1, {.name = "logits"}).wait();
  return result;
}

Tensor RankPass::advance(std::span<const Continuation> continuations, model::DecoderState& state) const {
  const PassInput input(continuations, state);
  return logits(input.ids, input.layout, input.last, &input.rows);
}

}  // namespace longhaul::generate
