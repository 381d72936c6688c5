#include "plan/memory/generation_memory.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "plan/memory/memory_layers.h"
#include "plan/memory/memory_share.h"
#include "plan/memory/memory_workspace.h"
#include "recipe/architecture/toeplitz.h"

namespace longhaul::plan {
namespace {

constexpr int64_t kPage = 256;           // tokens (kernels/attention/paged/page_pool.h)
constexpr int64_t kPromptTokens = 4096;  // of one prompt in a pass (generate/engine.h)

int64_t pages(int64_t tokens) { return (tokens + kPage - 1) / kPage; }

// What generates: a model, or the layers of one rank, cut over its tensor ranks.
struct GeneratingPart {
  const MemoryRequest& whole;
  MemoryRequest local;  // of which a mixer's sizes are this rank's
  layout::Range layers;
  int64_t tensor_ranks = 1;

  GeneratingPart(const MemoryRequest& request, const RankRequest* rank)
      : whole(request), local(request), layers{0, request.model.layers} {
    if (rank == nullptr) return;
    tensor_ranks = rank->place.mesh.size(layout::Axis::kTp);
    if (tensor_ranks > 1) local.model = RankShare(request, *rank).local.model;
    layers = rank->place.pipeline().layers_of(rank->place.stage_of(0), request.model.layers);
  }
  double bytes_of(const recipe::MixerStateTensor& tensor) const {
    int64_t elements = 1;
    for (const int64_t length : tensor.shape_on(tensor_ranks)) elements *= length;
    return number(elements * (tensor.wide ? wide_bytes(whole.dtype) : element_bytes(whole.dtype)));
  }
  // Of a layer: what grows with the tokens, of each of them, or what does not, of each sequence.
  double state_of(int64_t layer, bool of_tokens) const {
    double bytes = 0;
    for (const recipe::MixerStateTensor& tensor : recipe::state_of_layer(whole.model, layer))
      bytes += tensor.of_token == of_tokens ? bytes_of(tensor) : 0;
    return bytes;
  }
  // Of all of them; the embedding's state has no tokens.
  double state(bool of_tokens) const {
    double bytes = 0;
    for (int64_t layer = layers.begin; layer < layers.end(); ++layer) bytes += state_of(layer, of_tokens);
    for (const recipe::MixerStateTensor& tensor : recipe::toeplitz_state(whole.model))
      bytes += tensor.of_token == of_tokens ? bytes_of(tensor) : 0;
    return bytes;
  }
};

// What a pass over so many tokens of so many sequences needs, without a backward pass; it makes the logits of
// one token of each. Recurrences write into the states that the engine has. new_pages: bytes of the pages of
// all layers that the pass takes, each layer its own when the pass comes to it.
double pass_bytes(const GeneratingPart& part, int64_t tokens, int64_t sequences, double new_pages) {
  MemoryRequest pass = part.local;
  pass.micro_batch = 1;
  pass.sequence = std::max<int64_t>(1, tokens);
  pass.documents = 1;
  double most = 0, of_tokens = 0;
  const double all_of_tokens = part.state(true);
  for (int64_t layer = part.layers.begin; layer < part.layers.end(); ++layer) {
    of_tokens += part.state_of(layer, true);
    const double taken = all_of_tokens > 0 ? new_pages * of_tokens / all_of_tokens : 0;
    most = std::max({most, taken + mixer_memory(pass, layer).evaluation,
                     taken + channel_memory(pass, pass.model.channel_mixer(layer), layer).evaluation});
  }
  // Tensor ranks gather the rows of the head that others have, and turn them over.
  const double logits = number(sequences) * number(part.whole.model.vocabulary) *
                        number(wide_bytes(part.whole.dtype)),
               copies = part.tensor_ranks > 1 ? 2 : 1;
  return rotary_bytes(pass) + std::max(most, new_pages + 2 * hidden_bytes(pass) + copies * logits);
}

// The states of so many sequences: the number of rows is doubled until they are enough, a layer after the
// other (model::DecoderState::add).
struct StateBytes {
  double rows = 0;     // when all have grown
  double growing = 0;  // at the fullest moment of the last time that they grow
};
StateBytes states_of(const GeneratingPart& part, int64_t sequences) {
  const auto rows = number(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sequences))));
  StateBytes bytes{.rows = rows * part.state(false)};
  double grown = 0;
  for (int64_t layer = part.layers.begin; layer < part.layers.end(); ++layer) {
    const double own = rows * part.state_of(layer, false);
    bytes.growing = std::max(bytes.growing, (bytes.rows - grown) / 2 + grown + own);
    grown += own;
  }
  return bytes;
}

}  // namespace

double generation_bytes(const MemoryRequest& request, const GenerationSizes& sizes, const RankRequest* rank) {
  LONGHAUL_ASSERT(sizes.sequences > 0 && sizes.group > 0);
  const GeneratingPart part(request, rank);
  const int64_t at_once = (sizes.sequences + sizes.group - 1) / sizes.group;
  // The last token of a text is drawn and never read. Pages that a prompt fills to their end stay shared.
  const int64_t read = sizes.prompt + sizes.tokens - 1, shared = sizes.prompt / kPage;
  const double page = part.state(true) * number(kPage);
  const StateBytes all = states_of(part, sizes.sequences), first = states_of(part, at_once);
  const double prompt_pages = page * number(at_once * pages(sizes.prompt)),
               all_pages = page * number(at_once * shared + sizes.sequences * (pages(read) - shared));
  // Prompts that have waited are read where the rows and pages of those before them are.
  const bool waited = sizes.prompts > at_once;
  const double reading =
      pass_bytes(part, at_once * std::min(sizes.prompt, kPromptTokens), at_once, waited ? 0 : prompt_pages);
  const double writing = pass_bytes(part, sizes.sequences, sizes.sequences, 0);
  return std::max({(waited ? all.rows + all_pages : first.rows) + reading, all.growing + prompt_pages,
                   all.rows + all_pages + writing});
}

void add_generation(const std::string& name, double bytes, bool beside_checkpoint, MemoryPlan& plan) {
  // The moment that has nothing but the state and a checkpoint's copy of it.
  const auto state = std::ranges::find(plan.moments, "last save", &MemoryMoment::name);
  LONGHAUL_ASSERT(state != plan.moments.end(), "a plan without its last save");
  MemoryMoment moment{.name = name, .bytes = state->bytes};
  if (!beside_checkpoint) moment.bytes[MemoryPurpose::kCheckpoint] = 0;
  moment.bytes[MemoryPurpose::kActivations] += bytes;
  plan.moments.push_back(std::move(moment));
}

}  // namespace longhaul::plan
