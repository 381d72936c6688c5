#include "posttrain/reinforce/mini_batch.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/to_tensor.h"

namespace longhaul::posttrain {
namespace {

struct Place {
  const Group* group = nullptr;
  Answer* answer = nullptr;
  int64_t number = 0;
  // The last token is predicted and never read.
  int64_t length() const { return std::ssize(group->prompt.ids) + std::ssize(answer->ids) - 1; }
};

// The first row with room takes the next answer.
std::vector<std::vector<Place>> rows_of(const std::vector<Group*>& groups, int64_t sequence) {
  std::vector<std::vector<Place>> rows;
  std::vector<int64_t> used;
  int64_t number = 0;
  for (Group* const group : groups) {
    for (Answer& answer : group->answers) {
      const Place place{group, &answer, number++};
      LONGHAUL_ASSERT(place.length() <= sequence, "{} tokens in a row of {}", place.length(), sequence);
      const auto room =
          std::ranges::find_if(used, [&](int64_t tokens) { return tokens + place.length() <= sequence; });
      const auto row = static_cast<size_t>(room - used.begin());
      if (room == used.end()) {
        rows.emplace_back();
        used.push_back(0);
      }
      rows[row].push_back(place);
      used[row] += place.length();
    }
  }
  return rows;
}

void add_document(MicroBatch& micro_batch, const Place& place) {
  const std::vector<int64_t>&prompt = place.group->prompt.ids, &answer = place.answer->ids;
  micro_batch.inputs.insert(micro_batch.inputs.end(), prompt.begin(), prompt.end());
  micro_batch.inputs.insert(micro_batch.inputs.end(), answer.begin(), answer.end() - 1);
  micro_batch.labels.insert(micro_batch.labels.end(), prompt.size() - 1, layout::kIgnoreLabel);
  for (const int64_t id : answer) {
    micro_batch.places.push_back(std::ssize(micro_batch.labels));
    micro_batch.labels.push_back(id);
  }
  micro_batch.answers.push_back(place.answer);
  micro_batch.numbers.push_back(place.number);
  micro_batch.prompts.push_back(std::ssize(prompt));
}

// One row of two tokens, of which nothing counts: a replica without answers goes through the model as the
// others do.
void add_company(MicroBatch& micro_batch) {
  micro_batch.inputs = {0, 0};
  micro_batch.labels = {0, layout::kIgnoreLabel};
  micro_batch.layout = layout::make_batch(1, 2);
}

MicroBatch micro_batch_of(std::span<const std::vector<Place>> rows) {
  MicroBatch micro_batch;
  std::vector<int64_t> lengths, row_offsets = {0};
  for (const auto& row : rows) {
    for (const Place& place : row) {
      add_document(micro_batch, place);
      lengths.push_back(place.length());
    }
    row_offsets.push_back(std::ssize(micro_batch.inputs));
  }
  if (rows.empty()) {
    add_company(micro_batch);
    return micro_batch;
  }
  micro_batch.layout = layout::make_packed(lengths);
  micro_batch.layout.row_offsets = row_offsets;
  return micro_batch;
}

// By token, answer by answer.
Tensor of_tokens(const MicroBatch& micro_batch, const std::function<double(const Answer&, size_t)>& value) {
  std::vector<double> all;
  all.reserve(micro_batch.places.size());
  for (const Answer* const answer : micro_batch.answers) {
    for (size_t t = 0; t < answer->ids.size(); ++t) all.push_back(value(*answer, t));
  }
  return at::tensor(all, at::kDouble);
}

Tensor answers_of_tokens(const MicroBatch& micro_batch) {
  std::vector<int64_t> all;
  for (size_t i = 0; i < micro_batch.answers.size(); ++i)
    all.insert(all.end(), micro_batch.answers[i]->ids.size(), static_cast<int64_t>(i));
  return at::tensor(all, at::kLong);
}

bool counts(const Answer& answer, const ReinforceOptions& options) {
  return answer.ended || !options.masks_truncated;
}

double sum_of(const Tensor& values) { return values.sum().item<double>(); }

}  // namespace

std::vector<MicroBatch> micro_batches_of(const std::vector<Group*>& groups, const PackOptions& options) {
  const auto rows = rows_of(groups, options.sequence);
  std::vector<std::vector<Place>> own;
  for (auto row = static_cast<size_t>(options.replica); row < rows.size();
       row += static_cast<size_t>(options.replicas))
    own.push_back(rows[row]);
  const int64_t most = (std::ssize(rows) + options.replicas - 1) / options.replicas;
  const int64_t count = std::max<int64_t>(1, (most + options.rows - 1) / options.rows);
  std::vector<MicroBatch> micro_batches;
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = std::min<int64_t>(i * options.rows, std::ssize(own));
    const auto end = std::min<int64_t>(begin + options.rows, std::ssize(own));
    micro_batches.push_back(
        micro_batch_of(std::span(own).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))));
  }
  return micro_batches;
}

std::shared_ptr<const model::Routes> MicroBatch::routes(const std::vector<std::string>& routers,
                                                        at::Device device) const {
  auto all = std::make_shared<model::Routes>();
  for (const std::string& router : routers) {
    std::vector<Tensor> of_answers;
    for (const Answer* const answer : answers) of_answers.push_back(answer->routes.at(router));
    (*all)[router] = at::cat(of_answers).to(device);
  }
  return all;
}

double weight_of(const std::vector<MicroBatch>& micro_batches, const ReinforceOptions& options) {
  double weight = 0;
  for (const MicroBatch& micro_batch : micro_batches) {
    for (const Answer* const answer : micro_batch.answers) {
      if (counts(*answer, options))
        weight += token_weights(options.aggregation, std::ssize(answer->ids), options.tokens).whole;
    }
  }
  return weight;
}

void record(MicroBatch& micro_batch, const kernels::TokenLogProbabilities& tokens) {
  const Tensor all = tokens.log_probability_t.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* const value = all.const_data_ptr<double>();
  micro_batch.l.assign(micro_batch.answers.size(), {});
  size_t next = 0;
  for (size_t i = 0; i < micro_batch.answers.size(); ++i) {
    for (size_t t = 0; t < micro_batch.answers[i]->ids.size(); ++t)
      micro_batch.l[i].push_back(value[micro_batch.places[next++]]);
  }
}

Tensor loss_of(MicroBatch& micro_batch, const kernels::TokenLogProbabilities& tokens,
               const ReinforceOptions& options) {
  record(micro_batch, tokens);
  micro_batch.sums = {};
  // Something of the model that is 0, so that the backward pass goes through it.
  if (micro_batch.answers.empty()) return tokens.log_probability_t.sum() * 0;
  const Tensor index = to_tensor(micro_batch.places, tokens.log_probability_t.device());
  const Tensor l_t = tokens.log_probability_t.index_select(0, index).to(at::kDouble);
  const Tensor now_t = l_t.detach().cpu();
  const bool has_old = !micro_batch.answers[0]->old.empty();
  const Tensor old_t =
      has_old ? of_tokens(micro_batch, [](const Answer& a, size_t t) { return a.old[t]; }) : now_t;
  const Tensor generated_t = of_tokens(micro_batch, [](const Answer& a, size_t t) { return a.generated[t]; });
  Tensor weight_t = of_tokens(micro_batch, [&](const Answer& a, size_t) {
    return counts(a, options) ? token_weights(options.aggregation, std::ssize(a.ids), options.tokens).token
                              : 0;
  });
  if (options.correction > 0)
    weight_t = weight_t * (old_t - generated_t).clamp(-20, 20).exp().clamp_max(options.correction);
  const TokenLosses losses = policy_losses(
      {.l_t = now_t,
       .old_t = old_t,
       .advantage_t = of_tokens(micro_batch, [](const Answer& a, size_t t) { return a.advantage_of(t); }),
       .answer_t = answers_of_tokens(micro_batch)},
      options.loss);
  Tensor value_t = losses.loss_t, gradient_t = losses.gradient_t;
  TokenSums& sums = micro_batch.sums;
  if (options.kl > 0) {
    const TokenKl kl =
        kl_losses(now_t, of_tokens(micro_batch, [](const Answer& a, size_t t) { return a.reference[t]; }),
                  options.kl_estimator);
    value_t = value_t + options.kl * kl.kl_t;
    gradient_t = gradient_t + options.kl * kl.gradient_t;
    sums.kl = sum_of(kl.kl_t);
  }
  sums.tokens = static_cast<double>(micro_batch.places.size());
  if (tokens.entropy_t.defined())
    sums.entropy = sum_of(tokens.entropy_t.detach().index_select(0, index).to(at::kDouble));
  sums.clipped_high = sum_of(losses.clipped_high_t);
  sums.clipped_low = sum_of(losses.clipped_low_t);
  const Tensor gap_t = ((options.ahead ? now_t : old_t) - generated_t).clamp(-20, 20);
  sums.gap = sum_of(gap_t.abs());
  sums.gap_kl = sum_of(gap_t.exp() - gap_t - 1);
  const auto weighted = [&](const Tensor& each_t) { return (each_t * weight_t).to(l_t.device()); };
  return with_gradient(weighted(value_t), weighted(gradient_t), l_t).sum();
}

}  // namespace longhaul::posttrain
