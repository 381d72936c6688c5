#include "recipe/checks/checks.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "recipe/mixers.h"

namespace longhaul::recipe {
namespace {

bool is_device(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  if (!text.starts_with("cuda:")) return false;
  const std::string digits = text.substr(5);
  return !digits.empty() && digits.size() <= 3 &&
         std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

// An option whose text is read by a function that throws.
void readable(const char* option, const std::function<void()>& read, Problems& out) {
  try {
    read();
  } catch (const Error& error) {
    out.push_back({{option},
                   fmt::format("{}: {}", error.fields().what, error.fields().found),
                   error.fields().expected});
  }
}

void training(const Recipe& recipe, Problems& out) {
  const TrainOptions& train = recipe.train;
  if (train.batch % train.micro_batch != 0) {
    const bool smaller = train.micro_batch > train.batch;
    out.push_back({{"train.batch", "train.micro_batch"},
                   fmt::format("train.batch = {} must be a multiple of train.micro_batch = {}", train.batch,
                               train.micro_batch),
                   smaller
                       ? fmt::format("train.micro_batch={}", train.batch)
                       : fmt::format("train.batch={}", train.batch / train.micro_batch * train.micro_batch)});
  }
  if (recipe.model.max_positions > 0 && train.sequence > recipe.model.max_positions &&
      recipe.model.position != Position::kNone) {
    out.push_back({{"train.sequence", "model.max_positions"},
                   fmt::format("train.sequence = {} is longer than the model's model.max_positions = {}",
                               train.sequence, recipe.model.max_positions),
                   fmt::format("train.sequence={}", recipe.model.max_positions)});
  }
  const SequenceLimit limit = sequence_limit(recipe.model);
  if (train.sequence > limit.tokens && limit.option != "model.max_positions") {
    out.push_back(
        {{"train.sequence", std::string(limit.option)},
         fmt::format("train.sequence = {} is longer than {} = {}", train.sequence, limit.option,
                     limit.tokens),
         fmt::format("{0}={1}, or train.sequence={2}", limit.option, train.sequence, limit.tokens)});
  }
  if (!is_device(train.device)) {
    out.push_back(
        {{"train.device"},
         fmt::format("train.device = {} is none of auto, cpu, cuda, cuda:N", Value(train.device).described()),
         "train.device=auto"});
  }
  readable(
      "train.until_time", [&] { parse_until_time(train.until_time, 0); }, out);
  readable(
      "train.offload_share", [&] { parse_offload_share(train.offload_share); }, out);
  if (train.offload == Offload::kHost && train.recompute != Recompute::kTokens) {
    out.push_back({{"train.offload", "train.recompute"},
                   "train.offload = host moves what train.recompute = tokens keeps",
                   "train.recompute=tokens, or train.offload=file"});
  }
  if (train.recompute_layers > 0 && train.offload != Offload::kNone) {
    out.push_back(
        {{"train.recompute_layers", "train.offload"},
         "train.offload moves what all layers keep, so train.recompute_layers cannot leave some out",
         "train.recompute_layers=0, or train.offload=none"});
  }
}

// The frozen model is whole on every rank, and reads what this rank reads.
void distillation(const Recipe& recipe, Problems& out) {
  if (!recipe.train.distill.wanted()) return;
  const ParallelOptions& parallel = recipe.parallel;
  const std::pair<const char*, int64_t> axes[] = {{"parallel.tp", parallel.tp},
                                                  {"parallel.pp", parallel.pp},
                                                  {"parallel.cp", parallel.cp},
                                                  {"parallel.ep", parallel.ep},
                                                  {"parallel.etp", parallel.etp}};
  for (const auto& [name, ranks] : axes) {
    if (ranks == 1) continue;
    out.push_back({{"train.distill.from", name},
                   fmt::format("{} = {}: a model is learnt from by ranks that hold all of it", name, ranks),
                   fmt::format("{}=1 (data ranks and parallel.zero know train.distill)", name)});
  }
  if (recipe.train.task != "pretrain") {
    out.push_back({{"train.distill.from", "train.task"},
                   fmt::format("train.task = {} does not learn from another model", recipe.train.task),
                   "train.task=pretrain, or train.distill.from="});
  }
  if (recipe.model.predict_ahead > 0) {
    out.push_back({{"train.distill.from", "model.predict_ahead"},
                   "modules that predict further ahead have nothing to learn in the other model",
                   "model.predict_ahead=0"});
  }
  if (recipe.train.objective != Objective::kNext) {
    out.push_back({{"train.distill.from", "train.objective"},
                   "train.distill is for models that predict the next token",
                   "train.objective=next"});
  }
}

// Whether a model may read the tokens that it is to predict.
void objective(const Recipe& recipe, Problems& out) {
  const bool masked = recipe.train.objective == Objective::kMasked;
  if (recipe.train.task != "pretrain") {
    if (masked || !recipe.model.causal) {
      out.push_back(
          {{"train.task", "train.objective", "model.causal"},
           fmt::format(
               "train.task = {} predicts what comes next: its models are causal, and its objective is next",
               recipe.train.task),
           "train.objective=next model.causal=true, or train.task=pretrain"});
    }
    return;
  }
  if (!masked && !recipe.model.causal) {
    out.push_back({{"model.causal", "train.objective"},
                   "model.causal = false: every token reads the one behind it, which train.objective = next "
                   "is to predict",
                   "train.objective=masked, or model.causal=true"});
  }
  if (masked && recipe.model.predict_ahead > 0) {
    out.push_back(
        {{"train.objective", "model.predict_ahead"},
         fmt::format("train.objective = masked: there is no token further ahead for model.predict_ahead = {}",
                     recipe.model.predict_ahead),
         "model.predict_ahead=0, or train.objective=next"});
  }
}

void recall(const Recipe& recipe, Problems& out) {
  if (recipe.recall.vocabulary <= recipe.model.vocabulary) return;
  out.push_back({{"recall.vocabulary", "model.vocabulary"},
                 fmt::format("recall.vocabulary = {} is more than the model's {}", recipe.recall.vocabulary,
                             recipe.model.vocabulary),
                 "recall.vocabulary=0"});
}

}  // namespace

void check_training(const Recipe& recipe, Problems& out) {
  training(recipe, out);
  distillation(recipe, out);
  objective(recipe, out);
  recall(recipe, out);
}

}  // namespace longhaul::recipe
