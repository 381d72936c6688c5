#include "generate/engine_parts.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "model/served_adapters.h"
#include "model/state.h"
#include "recipe/mixers.h"
#include "tensor/to_tensor.h"

namespace longhaul::generate {
namespace {

// The adapters of a pass's tokens, as long as it lives.
class AdaptersOfPass {
 public:
  AdaptersOfPass(model::ServedAdapters& served, std::span<const Continuation> continuations)
      : served_(served) {
    if (std::ranges::all_of(continuations, [](const Continuation& each) { return each.adapter == 0; }))
      return;
    std::vector<int64_t> of_tokens;
    for (const Continuation& each : continuations)
      of_tokens.insert(of_tokens.end(), each.ids.size(), each.adapter);
    served_.choose(std::move(of_tokens));
  }
  ~AdaptersOfPass() { served_.choose({}); }
  AdaptersOfPass(const AdaptersOfPass&) = delete;
  AdaptersOfPass& operator=(const AdaptersOfPass&) = delete;

 private:
  model::ServedAdapters& served_;
};

// Calls `see` with each tensor of a saved sequence, in one order.
void for_each_tensor(model::DecoderState::Saved& saved, const std::function<void(Tensor&)>& see) {
  for (model::MixerState::Saved& layer : saved.layers) {
    for (auto& [name, tensor] : layer.tensors) see(tensor);
    for (std::vector<Tensor>& page : layer.keys_values.pages) {
      for (Tensor& tensor : page) see(tensor);
    }
  }
}

}  // namespace

ParkedSequence::ParkedSequence(const model::DecoderState::Saved& saved, kernels::SavedTensors& file)
    : tokens(saved.tokens), shape_(saved) {
  for_each_tensor(shape_, [&](Tensor& tensor) {
    tensors_.emplace_back(tensor, &file);
    tensor = Tensor();
  });
}

model::DecoderState::Saved ParkedSequence::get() const {
  model::DecoderState::Saved saved = shape_;
  size_t next = 0;
  for_each_tensor(saved, [&](Tensor& tensor) { tensor = tensors_[next++].get(); });
  return saved;
}

void require_ids(const Request& request, int64_t vocabulary) {
  const auto refuse = [&](int64_t id, const std::string& where) {
    throw Error({.code = ExitCode::kData,
                 .what = "a token id is none of the model's",
                 .expected = fmt::format("ids from 0 to {}", vocabulary - 1),
                 .found = std::to_string(id),
                 .where = where});
  };
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int64_t id = request.prompt[i];
    if (id < 0 || id >= vocabulary) refuse(id, fmt::format("token {} of {}", i, request.where));
  }
  for (const auto& [id, bias] : request.settings.logit_bias) {
    if (id < 0 || id >= vocabulary) refuse(id, "logit_bias");
  }
}

void require_experts(const Request& request, const recipe::ModelConfig& config, bool on_ranks) {
  if (!request.settings.experts) return;
  const bool has_some = !model::blocks_with_routers(config).empty();
  if (has_some && !on_ranks) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the experts of each token are wanted, and nobody can tell them",
               .expected = "a model with experts, which one process has whole",
               .found = has_some ? "a model that several ranks have together" : "a model without experts",
               .where = request.where,
               .hint = "ask without 'experts'"});
}

void require_possible(const Request& request, int64_t sequences, int64_t tokens) {
  const GenerateSettings& settings = request.settings;
  if (sequences > 0 && settings.count > sequences) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "more sequences are asked for than are written at once",
                 .expected = fmt::format("at most {}", sequences),
                 .found = std::to_string(settings.count),
                 .where = request.where});
  }
  // Positions end a text; memory must have room for what was asked.
  const auto prompt = std::ssize(request.prompt);
  if (prompt <= tokens) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the prompt is longer than there is memory for",
               .expected = fmt::format("at most {} tokens", tokens),
               .found = counted(prompt, "token"),
               .where = request.where});
}

void require_readable(const std::vector<int64_t>& prompt, const recipe::ModelConfig& config,
                      const std::string& where) {
  if (prompt.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is nothing to continue",
                 .expected = "a prompt, or a tokenizer with an end-of-document token to begin with",
                 .found = "neither",
                 .where = where,
                 .hint = "give a prompt"});
  }
  const auto tokens = std::ssize(prompt);
  // learned positions end, rotary ones do not
  const recipe::SequenceLimit limit = recipe::sequence_limit(config);
  if (tokens <= limit.tokens) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the prompt is longer than the model's positions",
               .expected = fmt::format("at most {} tokens, what begins a text included ({})", limit.tokens,
                                       limit.option),
               .found = counted(tokens, "token"),
               .where = where,
               .hint = "shorten the prompt, or use a model without such a limit"});
}

PassInput::PassInput(std::span<const Continuation> continuations, model::DecoderState& state)
    : rows{state, {}} {
  std::vector<int64_t> lengths, firsts;
  for (const auto& [row, fresh, adapter] : continuations) {
    LONGHAUL_ASSERT(!fresh.empty());
    ids.insert(ids.end(), fresh.begin(), fresh.end());
    lengths.push_back(static_cast<int64_t>(fresh.size()));
    firsts.push_back(state.tokens(row));
    last.push_back(static_cast<int64_t>(ids.size()) - 1);
    rows.rows.push_back(row);
  }
  layout = layout::make_packed(lengths, firsts);
}

Tensor advance(model::Decoder& decoder, std::span<const Continuation> continuations,
               model::DecoderState& state, RouteRecorder* recorder, PassExperts* experts) {
  const at::NoGradGuard no_gradient;
  const PassInput input(continuations, state);
  const AdaptersOfPass adapters(*decoder.parameters().served(), continuations);
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  if (recorder != nullptr || experts != nullptr) context.recorded_routes = std::make_shared<model::Routes>();
  if (experts != nullptr) context.recorded_weights = std::make_shared<model::Routes>();
  const Tensor hidden_td = decoder.hidden(context, to_tensor(input.ids), input.layout, &input.rows);
  if (recorder != nullptr) recorder->read(continuations, *context.recorded_routes);
  if (experts != nullptr) experts->read(*context.recorded_routes, *context.recorded_weights, input.last);
  return decoder.logits(input.last.size() == input.ids.size()
                            ? hidden_td
                            : hidden_td.index_select(0, to_tensor(input.last, decoder.device())));
}

}  // namespace longhaul::generate
