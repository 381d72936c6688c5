#include "posttrain/preference/preference.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"

namespace longhaul::posttrain {
namespace {

// The sample whose answer stands in for one to another prompt: the next one with another prompt, in a circle.
int64_t partner_of(const std::vector<AnswerSample>& all, int64_t sample) {
  const auto size = static_cast<int64_t>(all.size());
  const auto& own = all[static_cast<size_t>(sample)].prompt;
  for (int64_t away = 1; away < size; ++away) {
    const int64_t other = (sample + away) % size;
    if (all[static_cast<size_t>(other)].prompt != own) return other;
  }
  return (sample + 1) % size;
}

void require_finite(const Tensor& scores, const std::vector<AnswerSample>& samples) {
  const Tensor bad = scores.isfinite().all(1).logical_not().nonzero();
  if (bad.numel() == 0) return;
  throw Error({.code = ExitCode::kNumeric,
               .what = "the reference gives an answer no finite log-probability",
               .found = std::to_string(scores[bad[0][0].item<int64_t>()].sum().item<double>()),
               .where = samples[static_cast<size_t>(bad[0][0].item<int64_t>())].where,
               .hint = "train.dtype=fp32, or begin with other weights"});
}

}  // namespace

Preference::Preference(const recipe::Recipe& recipe, const PreferenceOptions& options, SplitSamples samples,
                       at::Device device, const parallel::Ranks& ranks)
    : AnswerTask(recipe, std::move(samples), device, ranks),
      options_(options),
      reference_(static_cast<int64_t>(of(Side::kTrain).size()),
                 static_cast<int64_t>(of(Side::kHeldOut).size()), ranks.rank() == 0) {
  weigh_by_rewards();
}

// Rewards of several answers to one prompt are compared with each other, those of single answers all
// together.
void Preference::weigh_by_rewards() {
  for (const Side side : {Side::kTrain, Side::kHeldOut}) {
    std::vector<double>& weights = weights_[static_cast<size_t>(side)];
    weights.assign(of(side).size(), 1);
    if (options_.loss != PreferenceLoss::kRewardWeighted) continue;
    std::map<std::vector<int32_t>, std::vector<size_t>> groups;
    for (size_t i = 0; i < of(side).size(); ++i) groups[of(side)[i].prompt].push_back(i);
    std::vector<size_t> alone;
    const auto weigh = [&](const std::vector<size_t>& group) {
      std::vector<double> rewards;
      for (const size_t i : group) rewards.push_back(of(side)[i].reward);
      const std::vector<double> some = reward_weights(rewards, options_.numbers.beta, options_.most_weight);
      for (size_t i = 0; i < group.size(); ++i) weights[group[i]] = some[i];
    };
    for (const auto& [prompt, group] : groups) {
      if (group.size() > 1) weigh(group);
      if (group.size() == 1) alone.push_back(group.front());
    }
    weigh(alone);
  }
}

std::vector<checkpoint::StateProvider*> Preference::state() {
  if (!needs_reference(options_.loss)) return {};
  return {&reference_};
}

PackedAnswers Preference::packed(Side side, const std::vector<int64_t>& samples) const {
  AnswerPacker packer;
  for (const int64_t index : samples) {
    const AnswerSample& sample = of(side)[static_cast<size_t>(index)];
    packer.begin_sample(index);
    for (const auto& answer : sample.answers) packer.add(sample.prompt, answer);
  }
  return packer.finish();
}

PackedAnswers Preference::mismatched(Side side, const std::vector<int64_t>& samples) const {
  AnswerPacker packer;
  for (const int64_t index : samples) {
    const std::vector<int32_t>& prompt = of(side)[static_cast<size_t>(index)].prompt;
    std::vector<int32_t> answer = of(side)[static_cast<size_t>(partner_of(of(side), index))].answers[0];
    const size_t fits = static_cast<size_t>(recipe_.train.sequence) - prompt.size() + 1;
    answer.resize(std::min(answer.size(), fits));
    packer.begin_sample(index);
    packer.add(prompt, answer);
  }
  return packer.finish();
}

Tensor Preference::reference_of(Side side, const std::string& phase) {
  const auto count = static_cast<int64_t>(of(side).size());
  const Tensor table = at::zeros({count, 2}, at::kDouble);
  if (count == 0) return table;
  table.narrow(1, 0, documents_of_sample()).copy_(scores_of(side, count, phase));
  if (is_kto()) {
    const Pack pack = [&](int64_t first, int64_t size) {
      std::vector<int64_t> samples(static_cast<size_t>(size));
      std::iota(samples.begin(), samples.end(), first);
      return mismatched(side, samples);
    };
    table.narrow(1, 1, 1).copy_(scores_of(count, 1, pack, phase));
  }
  require_finite(table, of(side));
  return table;
}

// With the weights that the run begins with: a run that goes on has read the scores from its checkpoint.
void Preference::compute_reference() {
  if (!needs_reference(options_.loss) || reference_.known()) return;
  reference_.set(reference_of(Side::kTrain, "reference"), reference_of(Side::kHeldOut, "reference"));
}

double Preference::divergence_of(Side side, const std::vector<int64_t>& samples) {
  const Pack pack = [&](int64_t first, int64_t size) {
    return mismatched(side, {samples.begin() + first, samples.begin() + first + size});
  };
  const Tensor policy_n = scores_of(static_cast<int64_t>(samples.size()), 1, pack, "divergence").select(1, 0);
  const Tensor& table = side == Side::kTrain ? reference_.train() : reference_.held_out();
  return mismatched_divergence(policy_n, table.index_select(0, at::tensor(samples, at::kLong)).select(1, 1));
}

void Preference::before_step(int64_t step) {
  compute_reference();
  if (is_kto()) divergence_ = divergence_of(Side::kTrain, samples_of_worker(step));
}

void Preference::before_judging(const Tensor& scores) {
  LONGHAUL_ASSERT(!needs_reference(options_.loss) || reference_.known(), "judged before the first step");
  if (!is_kto()) return;
  std::vector<int64_t> samples(static_cast<size_t>(scores.size(0)));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  divergence_ = divergence_of(Side::kHeldOut, samples);
}

Tensor Preference::numbers(Side side, const std::vector<int64_t>& samples,
                           const std::function<double(const AnswerSample&)>& number) const {
  std::vector<double> all;
  for (const int64_t index : samples) all.push_back(number(of(side)[static_cast<size_t>(index)]));
  return at::tensor(all, at::kDouble);
}

AnswerScores Preference::scores(Side side, const std::vector<int64_t>& samples, const Tensor& scores_nd,
                                int64_t answer) const {
  const at::Device device = scores_nd.device();
  const auto tokens = [&](const AnswerSample& sample) {
    return static_cast<double>(sample.answer_tokens(static_cast<size_t>(answer)));
  };
  AnswerScores made{.policy_n = scores_nd.select(1, answer),
                    .reference_n = {},
                    .tokens_n = numbers(side, samples, tokens).to(device)};
  if (!needs_reference(options_.loss)) return made;
  const Tensor& table = side == Side::kTrain ? reference_.train() : reference_.held_out();
  made.reference_n = table.index_select(0, at::tensor(samples, at::kLong)).select(1, answer).to(device);
  return made;
}

Tensor Preference::summed_loss(Side side, const std::vector<int64_t>& samples,
                               const Tensor& scores_nd) const {
  const AnswerScores first = scores(side, samples, scores_nd, 0);
  if (compares_two(options_.loss))
    return pair_loss(options_.loss, first, scores(side, samples, scores_nd, 1), options_.numbers).sum();
  if (is_kto()) {
    const Tensor good_n =
        numbers(side, samples, [](const AnswerSample& sample) { return sample.good ? 1.0 : 0.0; });
    return kto_loss(first, good_n.to(scores_nd.device()), divergence_, options_.numbers).sum();
  }
  std::vector<double> weights;
  for (const int64_t index : samples)
    weights.push_back(weights_[static_cast<size_t>(side)][static_cast<size_t>(index)]);
  return weighted_loss(first, at::tensor(weights, at::kDouble).to(scores_nd.device())).sum();
}

// Pairs and labelled answers count as one each, others by the weight of their tokens.
double Preference::weight_of(Side side, const std::vector<int64_t>& samples) const {
  if (compares_two(options_.loss) || is_kto()) return static_cast<double>(samples.size());
  double weight = 0;
  for (const int64_t index : samples) {
    const auto i = static_cast<size_t>(index);
    weight += weights_[static_cast<size_t>(side)][i] * static_cast<double>(of(side)[i].answer_tokens(0));
  }
  return weight;
}

std::vector<std::string> Preference::names_of_metrics() const {
  std::vector<std::string> names;
  if (compares_two(options_.loss)) {
    names = {"accuracy",          "reward_margin",          "chosen_reward",
             "rejected_reward",   "chosen_log_probability", "rejected_log_probability",
             "chosen_is_likelier"};
  } else if (is_kto()) {
    names = {"accuracy", "chosen_reward", "rejected_reward", "divergence"};
  } else {
    names = {"chosen_log_probability"};
  }
  if (needs_reference(options_.loss)) names.push_back("log_ratio_per_token");
  return names;
}

AnswerTask::Metrics Preference::metrics_of(Side side, const std::vector<int64_t>& samples,
                                           const Tensor& scores_nd) const {
  Metrics all;
  const auto tell = [&](const std::string& name, const Tensor& value_n) {
    all[name] = {value_n.to(at::kDouble).sum().item<double>(), static_cast<double>(value_n.numel())};
  };
  const AnswerScores first = scores(side, samples, scores_nd, 0);
  if (needs_reference(options_.loss)) {
    Tensor ratio = (first.policy_n - first.reference_n).sum(), tokens = first.tokens_n.sum();
    if (compares_two(options_.loss)) {
      const AnswerScores second = scores(side, samples, scores_nd, 1);
      ratio = ratio + (second.policy_n - second.reference_n).sum();
      tokens = tokens + second.tokens_n.sum();
    }
    all["log_ratio_per_token"] = {ratio.item<double>(), tokens.item<double>()};
  }
  if (compares_two(options_.loss)) {
    const AnswerScores second = scores(side, samples, scores_nd, 1);
    const Tensor chosen_n = implicit_rewards(options_.loss, first, options_.numbers);
    const Tensor rejected_n = implicit_rewards(options_.loss, second, options_.numbers);
    tell("accuracy", chosen_n.gt(rejected_n));
    tell("reward_margin", chosen_n - rejected_n);
    tell("chosen_reward", chosen_n);
    tell("rejected_reward", rejected_n);
    tell("chosen_log_probability", first.policy_n);
    tell("rejected_log_probability", second.policy_n);
    tell("chosen_is_likelier", first.policy_n.gt(second.policy_n));
  } else if (is_kto()) {
    const Tensor reward_n = implicit_rewards(options_.loss, first, options_.numbers);
    const Tensor good_n = numbers(side, samples, [](const AnswerSample& sample) {
                            return sample.good ? 1.0 : 0.0;
                          }).to(at::kBool);
    tell("accuracy", reward_n.gt(options_.numbers.beta * divergence_).eq(good_n));
    tell("chosen_reward", reward_n.masked_select(good_n));
    tell("rejected_reward", reward_n.masked_select(good_n.logical_not()));
    tell("divergence", at::full({1}, divergence_, at::kDouble));
  } else {
    tell("chosen_log_probability", first.policy_n);
  }
  return all;
}

}  // namespace longhaul::posttrain
