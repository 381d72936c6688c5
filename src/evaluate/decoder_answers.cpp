#include "evaluate/decoder_answers.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "generate/generate.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "model/state.h"
#include "recipe/mixers.h"
#include "tensor/to_tensor.h"

namespace longhaul::evaluate {
namespace {

Judged judged_row(const double* row, int64_t vocabulary, int64_t id, int64_t predictable) {
  double most = row[0];
  for (int64_t v = 1; v < vocabulary; ++v) most = std::max(most, row[v]);
  double sum = 0;
  for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(row[v] - most);
  return {.log_probability = row[id] - most - std::log(sum),
          .predicted = std::max_element(row, row + predictable) - row};
}

}  // namespace

std::vector<Judged> judge_logits(const Tensor& logits, std::span<const Target> targets, int64_t predictable) {
  const Tensor wide = logits.to(at::kDouble).cpu().contiguous();
  const int64_t vocabulary = wide.size(1);
  const double* rows = wide.const_data_ptr<double>();
  std::vector<Judged> judged(targets.size());
  parallel_for(0, static_cast<int64_t>(targets.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      judged[at] = judged_row(rows + i * vocabulary, vocabulary, targets[at].id,
                              predictable > 0 ? std::min(predictable, vocabulary) : vocabulary);
    }
  });
  return judged;
}

void DecoderAnswers::require_fits(std::span<const int64_t> ids, int64_t more) const {
  const recipe::ModelConfig& config = decoder_.config();
  const auto tokens = static_cast<int64_t>(ids.size()) + more;
  if (const recipe::SequenceLimit limit = recipe::sequence_limit(config); tokens > limit.tokens) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a question is longer than the model's positions",
                 .expected = fmt::format("at most {} tokens", limit.tokens),
                 .found = counted(tokens, "token"),
                 .where = std::string(limit.option),
                 .hint = "ask for shorter ones (--lengths), or use a model without such a limit"});
  }
  const auto bad = std::ranges::find_if(ids, [&](int64_t id) { return id < 0 || id >= config.vocabulary; });
  if (bad == ids.end()) return;
  throw Error({.code = ExitCode::kData,
               .what = "a token id lies outside the model's vocabulary",
               .expected = fmt::format("0 to {}", config.vocabulary - 1),
               .found = fmt::format("{} in place {}", *bad, bad - ids.begin() + 1),
               .hint = "use the tokenizer that the model was trained with"});
}

// `first`: the position of the first row of hidden_td, of which the targets are.
std::vector<Judged> DecoderAnswers::judge_rows(const Tensor& hidden_td, std::span<const Target> targets,
                                               int64_t first) {
  const auto at_once = static_cast<size_t>(logit_rows_at_once(decoder_.config().vocabulary));
  std::vector<Judged> judged;
  for (size_t begin = 0; begin < targets.size(); begin += at_once) {
    const auto part = targets.subspan(begin, std::min(at_once, targets.size() - begin));
    std::vector<int64_t> rows;
    for (const Target& target : part) rows.push_back(target.position - first);
    const Tensor logits = decoder_.logits(hidden_td.index_select(0, to_tensor(rows, decoder_.device())));
    const std::vector<Judged> of_part = judge_logits(logits, part, options_.vocabulary);
    judged.insert(judged.end(), of_part.begin(), of_part.end());
  }
  return judged;
}

std::vector<std::vector<Judged>> DecoderAnswers::judge_together(std::span<const Passage> passages) {
  std::vector<int64_t> ids, lengths;
  std::vector<Target> targets;
  for (const Passage& passage : passages) {
    for (const Target& target : passage.targets)
      targets.push_back({static_cast<int64_t>(ids.size()) + target.position, target.id});
    ids.insert(ids.end(), passage.ids.begin(), passage.ids.end());
    lengths.push_back(static_cast<int64_t>(passage.ids.size()));
  }
  model::LocalOps ops;
  model::Context context(ops, decoder_.precision());
  context.training = false;
  const Tensor hidden_td =
      decoder_.hidden(context, to_tensor(ids, decoder_.device()), layout::make_packed(lengths));
  const std::vector<Judged> all = judge_rows(hidden_td, targets, 0);
  std::vector<std::vector<Judged>> result;
  auto next = all.begin();
  for (const Passage& passage : passages) {
    const auto end = next + static_cast<ptrdiff_t>(passage.targets.size());
    result.emplace_back(next, end);
    next = end;
  }
  return result;
}

std::vector<Judged> DecoderAnswers::judge_in_pieces(const Passage& passage) {
  model::DecoderState state = decoder_.make_state();
  const model::DecoderRows rows{state, {state.add()}};
  std::vector<Judged> judged;
  std::span<const Target> targets = passage.targets;
  const auto length = static_cast<int64_t>(passage.ids.size());
  for (int64_t first = 0; first < length && !targets.empty(); first += options_.tokens_per_pass) {
    const int64_t count = std::min(options_.tokens_per_pass, length - first);
    model::LocalOps ops;
    model::Context context(ops, decoder_.precision());
    context.training = false;
    const auto ids = std::span(passage.ids).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    const auto view = layout::make_packed(std::vector<int64_t>{count}, std::vector<int64_t>{first});
    const Tensor hidden_td = decoder_.hidden(context, to_tensor(ids, decoder_.device()), view, &rows);
    const auto after =
        std::ranges::find_if(targets, [&](const Target& target) { return target.position >= first + count; });
    const auto here = targets.first(static_cast<size_t>(after - targets.begin()));
    const std::vector<Judged> of_piece = judge_rows(hidden_td, here, first);
    judged.insert(judged.end(), of_piece.begin(), of_piece.end());
    targets = targets.subspan(here.size());
  }
  return judged;
}

std::vector<std::vector<Judged>> DecoderAnswers::judge(std::span<const Passage> passages) {
  const at::NoGradGuard no_gradient;
  std::vector<std::vector<Judged>> result;
  for (size_t begin = 0; begin < passages.size();) {
    size_t end = begin;
    int64_t tokens = 0;
    while (end < passages.size()) {
      const Passage& passage = passages[end];
      const auto length = static_cast<int64_t>(passage.ids.size());
      if (end > begin && tokens + length > options_.tokens_per_pass) break;
      require_fits(passage.ids, 0);
      for (const Target& target : passage.targets) {
        LONGHAUL_ASSERT(target.position >= 0 && target.position < length, "target {} of a passage of {}",
                        target.position, length);
        require_fits({&target.id, 1}, 0);
      }
      tokens += length;
      ++end;
    }
    const auto together = passages.subspan(begin, end - begin);
    if (tokens > options_.tokens_per_pass) {
      result.push_back(judge_in_pieces(together.front()));
    } else {
      for (auto& judged : judge_together(together)) result.push_back(std::move(judged));
    }
    begin = end;
  }
  return result;
}

std::vector<int64_t> DecoderAnswers::complete(std::span<const int64_t> prompt, int64_t tokens,
                                              std::span<const int64_t> stops) {
  require_fits(prompt, tokens - 1);
  model::DecoderState state = decoder_.make_state();
  const int64_t row = state.add();
  std::vector<int64_t> drawn;
  std::vector<int64_t> fresh(prompt.begin(), prompt.end());
  while (static_cast<int64_t>(drawn.size()) < tokens) {
    Tensor logits;
    for (size_t begin = 0; begin < fresh.size(); begin += static_cast<size_t>(options_.tokens_per_pass)) {
      const size_t end = std::min(fresh.size(), begin + static_cast<size_t>(options_.tokens_per_pass));
      const generate::Continuation piece{
          row, {fresh.begin() + static_cast<ptrdiff_t>(begin), fresh.begin() + static_cast<ptrdiff_t>(end)}};
      logits = generate::advance(decoder_, {&piece, 1}, state);
    }
    if (!options_.never.empty())
      logits.index_fill_(1, to_tensor(options_.never, decoder_.device()),
                         -std::numeric_limits<double>::infinity());
    const Target any{0, 0};
    const int64_t id = judge_logits(logits, {&any, 1}, options_.vocabulary).front().predicted;
    if (std::ranges::find(stops, id) != stops.end()) break;
    drawn.push_back(id);
    fresh = {id};
  }
  return drawn;
}

}  // namespace longhaul::evaluate
