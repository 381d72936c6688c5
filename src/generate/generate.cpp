#include "generate/generate.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "model/state.h"
#include "recipe/mixers.h"
#include "tensor/to_tensor.h"

namespace longhaul::generate {
namespace {

// Learned positions end, and so do what cosFormer layers can weigh; rotary positions and other layers do not.
int64_t positions_of(const recipe::ModelConfig& config) { return recipe::sequence_limit(config).tokens; }

}  // namespace

void require_readable(const std::vector<int64_t>& prompt, const recipe::ModelConfig& config, const std::string& where) {
  if (prompt.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is nothing to continue",
                 .expected = "a prompt, or a tokenizer with an end-of-document token to begin with",
                 .found = "neither",
                 .where = where,
                 .hint = "give a prompt"});
  }
  const auto tokens = static_cast<int64_t>(prompt.size());
  if (tokens <= positions_of(config)) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the prompt is longer than the model's positions",
               .expected = fmt::format("at most {} tokens, what begins a text included ({})", positions_of(config),
                                       recipe::sequence_limit(config).option),
               .found = counted(tokens, "token"),
               .where = where,
               .hint = "shorten the prompt, or use a model without such a limit"});
}

namespace {

void check(const GenerateSettings& settings) {
  check(settings.sampler(0));
  if (settings.count < 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is nothing to generate",
                 .expected = "count of 1 or more",
                 .found = fmt::format("{}", settings.count),
                 .where = "--count"});
  }
  if (settings.min_tokens <= settings.tokens) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "more tokens are asked for at least than at most",
               .expected = fmt::format("min_tokens of at most tokens, {}", settings.tokens),
               .found = fmt::format("min_tokens {}", settings.min_tokens),
               .where = "--min-tokens and --tokens",
               .hint = fmt::format("--tokens {}", settings.min_tokens)});
}

}  // namespace

std::string_view name_of(Finish finish) {
  switch (finish) {
    case Finish::kTokens:
      return "tokens";
    case Finish::kStop:
      return "stop";
    case Finish::kPositions:
      return "positions";
  }
  LONGHAUL_ASSERT(false, "finish {}", static_cast<int>(finish));
}

Tensor advance(model::Decoder& decoder, std::span<const Continuation> continuations, model::DecoderState& state, RouteRecorder* recorder) {
  const at::NoGradGuard no_gradient;
  std::vector<int64_t> ids, lengths, firsts, last;
  model::DecoderRows rows{state, {}};
  for (const auto& [row, fresh] : continuations) {
    LONGHAUL_ASSERT(!fresh.empty());
    ids.insert(ids.end(), fresh.begin(), fresh.end());
    lengths.push_back(static_cast<int64_t>(fresh.size()));
    firsts.push_back(state.tokens(row));
    last.push_back(static_cast<int64_t>(ids.size()) - 1);
    rows.rows.push_back(row);
  }
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  if (recorder != nullptr) context.recorded_routes = std::make_shared<model::Routes>();
  const Tensor hidden_td = decoder.hidden(context, to_tensor(ids, decoder.device()), layout::make_packed(lengths, firsts), &rows);
  if (recorder != nullptr) recorder->read(continuations, *context.recorded_routes);
  return decoder.logits(last.size() == ids.size() ? hidden_td : hidden_td.index_select(0, to_tensor(last, decoder.device())));
}

namespace {

Tensor read_logits(const Tensor& logits) { return logits.to(at::kFloat).cpu().contiguous(); }

// The sequences of a call that have not ended.
class Batch {
 public:
  Batch(model::Decoder& decoder, const GenerateSettings& settings, model::DecoderState& state, RouteRecorder* recorder)
      : decoder_(decoder), settings_(settings), state_(state), recorder_(recorder) {}

  // As many sequences of each prompt as are wanted; logits_pv: after each.
  void begin(std::span<const int64_t> rows, const Tensor& logits_pv) {
    logits_ = logits_pv;
    for (int64_t p = 0; p < static_cast<int64_t>(rows.size()); ++p) {
      const int64_t row = rows[static_cast<size_t>(p)];
      for (int64_t i = 0; i < settings_.count; ++i) live_.push_back({p * settings_.count + i, i == 0 ? row : fork(row), p});
    }
  }

  bool empty() const { return live_.empty(); }

  // Draws a token of each and goes on with those that are to have another one.
  void step(std::vector<Generation>& generations, const std::function<void(int64_t, int64_t)>& on_token) {
    const std::vector<int64_t> drawn = draw(generations);
    std::vector<Sequence> going_on;
    std::vector<Continuation> next;
    for (size_t i = 0; i < live_.size(); ++i) {
      Sequence& sequence = live_[i];
      Generation& generation = generations[static_cast<size_t>(sequence.index)];
      const std::optional<Finish> finish = take(sequence, drawn[i], generation, on_token);
      if (settings_.log_probabilities && generation.ids.size() > generation.log_probabilities.size())
        generation.log_probabilities.push_back(log_probabilities_[i]);
      if (finish) {
        generation.finish = *finish;
        if (recorder_ != nullptr) generation.routed = recorder_->take(sequence.row);
        state_.drop(sequence.row);
        continue;
      }
      sequence.logits = static_cast<int64_t>(next.size());
      next.push_back({sequence.row, {drawn[i]}});
      going_on.push_back(sequence);
    }
    live_ = std::move(going_on);
    if (!live_.empty()) logits_ = read_logits(advance(decoder_, next, state_, recorder_));
  }

 private:
  struct Sequence {
    int64_t index, row;
    int64_t logits;  // its row of logits_
  };

  int64_t fork(int64_t row) {
    const int64_t fresh = state_.fork(row);
    if (recorder_ != nullptr) recorder_->fork(row, fresh);
    return fresh;
  }

  std::vector<int64_t> draw(const std::vector<Generation>& generations) {
    const int64_t vocabulary = logits_.size(1);
    const int64_t drawable = settings_.vocabulary > 0 ? std::min(settings_.vocabulary, vocabulary) : vocabulary;
    auto* const logits = logits_.mutable_data_ptr<float>();
    for (const Sequence& sequence : live_) {  // those that share a row are of one length
      const auto length = static_cast<int64_t>(generations[static_cast<size_t>(sequence.index)].ids.size());
      const auto leave_out = [&](const std::vector<int64_t>& ids) {
        for (const int64_t id : ids) {
          if (id >= 0 && id < drawable) logits[sequence.logits * vocabulary + id] = -std::numeric_limits<float>::infinity();
        }
      };
      leave_out(settings_.never);
      if (length < settings_.min_tokens) leave_out(settings_.stop_ids);
    }
    std::vector<int64_t> drawn(live_.size());
    if (settings_.log_probabilities) log_probabilities_.resize(live_.size());
    parallel_for(0, static_cast<int64_t>(live_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Sequence& sequence = live_[static_cast<size_t>(i)];
        const std::span<const float> row(logits + sequence.logits * vocabulary, static_cast<size_t>(drawable));
        const auto at = static_cast<size_t>(i);
        drawn[at] = next_token(row, settings_.sampler(static_cast<uint64_t>(sequence.index)),
                               generations[static_cast<size_t>(sequence.index)].ids.size());
        if (settings_.log_probabilities) log_probabilities_[at] = log_probability(row, drawn[at], settings_.temperature);
      }
    });
    return drawn;
  }

  // Why the sequence ends with this token, if it does.
  std::optional<Finish> take(const Sequence& sequence, int64_t id, Generation& generation,
                             const std::function<void(int64_t, int64_t)>& on_token) const {
    if (std::ranges::find(settings_.stop_ids, id) != settings_.stop_ids.end()) return Finish::kStop;
    generation.ids.push_back(id);
    if (on_token) on_token(sequence.index, id);
    if (static_cast<int64_t>(generation.ids.size()) == settings_.tokens) return Finish::kTokens;
    if (state_.tokens(sequence.row) == positions_of(decoder_.config())) return Finish::kPositions;
    return std::nullopt;
  }

  model::Decoder& decoder_;
  const GenerateSettings& settings_;
  model::DecoderState& state_;
  RouteRecorder* recorder_;  // or null
  std::vector<Sequence> live_;
  Tensor logits_;                          // fp32 [rows, vocabulary]
  std::vector<double> log_probabilities_;  // of what was drawn last, where they are asked for
};

}  // namespace

Generator::Generator(model::Decoder& decoder, int64_t prefix_bytes)
    : decoder_(decoder), state_(decoder.make_state()), prefixes_(state_, prefix_bytes) {}

// Begins a row for each prompt and reads it: the logits after its last token, [prompts, vocabulary]. Prompts that may share beginnings are read
// one after another, and stop where a beginning may be kept.
Tensor Generator::read(std::span<const std::vector<int64_t>> prompts, std::vector<int64_t>& rows, std::vector<Generation>& generations,
                       int64_t count, RouteRecorder* recorder) {
  std::vector<Tensor> logits(prompts.size());
  const auto read_part = [&](std::span<const size_t> which, int64_t most) {
    std::vector<Continuation> parts;
    for (const size_t p : which) {
      const int64_t first = state_.tokens(rows[p]), unread = static_cast<int64_t>(prompts[p].size()) - first;
      const int64_t tokens = unread < most + PrefixCache::kLeast ? unread : most;
      parts.push_back({rows[p], {prompts[p].begin() + first, prompts[p].begin() + first + tokens}});
    }
    const Tensor of_parts = advance(decoder_, parts, state_, recorder);
    for (size_t i = 0; i < which.size(); ++i) logits[which[i]] = of_parts[static_cast<int64_t>(i)];
  };
  const auto left = [&](size_t p) { return static_cast<int64_t>(prompts[p].size()) - state_.tokens(rows[p]); };
  for (size_t p = 0; p < prompts.size(); ++p) {
    rows.push_back(prefixes_.keeps() ? prefixes_.begin(prompts[p]) : state_.add());
    for (int64_t i = 0; i < count; ++i) {
      generations[p * static_cast<size_t>(count) + static_cast<size_t>(i)].continued_tokens = state_.tokens(rows[p]);
    }
    while (prefixes_.keeps() && left(p) > 0) {
      read_part(std::span(&p, 1), PrefixCache::kTokens);
      const int64_t tokens = state_.tokens(rows[p]);
      if (tokens % PrefixCache::kTokens == 0) prefixes_.keep(std::span(prompts[p]).first(static_cast<size_t>(tokens)), rows[p]);
    }
  }
  for (;;) {
    std::vector<size_t> unread;
    for (size_t p = 0; p < prompts.size(); ++p) {
      if (left(p) > 0) unread.push_back(p);
    }
    if (unread.empty()) return at::stack(logits);
    read_part(unread, kTokensOfPass);
  }
}

std::vector<Generation> Generator::run(std::span<const std::vector<int64_t>> prompts, const GenerateSettings& settings,
                                       const std::function<void(int64_t, int64_t)>& on_token) {
  check(settings);
  std::vector<Generation> generations;
  for (size_t p = 0; p < prompts.size(); ++p) {
    require_readable(prompts[p], decoder_.config(),
                     prompts.size() > 1 ? fmt::format("prompt {} of {}", p + 1, prompts.size()) : "the prompt");
    generations.insert(generations.end(), static_cast<size_t>(settings.count), {.prefill_tokens = static_cast<int64_t>(prompts[p].size())});
  }
  if (settings.tokens == 0 || generations.empty()) return generations;
  LONGHAUL_ASSERT(!settings.records_routes || !prefixes_.keeps(), "nobody knows where beginnings that are not read again went");
  RouteRecorder routes;
  RouteRecorder* const recorder = settings.records_routes ? &routes : nullptr;
  std::vector<int64_t> rows;
  const Tensor logits_pv = read_logits(read(prompts, rows, generations, settings.count, recorder));
  Batch batch(decoder_, settings, state_, recorder);
  for (batch.begin(rows, logits_pv); !batch.empty();) batch.step(generations, on_token);
  return generations;
}

std::vector<Generation> generate_batch(model::Decoder& decoder, std::span<const std::vector<int64_t>> prompts,
                                       const GenerateSettings& settings, const std::function<void(int64_t, int64_t)>& on_token) {
  return Generator(decoder).run(prompts, settings, on_token);
}

Generation generate(model::Decoder& decoder, const std::vector<int64_t>& prompt_ids, const GenerateSettings& settings,
                    const std::function<void(int64_t id)>& on_token) {
  LONGHAUL_ASSERT(settings.count == 1, "one sequence, not {}", settings.count);
  const auto say = [&](int64_t, int64_t id) {
    if (on_token) on_token(id);
  };
  return generate_batch(decoder, std::span(&prompt_ids, 1), settings, say).front();
}

}  // namespace longhaul::generate
