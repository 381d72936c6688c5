#include "parallel/pipeline/arrangement.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "layout/methods/methods.h"
#include "layout/parameters.h"
#include "parallel/context/context_attention.h"

namespace longhaul::parallel {
namespace {

using layout::Axis;

// Of several stages on a rank some may have no layer.
void require_stages(const recipe::ModelConfig& model, const layout::Mesh& mesh) {
  if (layout::kStagesOfLayers.holds({.layers = model.layers}, {.pp = mesh.size(Axis::kPp)})) return;
  throw Error({.code = ExitCode::kUsage,
               .what = std::string(layout::kStagesOfLayers.broken),
               .expected = fmt::format("parallel.pp of at most {}", model.layers),
               .found = std::to_string(mesh.size(Axis::kPp)),
               .where = "parallel.pp and model.layers",
               .hint = fmt::format("parallel.pp={}", model.layers)});
}

// Ulysses in linear layers.
void require_linear_heads(const recipe::ModelConfig& model, const Arrangement& arrangement) {
  const int64_t cp = arrangement.mesh.size(Axis::kCp), tp = arrangement.mesh.size(Axis::kTp);
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const int64_t heads = recipe::linear_heads(recipe::operators_of_layer(model, layer));
    if (layout::kHeadsOfLinearContext.holds({.linear_heads = heads},
                                            {.tp = tp, .cp = cp, .context = arrangement.context}))
      continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = std::string(layout::kHeadsOfLinearContext.broken),
                 .expected = fmt::format(
                     "a number of heads (of keys, where heads share them) on each tensor rank that {} "
                     "context ranks divide",
                     cp),
                 .found = fmt::format("{} in layer {}, {}", std::max<int64_t>(1, heads / tp), layer,
                                      recipe::entry_of(model.mixer(layer)).name),
                 .where = "parallel.linear_context = ulysses",
                 .hint = "parallel.linear_context=all-gather"});
  }
}

// A striped row: only the ring of softmax attention knows which tokens a rank has.
void require_stripes(const recipe::ModelConfig& model, const Arrangement& arrangement) {
  using recipe::ContextMethod;
  if (arrangement.mesh.size(Axis::kCp) == 1 || arrangement.context.split != recipe::ContextSplit::kStriped)
    return;
  const auto refuse = [](std::string what, std::string expected, std::string found, std::string hint) {
    throw Error({.code = ExitCode::kUsage,
                 .what = std::move(what),
                 .expected = std::move(expected),
                 .found = std::move(found),
                 .where = "parallel.context_split = striped",
                 .hint = std::move(hint)});
  };
  const ContextMethod method = arrangement.context.softmax;
  if (method != ContextMethod::kRing) {
    refuse("a striped row is for the ring of softmax layers", "parallel.context = ring",
           std::string(names_of(method)[static_cast<size_t>(method)]),
           "parallel.context=ring, or parallel.context_split=zigzag");
  }
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const recipe::SequenceMixerEntry& entry = recipe::entry_of(model.mixer(layer));
    const int64_t window = model.softmax.window(layer);
    if (!model.causal && window > 0) {
      refuse("a window on both sides is not the same for all pairs of stripes",
             "model.causal = true, or no window", fmt::format("a window of {} in layer {}", window, layer),
             "parallel.context_split=zigzag");
    }
    if (entry.attention_alone && model.toeplitz == 0) continue;
    refuse("what passes along the tokens of a row needs pieces of it, and a striped row has none",
           "layers of softmax attention alone, model.toeplitz = 0",
           entry.attention_alone ? fmt::format("model.toeplitz = {}", model.toeplitz)
                                 : fmt::format("layer {}, {}", layer, entry.name),
           "parallel.context_split=zigzag");
  }
}

}  // namespace

Arrangement arrangement_of(const recipe::ModelConfig& model, const recipe::ParallelOptions& options,
                           int64_t world) {
  const recipe::PipelineOptions pipeline = options.arranged_pipeline();
  recipe::ExpertOptions experts = options.experts;
  // their place in a pair: parallel/pipeline/pipeline.h
  experts.delay_gradients = experts.delay_gradients || pipeline.pairs_in_turns;
  return {.mesh = {world,
                   {.pp = options.pp,
                    .cp = options.cp,
                    .tp = options.tp,
                    .ep = options.ep,
                    .etp = options.etp,
                    .copies = options.zero_copies,
                    .key_copies = layout::key_copies(model, options.tp)}},
          .context = options.context,
          .pipeline = pipeline,
          .zero = options.zero,
          .experts = experts,
          .tensor_chunks = options.tp_chunks};
}

int64_t workers_of(const recipe::OuterOptions& outer, const recipe::ParallelOptions& options, int64_t world) {
  if (outer.method == recipe::Outer::kNone) return 1;
  const int64_t needed = options.needed(),
                workers = options.workers > 0 ? options.workers : layout::smallest_islands(options, world);
  const auto refuse = [&](std::string what, std::string expected, std::string hint) {
    throw Error({.code = ExitCode::kUsage,
                 .what = std::move(what),
                 .expected = std::move(expected),
                 .found = fmt::format("{} rank{}", world, world == 1 ? "" : "s"),
                 .where = "optim.outer, parallel.workers and [parallel]",
                 .hint = std::move(hint)});
  };
  if (workers < 2) {
    refuse("an outer loop needs workers that meet, and there is one",
           fmt::format("at least {} ranks, two workers of {}", 2 * needed, needed),
           fmt::format("parallel.ranks={0}, or `longhaul launch -n {0} …`; alone: optim.outer=none",
                       2 * needed));
  }
  if (world % (workers * needed) != 0) {
    refuse("the ranks cannot be dealt out to the workers of the outer loop",
           fmt::format("a multiple of {}: {} workers of {} ranks or a multiple of it", workers * needed,
                       workers, needed),
           fmt::format("parallel.ranks={}", (world / (workers * needed) + 1) * workers * needed));
  }
  return workers;
}

void require_possible(const recipe::ModelConfig& model, const Arrangement& arrangement) {
  const layout::Mesh& mesh = arrangement.mesh;
  for (const Axis axis : {Axis::kEp, Axis::kEtp}) {
    const layout::RankSizes along = {.ep = mesh.size(axis)};
    if (layout::kModelOfExperts.holds({.experts = model.experts}, along)) continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = std::string(layout::kModelOfExperts.broken),
                 .expected = fmt::format("parallel.{} = 1", layout::name_of(axis)),
                 .found = std::to_string(mesh.size(axis)),
                 .where = fmt::format("parallel.{} and model.experts", layout::name_of(axis)),
                 .hint = fmt::format("parallel.{}=1", layout::name_of(axis))});
  }
  if (arrangement.experts.padded && (model.experts == 0 || model.router.capacity_factor == 0 ||
                                     arrangement.experts.dispatcher != recipe::Dispatcher::kAllToAll)) {
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "rows of experts cannot be padded to a capacity",
         .expected = "model.capacity_factor above 0 and parallel.dispatcher = all-to-all",
         .found = fmt::format(
             "model.capacity_factor = {}, parallel.dispatcher = {}", model.router.capacity_factor,
             names_of(arrangement.experts.dispatcher)[static_cast<size_t>(arrangement.experts.dispatcher)]),
         .where = "parallel.pad_to_capacity",
         .hint = "parallel.pad_to_capacity=false"});
  }
  if (arrangement.elastic && model.shares_batch()) {
    const bool room = model.shares_room();
    throw Error({.code = ExitCode::kUsage,
                 .what = room ? "an expert's room for all of a step's sequences knows no micro-batches"
                              : "the balance of experts over a step's sequences makes one micro-batch's "
                                "gradient depend on the others",
                 .expected = "train.elastic = false",
                 .found = "true",
                 .where = room ? "model.capacity_of" : "model.auxiliary_loss_of",
                 .hint = room ? "model.capacity_of=sequence" : "model.auxiliary_loss_of=sequence"});
  }
  if (model.shares_batch() && arrangement.pipeline.schedule == recipe::PipelineSchedule::kDualPipe &&
      mesh.size(Axis::kPp) > 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "experts that judge all sequences of a step would judge half of them: two ranks "
                         "have each layer, and half of the "
                         "micro-batches each",
                 .expected = "another parallel.schedule than dualpipe",
                 .found = "dualpipe",
                 .where = model.shares_room() ? "model.capacity_of" : "model.auxiliary_loss_of",
                 .hint = "parallel.schedule=1f1b"});
  }
  if (model.lightning.state == recipe::LightningState::kModel && mesh.size(Axis::kCp) > 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "states of lightning layers in the model's dtype are rounded block by block from a "
                         "document's first token on: ranks that cut documents "
                         "would round elsewhere",
                 .expected = "parallel.cp = 1",
                 .found = std::to_string(mesh.size(Axis::kCp)),
                 .where = "model.lightning.state = model",
                 .hint = "model.lightning.state=wide"});
  }
  if (const int64_t cut = mesh.size(Axis::kTp) * mesh.size(Axis::kEtp); model.spikes.wanted() && cut > 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a spike's threshold is a mean over all channels of a token, of which tensor ranks "
                         "would have parts",
                 .expected = "parallel.tp = 1 and parallel.etp = 1",
                 .found = fmt::format("{} and {}", mesh.size(Axis::kTp), mesh.size(Axis::kEtp)),
                 .where = "spikes.coding",
                 .hint = "parallel.tp=1 parallel.etp=1, or spikes.coding=none"});
  }
  if (model.toeplitz > 0 && !recipe::grid_of(model).empty() && mesh.size(Axis::kCp) > 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a Toeplitz encoding along the axes of a grid reads whole lines, and context ranks "
                         "would have parts of them",
                 .expected = "parallel.cp = 1",
                 .found = std::to_string(mesh.size(Axis::kCp)),
                 .where = "model.toeplitz with model.lightnet.grid",
                 .hint = "model.toeplitz=0"});
  }
  if (model.joins_routers() && mesh.size(Axis::kPp) > 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a balance loss of all layers' routers together needs the choices of layers that "
                         "other stages have",
                 .expected = "parallel.pp = 1",
                 .found = std::to_string(mesh.size(Axis::kPp)),
                 .where = "model.auxiliary_loss_form = hugging_face",
                 .hint = fmt::format("model.auxiliary_loss_form=switch model.auxiliary_loss={:.6g}, each "
                                     "layer's own with the same gradient where layers are "
                                     "loaded alike; or model.auxiliary_loss=0",
                                     model.auxiliary_loss_as(recipe::BalanceForm::kSwitch))});
  }
  require_stages(model, mesh);
  // refuses stages that are not the model's
  layout::Pipeline(mesh.size(Axis::kPp), arrangement.pipeline).layers_of(0, model.layers);
  for (const layout::ParameterSpec& spec : layout::parameters(model)) {
    layout::placement_of(spec, mesh);  // refuses heads and experts that do not come out even
  }
  for (const recipe::Mixer mixer : recipe::mixers_used(model)) {
    const recipe::AttentionSizes attention = recipe::entry_of(mixer).operators(model).attention;
    if (attention.heads == 0 || mesh.size(Axis::kCp) == 1) continue;
    head_ranks(arrangement.context.softmax, mesh.size(Axis::kCp),
               std::max<int64_t>(1, attention.kv_heads / mesh.size(Axis::kTp)));
  }
  require_linear_heads(model, arrangement);
  require_stripes(model, arrangement);
}

}  // namespace longhaul::parallel
