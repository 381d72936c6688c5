#include "language/teacher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/saved_recipe.h"
#include "kernels/distillation/op.h"
#include "layout/parameters.h"
#include "model/parallel_ops.h"
#include "plan/flops.h"
#include "plan/memory/memory_layers.h"
#include "storage/catalog.h"

namespace longhaul::language {
namespace {

// Logits of both models exist of so many tokens at once.
int64_t tokens_at_once(int64_t vocabulary) {
  return std::clamp<int64_t>((int64_t{1} << 22) / std::max<int64_t>(1, vocabulary), 16, 512);
}
constexpr double kCopiesOfLogits = 6;  // at once, in fp32: both models' logits, probabilities, the gradient

std::string dtype_of(const recipe::Recipe& recipe) {
  return std::string(recipe::name_of_value(recipe.train.dtype));
}

void refuse_teacher(ExitCode code, const checkpoint::OpenModel& model, std::string what, std::string expected,
                    std::string found) {
  throw Error({.code = code,
               .what = std::move(what),
               .expected = std::move(expected),
               .found = std::move(found),
               .where = fmt::format("train.distill.from = {}", model.folder.string()),
               .hint = "a model that was trained with the same tokenizer, or train.distill.from="});
}

// The head's rows and the factor of its input (muP).
kernels::Head head_of(model::Decoder& decoder) {
  if (model::ParameterWatch* const watch = decoder.parameters().watched_by()) watch->before_forward(-1);
  model::Parameter* const parameter =
      decoder.parameters().holder_of(decoder.config().tie_embeddings ? "embedding.weight" : "head.weight");
  LONGHAUL_ASSERT(parameter != nullptr, "a model without a head");
  return {parameter->value, parameter->sink(), parameter->kept()};
}

}  // namespace

Teacher::Teacher(const recipe::Recipe& recipe, const std::string& tokenizer_sha256, at::Device device)
    : options_(recipe.train.distill),
      model_(checkpoint::open_model(recipe.train.distill.from, dtype_of(recipe), device)) {
  checkpoint::require_next_token(model_, "train.distill");
  const recipe::ModelConfig& own = model_.recipe.recipe.model;
  if (own.vocabulary != recipe.model.vocabulary) {
    refuse_teacher(ExitCode::kUsage, model_, "the model to learn from has another vocabulary",
                   fmt::format("model.vocabulary = {}", recipe.model.vocabulary),
                   fmt::format("{}", own.vocabulary));
  }
  if (options_.hidden > 0) require_same_layers(recipe.model);
  if (!model_.tokenizer_sha256.empty() && model_.tokenizer_sha256 != tokenizer_sha256) {
    refuse_teacher(ExitCode::kData, model_, "the model to learn from was trained with another tokenizer",
                   "sha256 " + tokenizer_sha256, model_.tokenizer_sha256);
  }
  log_info("learning from {} as well: weight {:g}, temperature {:g}{}", model_.folder.string(),
           options_.weight, options_.temperature,
           options_.hidden > 0
               ? fmt::format(", and from its {} layers' states with weight {:g}", own.layers, options_.hidden)
               : "");
}

void Teacher::require_same_layers(const recipe::ModelConfig& learner) const {
  const recipe::ModelConfig& own = model_.recipe.recipe.model;
  if (own.layers == learner.layers && own.hidden == learner.hidden) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "layers are compared one by one, and the two models have others",
       .expected = fmt::format("model.layers = {} and model.hidden = {}", learner.layers, learner.hidden),
       .found = fmt::format("{} and {}", own.layers, own.hidden),
       .where = fmt::format("train.distill.hidden = {:g}, train.distill.from = {}", options_.hidden,
                            model_.folder.string()),
       .hint = "a model with the same layers and width, or train.distill.hidden=0, which compares "
               "distributions alone"});
}

Tensor Teacher::read(const Tensor& ids, const layout::SequenceView& view, States* states) {
  const at::NoGradGuard no_gradient;
  model::LocalOps ops;
  model::Context reading(ops, model_.decoder->precision());
  reading.training = false;
  if (states != nullptr) {
    reading.after_layer = [states](int64_t, const Tensor& stream, const Tensor& normed) {
      states->push_back(stream);
      return normed;
    };
  }
  return model_.decoder->hidden(reading, ids, view);
}

Teacher::Sums Teacher::loss(model::Context& context, model::Decoder& learner, const Tensor& ids,
                            const Tensor& labels, const Tensor& weights, const layout::SequenceView& view) {
  const bool compares = options_.hidden > 0;
  const auto states = std::make_shared<States>();
  const Tensor frozen = read(ids, view, compares ? states.get() : nullptr);
  Sums sums;
  if (compares) {
    const auto layers = static_cast<double>(states->size());
    const Tensor counts = kernels::counts_of(labels, weights, learner.precision().reduce);
    sums.distance = at::zeros({}, counts.options().dtype(at::kDouble));
    context.after_layer = [=, this, &context, distance_sum = sums.distance](
                              int64_t layer, const Tensor& stream, const Tensor& normed) {
      Tensor& theirs = states->at(static_cast<size_t>(layer));
      const Tensor distance = kernels::layer_distance_sum(stream, std::exchange(theirs, Tensor()), counts);
      distance_sum.add_(distance.detach(), 1 / layers);
      return context.join_weighted_loss(fmt::format("layers.{}.distance", layer), normed,
                                        distance.mul(options_.hidden / layers), 1);
    };
  }
  const Tensor hidden = learner.hidden(context, ids, view);
  context.after_layer = nullptr;
  const double factor = learner.config().width_factor();
  const kernels::Distilled of_logits = kernels::distillation_sum(
      factor == 1 ? hidden : hidden.mul(1 / factor), head_of(learner), labels, weights,
      {.weight = options_.weight,
       .temperature = options_.temperature,
       .logits = [this, frozen](
                     int64_t first,
                     int64_t rows) { return model_.decoder->logits(frozen.narrow(0, first, rows)); },
       .chunk = tokens_at_once(learner.config().vocabulary)});
  sums.loss = of_logits.loss;
  sums.cross_entropy = of_logits.cross_entropy;
  sums.divergence = of_logits.divergence;
  return sums;
}

namespace {

recipe::ModelConfig model_of_teacher(const recipe::Recipe& recipe) {
  const storage::LocalFileSystem files;
  return checkpoint::saved_recipe(storage::open_checkpoint(files, recipe.train.distill.from,
                                                           storage::Depth::kSizes, checkpoint::kWeightRole))
      .recipe.model;
}

}  // namespace

double teacher_flops_per_token(const recipe::Recipe& recipe) {
  if (!recipe.train.distill.wanted()) return 0;
  const recipe::ModelConfig model = model_of_teacher(recipe);
  const auto head = [](const recipe::ModelConfig& of) {
    return 2 * static_cast<double>(of.hidden) * static_cast<double>(of.vocabulary);
  };
  return plan::training_flops_per_token(model, recipe.train.sequence).causal() / 3 + head(model) +
         head(recipe.model);
}

void add_teacher(const recipe::Recipe& recipe, const plan::MemoryRequest& request, plan::MemoryPlan& plan) {
  if (!recipe.train.distill.wanted()) return;
  const recipe::ModelConfig model = model_of_teacher(recipe);
  plan::MemoryRequest own = request;
  own.model = model;
  own.passes = nullptr;
  double weights = 0, packed = 0, pass = 0;
  for (const layout::ParameterSpec& spec : layout::parameters(model)) {
    const double bytes = static_cast<double>(layout::volume(spec.tensor.global_shape)) *
                         static_cast<double>(plan::element_bytes(request.dtype));
    weights += bytes;
    const std::string& name = spec.tensor.name;
    const bool table = (name == "embedding.weight" && !model.tie_embeddings) || name == "position.weight";
    if (spec.tensor.global_shape.size() > 1 && !table) packed += bytes;
  }
  for (int64_t l = 0; l < model.layers; ++l) {
    pass = std::max({pass, plan::mixer_memory(own, l).evaluation,
                     plan::channel_memory(own, model.channel_mixer(l)).evaluation});
  }
  const double logits = kCopiesOfLogits * 4 * static_cast<double>(model.vocabulary) *
                        static_cast<double>(tokens_at_once(model.vocabulary));
  for (plan::MemoryMoment& moment : plan.moments) {
    moment.bytes[MemoryPurpose::kParameters] += weights;
    moment.bytes[MemoryPurpose::kPackedWeights] += request.on_gpu ? 0 : packed;
  }
  // The frozen model reads first. What is kept of it, and the logits, are there beside all that layers keep.
  const double states = recipe.train.distill.hidden > 0 ? static_cast<double>(model.layers) : 0;
  const double kept = (1 + states) * plan::hidden_bytes(own);
  plan::MemoryMoment reads = plan.fullest(), beside = reads;
  reads.name = "pass of the frozen model";
  reads.bytes[MemoryPurpose::kActivations] = pass + kept;
  beside.name = "loss beside the frozen model";
  beside.bytes[MemoryPurpose::kActivations] += logits + kept;
  plan.moments.push_back(reads);
  plan.moments.push_back(beside);
}

}  // namespace longhaul::language
