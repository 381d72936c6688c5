#include "posttrain/reinforce/rollouts.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/memory/memory_purpose.h"
#include "base/process/fault_point.h"
#include "base/random.h"
#include "data/tokenizer/wide_ids.h"
#include "generate/engine.h"

namespace longhaul::posttrain {
namespace {

std::vector<int32_t> narrow(const std::vector<int64_t>& ids) { return {ids.begin(), ids.end()}; }

// The numbers that an answer takes beside its tokens in the exchange of ranks.
constexpr int64_t kLength = 0, kEnded = 1, kSum = 2, kFormatted = 3, kParts = 4;

}  // namespace

using layout::Axis;

void sum_over_ranks(const parallel::Ranks& ranks, const Tensor& numbers, at::Device device) {
  if (ranks.groups() == nullptr) return;
  const Tensor there = numbers.to(device);
  ranks.sum(there, "answers");
  if (!there.is_alias_of(numbers)) numbers.copy_(there);
}

bool differs(const Group& group) {
  return std::ranges::any_of(
      group.answers, [&](const Answer& each) { return each.reward.sum != group.answers[0].reward.sum; });
}

Rollouts::Rollouts(const ReinforceOptions& options, model::Decoder& decoder, const data::Tokenizer& tokenizer,
                   const Prompts& prompts, const Judge& judge, const parallel::Ranks& ranks)
    : options_(options),
      decoder_(decoder),
      tokenizer_(tokenizer),
      prompts_(prompts),
      judge_(judge),
      ranks_(ranks) {
  const layout::Mesh& mesh = ranks.place().mesh;
  if (mesh.size(Axis::kTp) * mesh.size(Axis::kPp) > 1) pass_.emplace(decoder, ranks);
}

// Groups are dealt out one by one, so that every replica has long and short ones.
bool Rollouts::is_own(size_t group) const {
  return static_cast<int64_t>(group) % ranks_.replicas() == ranks_.replica();
}

// Of the ranks that have all of a replica's answers: what a verifier says twice need not be the same.
bool Rollouts::judges() const {
  return ranks_.place().coordinate(Axis::kTp) == 0 && ranks_.place().coordinate(Axis::kPp) == 0;
}

std::string Rollouts::text_of(const Answer& answer) const {
  std::vector<int32_t> ids = narrow(answer.ids);
  if (answer.ended && !ids.empty()) ids.pop_back();
  return tokenizer_.decode(ids);
}

void Rollouts::generate(Round& round) const {
  const at::NoGradGuard guard;
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const int64_t own =
      (std::ssize(round.groups) + ranks_.replicas() - 1 - ranks_.replica()) / ranks_.replicas();
  observe::TaskPhase phase(*ranks_.spans(), "rollout");
  generate::EngineOptions engine_options{.sequences = std::max(options_.sequences, round.answers)};
  if (pass_) engine_options.pass = pass_->function();
  generate::Engine engine(decoder_, engine_options);
  const std::vector<int64_t> stops = data::wide_ids(tokenizer_.stop_ids());
  const RandomStream seeds(options_.seed, "reinforce/answers");
  std::exception_ptr failure;
  int64_t done = 0;
  for (size_t g = 0; g < round.groups.size(); ++g) {
    Group& group = round.groups[g];
    group.answers.resize(static_cast<size_t>(round.answers));
    if (!is_own(g)) continue;
    generate::Request request{.prompt = group.prompt.ids,
                              .settings = {.tokens = round.tokens,
                                           .temperature = round.temperature,
                                           .top_p = 1,
                                           .loop_tokens = options_.loop_tokens,
                                           .seed = seeds.bits(static_cast<uint64_t>(group.prompt.number)),
                                           .count = round.answers,
                                           .vocabulary = tokenizer_.vocabulary(),
                                           .records_routes = options_.replays_routes && round.trains,
                                           .log_probabilities = true,
                                           .of_whole_distribution = true,
                                           .never = data::wide_ids(tokenizer_.without_token())}};
    request.where = fmt::format("prompt {}", group.prompt.number);
    // A token that ends the text belongs to the answer, so the engine must not take it away.
    request.on_token = [&stops](const generate::Drawn& drawn) {
      return std::ranges::find(stops, drawn.id) == stops.end();
    };
    request.on_end = [&](int64_t sequence, generate::Generation generation) {
      if (generation.error && !failure) failure = generation.error;
      Answer& answer = group.answers[static_cast<size_t>(sequence)];
      answer.ended = generation.finish == generate::Finish::kStop;
      answer.ids = std::move(generation.ids);
      answer.generated = std::move(generation.log_probabilities);
      const MemoryPurposeScope kept(MemoryPurpose::kData);
      for (const auto& [block, choice_tk] : generation.routed.routes)
        answer.routes[block] = choice_tk.clone();
      phase.progress(++done, own * round.answers);
    };
    engine.submit(std::move(request));
  }
  while (engine.step()) {
    if (failure) std::rethrow_exception(failure);
  }
  if (failure) std::rethrow_exception(failure);
}

void Rollouts::judge(Round& round) const {
  if (!judges()) return;
  observe::TaskPhase phase(*ranks_.spans(), "judging");
  std::vector<JudgedAnswers> own;
  for (size_t g = 0; g < round.groups.size(); ++g) {
    if (!is_own(g)) continue;
    JudgedAnswers& answers = own.emplace_back(JudgedAnswers{.prompt = &round.groups[g].prompt});
    for (const Answer& answer : round.groups[g].answers) answers.texts.push_back(text_of(answer));
  }
  const auto rewards = judge_.judge(own);
  size_t next = 0;
  for (size_t g = 0; g < round.groups.size(); ++g) {
    if (!is_own(g)) continue;
    for (size_t i = 0; i < round.groups[g].answers.size(); ++i)
      round.groups[g].answers[i].reward = rewards[next][i];
    ++next;
  }
}

void Rollouts::exchange(Round& round) const {
  if (ranks_.groups() == nullptr) return;
  const auto parts = std::ssize(options_.reward);
  const int64_t rows = std::ssize(round.groups) * round.answers;
  const Tensor ids = at::zeros({rows, options_.tokens}, at::kLong),
               generated = at::zeros({rows, options_.tokens}, at::kDouble);
  const Tensor numbers = at::zeros({rows, kParts + parts}, at::kDouble);
  const auto each = [&](bool own, const auto& what) {
    for (int64_t row = 0; row < rows; ++row) {
      const auto group = static_cast<size_t>(row / round.answers);
      if ((is_own(group) && judges()) == own)
        what(row, round.groups[group].answers[static_cast<size_t>(row % round.answers)]);
    }
  };
  auto id = ids.accessor<int64_t, 2>();
  auto log_probability = generated.accessor<double, 2>();
  auto number = numbers.accessor<double, 2>();
  each(true, [&](int64_t row, const Answer& answer) {
    for (size_t t = 0; t < answer.ids.size(); ++t) {
      id[row][static_cast<int64_t>(t)] = answer.ids[t];
      log_probability[row][static_cast<int64_t>(t)] = answer.generated[t];
    }
    number[row][kLength] = static_cast<double>(answer.ids.size());
    number[row][kEnded] = answer.ended ? 1 : 0;
    number[row][kSum] = answer.reward.sum;
    number[row][kFormatted] = answer.reward.formatted ? 1 : 0;
    for (int64_t part = 0; part < parts; ++part)
      number[row][kParts + part] = answer.reward.parts[static_cast<size_t>(part)];
  });
  for (const Tensor* all : {&ids, &generated, &numbers}) sum_over_ranks(ranks_, *all, decoder_.device());
  each(false, [&](int64_t row, Answer& answer) {
    const auto length = static_cast<int64_t>(number[row][kLength]);
    answer = {};
    for (int64_t t = 0; t < length; ++t) {
      answer.ids.push_back(id[row][t]);
      answer.generated.push_back(log_probability[row][t]);
    }
    answer.ended = number[row][kEnded] == 1;
    answer.reward.sum = number[row][kSum];
    answer.reward.formatted = number[row][kFormatted] == 1;
    for (int64_t part = 0; part < parts; ++part) answer.reward.parts.push_back(number[row][kParts + part]);
  });
  if (options_.replays_routes && round.trains) exchange_routes(round);
}

// Only replicas share the work: ranks that have the model together record no routes.
void Rollouts::exchange_routes(Round& round) const {
  const recipe::ModelConfig& model = decoder_.config();
  int64_t longest = 0;
  for (const Group& group : round.groups) {
    for (const Answer& answer : group.answers)
      longest = std::max(longest, std::ssize(group.prompt.ids) + std::ssize(answer.ids) - 1);
  }
  const int64_t rows = std::ssize(round.groups) * round.answers;
  for (const std::string& block : model::blocks_with_routers(model)) {
    const Tensor all = at::zeros({rows, longest, model.experts_per_token}, at::kLong);
    const auto each = [&](bool own, const auto& what) {
      for (size_t g = 0; g < round.groups.size(); ++g) {
        for (size_t i = 0; is_own(g) == own && i < round.groups[g].answers.size(); ++i) {
          Answer& answer = round.groups[g].answers[i];
          const int64_t read = std::ssize(round.groups[g].prompt.ids) + std::ssize(answer.ids) - 1;
          what(answer,
               all[static_cast<int64_t>(g) * round.answers + static_cast<int64_t>(i)].narrow(0, 0, read));
        }
      }
    };
    each(true, [&](const Answer& answer, const Tensor& row_tk) { row_tk.copy_(answer.routes.at(block)); });
    sum_over_ranks(ranks_, all, decoder_.device());
    const MemoryPurposeScope kept(MemoryPurpose::kData);
    each(false, [&](Answer& answer, const Tensor& row_tk) { answer.routes[block] = row_tk.clone(); });
  }
}

namespace {

void add_to(RolloutTally& tally, const Group& group) {
  tally.groups += 1;
  tally.accepted += differs(group) ? 1 : 0;
  RolloutTally::OfTask& of_task = tally.of_task[group.prompt.task];
  for (const Answer& answer : group.answers) {
    tally.answers += 1;
    tally.right += answer.right() ? 1 : 0;
    tally.formatted += answer.reward.formatted ? 1 : 0;
    tally.truncated += answer.ended ? 0 : 1;
    tally.tokens += std::ssize(answer.ids);
    tally.reward += answer.reward.sum;
    of_task.reward += answer.reward.sum;
    of_task.answers += 1;
  }
}

void tell_levels(puzzles::LevelMixture& levels, const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    const auto right =
        std::ranges::count_if(group.answers, [](const Answer& answer) { return answer.right(); });
    levels.add(
        group.prompt.task, group.prompt.level,
        {.answers = static_cast<double>(group.answers.size()), .accepted = static_cast<double>(right)});
  }
}

}  // namespace

RolloutBatch Rollouts::next(int64_t& next_prompt, puzzles::LevelMixture* levels, int64_t window) const {
  RolloutBatch batch;
  batch.tally.window = window;
  std::vector<Group> all;
  const auto wanted = static_cast<size_t>(options_.prompts);
  while (batch.groups.size() < wanted && batch.tally.rounds < (options_.dynamic ? options_.rounds : 1)) {
    Round round{
        .groups = {}, .answers = options_.group, .tokens = window, .temperature = options_.temperature};
    for (size_t i = 0; i < wanted; ++i)
      round.groups.push_back({.prompt = prompts_.prompt(next_prompt++, levels), .answers = {}});
    generate(round);
    fault_point("reinforce.rollout");
    judge(round);
    exchange(round);
    batch.tally.rounds += 1;
    if (levels != nullptr) tell_levels(*levels, round.groups);
    for (Group& group : round.groups) {
      add_to(batch.tally, group);
      if (batch.groups.size() < wanted && (!options_.dynamic || differs(group)))
        batch.groups.push_back(std::move(group));
    }
  }
  set_advantages(batch.groups, window);
  return batch;
}

void Rollouts::set_advantages(std::vector<Group>& groups, int64_t window) const {
  std::vector<double> advantages, weights;
  for (Group& group : groups) {
    std::vector<double> shaped;
    for (Answer& answer : group.answers) {
      const double penalty = overlong_penalty(std::ssize(answer.ids), window, options_.overlong_cache);
      answer.shaped = answer.reward.sum + options_.overlong_weight * penalty;
      shaped.push_back(answer.shaped);
      weights.push_back(static_cast<double>(answer.ids.size()));
    }
    if (options_.has_critic) continue;
    for (const double advantage : group_advantages(shaped, options_.baseline, options_.baseline_eps))
      advantages.push_back(advantage);
  }
  if (options_.has_critic) return;  // they come with the values
  if (options_.batch_normalised) advantages = batch_normalised(advantages, weights);
  size_t next = 0;
  for (Group& group : groups) {
    for (Answer& answer : group.answers) answer.advantage = advantages[next++];
  }
}

void estimate_advantages(std::vector<Group>& groups, const ReinforceOptions& options) {
  std::vector<double> all;
  for (Group& group : groups) {
    for (Answer& answer : group.answers) {
      std::vector<double> rewards(answer.ids.size(), 0.0);
      if (!rewards.empty()) rewards.back() = answer.shaped;
      Estimated estimated = generalised_advantages(rewards, answer.values, options.gamma, options.lambda);
      answer.returns = std::move(estimated.returns);
      all.insert(all.end(), estimated.advantages.begin(), estimated.advantages.end());
    }
  }
  all = batch_normalised(all, std::vector<double>(all.size(), 1.0));
  auto next = all.begin();
  for (Group& group : groups) {
    for (Answer& answer : group.answers) {
      const auto end = next + std::ssize(answer.ids);
      answer.advantages.assign(next, end);
      answer.advantage = std::accumulate(next, end, 0.0) / std::max(1.0, static_cast<double>(end - next));
      next = end;
    }
  }
}

std::vector<Group> Rollouts::held_out(int64_t count) const {
  Round round{.groups = {}, .answers = 1, .tokens = options_.tokens, .temperature = 0, .trains = false};
  const int64_t most = prompts_.held_out_count();
  for (int64_t i = 0; i < (most > 0 ? std::min(count, most) : count); ++i)
    round.groups.push_back({.prompt = prompts_.held_out(i), .answers = {}});
  generate(round);
  judge(round);
  exchange(round);
  return std::move(round.groups);
}

}  // namespace longhaul::posttrain
