#include "posttrain/reinforce/critic.h"

#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/memory/memory_purpose.h"
#include "checkpoint/published/naming.h"
#include "layout/sequence_view.h"
#include "optim/gradient_norm.h"
#include "tensor/to_tensor.h"

namespace longhaul::posttrain {
namespace {

constexpr const char* kCriticFact = "reinforce_critic";
constexpr const char* kValueWeight = "value.weight";

model::ParameterSet make_head(int64_t hidden, const Precision& precision, at::Device device) {
  layout::ParameterSpec spec;
  spec.tensor = {kValueWeight, {1, hidden}, layout::Role::kHead};
  spec.decay = true;
  model::ParameterSet head({spec}, precision, device);
  head.add_stacked(kValueWeight, {kValueWeight});
  head.allocate();
  return head;
}

// [optim] without what names tensors of the policy.
recipe::OptimOptions optimizer_of(const recipe::Recipe& recipe) {
  recipe::OptimOptions options = recipe.optim;
  options.groups.clear();
  return options;
}

Tensor of_answers(const MicroBatch& micro_batch, std::vector<double> Answer::*member) {
  std::vector<double> all;
  for (const Answer* const answer : micro_batch.answers)
    all.insert(all.end(), (answer->*member).begin(), (answer->*member).end());
  return at::tensor(all, at::kDouble);
}

}  // namespace

recipe::ModelConfig critic_model(recipe::ModelConfig policy) {
  policy.tie_embeddings = true;  // one table of the vocabulary, which only the embedding reads
  policy.predict_ahead = 0;
  return policy;
}

Critic::Critic(const recipe::Recipe& recipe, const ReinforceOptions& options, const Precision& precision,
               at::Device device, const parallel::Ranks& ranks)
    : options_(options),
      ranks_(ranks),
      seed_(static_cast<uint64_t>(recipe.train.seed)),
      clip_norm_(recipe.optim.clip_norm),
      decoder_(critic_model(recipe.model), precision, device),
      head_(make_head(recipe.model.hidden, precision, device)) {
  decoder_.set_recompute(recipe.train.recompute, recipe.train.recompute_layers);
  for (model::ParameterSet* const each : {&decoder_.parameters(), &head_})
    trained_.push_back({*each, optim::make_optimizer(optimizer_of(recipe), *each, precision, seed_)});
}

void Critic::take_once(const model::ParameterSet& policy) {
  if (std::exchange(taken_, true)) return;
  const at::NoGradGuard guard;
  for (const auto& parameter : decoder_.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      size_t part = 0;
      model::Parameter* const from = policy.holder_of(parameter->parts[i].spec.tensor.name, &part);
      LONGHAUL_ASSERT(from != nullptr, "the policy has no {}", parameter->parts[i].spec.tensor.name);
      parameter->part_of(parameter->value, i).copy_(from->part_of(from->value, part));
    }
    parameter->written();
  }
  trained_[0].optimizer->take_masters_from_values();
}

Tensor Critic::values(const MicroBatch& micro_batch, int64_t step, int64_t number, double auxiliary_scale) {
  model::Context context(ranks_.ops(), decoder_.precision());
  context.seed = seed_;
  context.step = step;
  context.micro_batch = number;
  context.auxiliary_scale = auxiliary_scale;
  const layout::SequenceView view(micro_batch.layout, ranks_.share());
  const Tensor hidden_td = decoder_.hidden(context, to_tensor(micro_batch.inputs), view);
  const Tensor index = to_tensor(micro_batch.places, decoder_.device());
  const Tensor weight_1d = head_.all()[0]->use();
  const Tensor read_td = hidden_td.index_select(0, index).to(decoder_.precision().reduce);
  return at::matmul(read_td, weight_1d.to(read_td.scalar_type()).flatten()).to(at::kDouble);
}

void Critic::evaluate(std::vector<MicroBatch>& micro_batches, int64_t step) {
  const at::NoGradGuard guard;
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    MicroBatch& micro_batch = micro_batches[i];
    const Tensor value_t = values(micro_batch, step, static_cast<int64_t>(i), 0).cpu().contiguous();
    const double* value = value_t.const_data_ptr<double>();
    micro_batch.l.clear();
    for (const Answer* const answer : micro_batch.answers) {
      micro_batch.l.emplace_back(value, value + answer->ids.size());
      value += answer->ids.size();
    }
  }
}

std::map<std::string, train::Metric> Critic::train(const std::vector<MicroBatch>& micro_batches, int64_t step,
                                                   double lr) {
  const at::AutoGradMode with_gradient_on(true);
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  enum : int64_t { kTokens, kAllTokens, kLoss, kValue, kReturn, kReturn2, kError2, kSums };
  const Tensor sums = at::zeros({kSums}, at::kDouble);
  for (const MicroBatch& micro_batch : micro_batches) {
    sums[kTokens] += std::ssize(micro_batch.places);
    sums[kAllTokens] += micro_batch.layout.tokens();
  }
  const Tensor counts = sums.clone();
  sum_over_ranks(ranks_, counts, decoder_.device());
  const auto tokens = std::max(1.0, counts[kTokens].item<double>());
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const MicroBatch& micro_batch = micro_batches[i];
    const Tensor value_t =
        values(micro_batch, step, static_cast<int64_t>(i), tokens / counts[kAllTokens].item<double>());
    if (micro_batch.answers.empty()) {
      value_t.sum().backward();  // its experts take part in what replicas do together
      continue;
    }
    const Tensor now_t = value_t.detach().cpu(), return_t = of_answers(micro_batch, &Answer::returns);
    const ValueLosses losses =
        value_losses(now_t, of_answers(micro_batch, &Answer::values), return_t, options_.value_clip);
    with_gradient(losses.loss_t.to(value_t.device()), losses.gradient_t.to(value_t.device()), value_t)
        .sum()
        .backward();
    sums[kLoss] += losses.loss_t.sum();
    sums[kValue] += now_t.sum();
    sums[kReturn] += return_t.sum();
    sums[kReturn2] += return_t.square().sum();
    sums[kError2] += (return_t - now_t).square().sum();
  }
  sum_over_ranks(ranks_, sums, decoder_.device());
  for (const Trained& each : trained_) {
    for (const auto& parameter : each.parameters.all()) {
      if (!parameter->trainable()) continue;
      sum_over_ranks(ranks_, parameter->grad, decoder_.device());
      parameter->grad.div_(tokens);
    }
  }
  const double norm = update(lr);
  const auto mean = [&](int64_t of) { return sums[of].item<double>() / tokens; };
  const double variance = mean(kReturn2) - mean(kReturn) * mean(kReturn);
  std::map<std::string, train::Metric> metrics = {{"critic/loss", {mean(kLoss), 1}},
                                                  {"critic/value", {mean(kValue), 1}},
                                                  {"critic/return", {mean(kReturn), 1}},
                                                  {"critic/gradient_norm", {norm, 1}}};
  // 1: every return is known; 0: no better than their mean.
  metrics["critic/explained"] =
      variance > 0 ? train::Metric{1 - mean(kError2) / variance, 1} : train::Metric{};
  return metrics;
}

double Critic::update(double lr) {
  double squares = 0;
  bool finite = true;
  for (const Trained& each : trained_) {
    const optim::GradientNorm norm = optim::gradient_norm(each.parameters);
    squares += norm.norm * norm.norm;
    finite = finite && norm.finite && std::isfinite(squares);
  }
  const double norm = std::sqrt(squares);
  if (!finite) {
    log_warning("the critic's gradient is not finite: it is left as it was");
    for (const Trained& each : trained_) each.parameters.zero_gradients();
    return norm;
  }
  for (const Trained& each : trained_)
    each.optimizer->step({.lr = lr, .gradient_scale = optim::clip_factor(norm, clip_norm_)});
  return norm;
}

std::vector<checkpoint::StateEntry> Critic::tensors() {
  std::vector<checkpoint::StateEntry> entries;
  for (const Trained& each : trained_) {
    for (const optim::StateTensor& tensor : each.optimizer->state()) {
      entries.push_back(
          {.name = fmt::format("{}critic.{}.{}", checkpoint::kTaskPrefix, tensor.kind, tensor.name),
           .file = checkpoint::kTaskFiles,
           .role = "task",
           .shape = tensor.global_shape,
           .held = tensor.held,
           .view = tensor.view.detach(),
           .written_here = ranks_.rank() == 0 && tensor.first_copy});
    }
  }
  return entries;
}

nlohmann::json Critic::facts() {
  return {{kCriticFact,
           {{"taken", taken_}, {"steps", trained_[0].optimizer->steps()}, {"warm_batches", warm_batches_}}}};
}

void Critic::restore(const checkpoint::SavedFacts& saved) {
  const nlohmann::json& facts = saved.at(kCriticFact);
  taken_ = facts.at("taken");
  warm_batches_ = facts.at("warm_batches");
  for (const Trained& each : trained_) {
    each.optimizer->set_steps(facts.at("steps"));
    each.optimizer->refresh_values();
  }
}

}  // namespace longhaul::posttrain
