#include "posttrain/reinforce/rollout_state.h"

#include "base/memory/memory_purpose.h"

namespace longhaul::posttrain {
namespace {

constexpr const char* kFact = "reinforce";

nlohmann::json json_of(const Answer& answer) {
  return {{"tokens", answer.ids.size()},  {"ended", answer.ended},   {"reward", answer.reward.sum},
          {"parts", answer.reward.parts}, {"shaped", answer.shaped}, {"formatted", answer.reward.formatted},
          {"advantage", answer.advantage}};
}

template <class Element>
void write_row(const Tensor& all, int64_t row, const std::vector<Element>& values) {
  std::copy(values.begin(), values.end(), all.mutable_data_ptr<Element>() + row * all.size(1));
}
template <class Element>
std::vector<Element> read_row(const Tensor& all, int64_t row, int64_t length) {
  const Element* const begin = all.const_data_ptr<Element>() + row * all.size(1);
  return {begin, begin + length};
}

}  // namespace

RolloutState::RolloutState(const ReinforceOptions& options, const Prompts& prompts, bool written_here)
    : levels(options.level),
      used(options.updates),
      options_(options),
      prompts_(prompts),
      written_here_(written_here) {
  if (!keeps()) return;
  const MemoryPurposeScope scope(MemoryPurpose::kData);
  const std::vector<int64_t> sizes = {options.prompts * options.group, options.tokens};
  ids_ = at::zeros(sizes, at::kLong);
  for (Tensor* const each : {&generated_, &old_, &reference_}) *each = at::zeros(sizes, at::kDouble);
  if (options_.has_critic) values_ = at::zeros(sizes, at::kDouble);
}

double RolloutState::kept_bytes(const ReinforceOptions& options) {
  if (options.updates == 1) return 0;
  constexpr double kNumber = 8;
  const double tensors = options.has_critic ? 5 : 4;
  return tensors * kNumber * static_cast<double>(options.prompts) * static_cast<double>(options.group) *
         static_cast<double>(options.tokens);
}

void RolloutState::keep_batch() {
  if (!keeps()) return;
  for (const Tensor* const each : {&ids_, &generated_, &old_, &reference_, &values_}) {
    if (each->defined()) each->zero_();
  }
  int64_t row = 0;
  for (const Group& group : batch.groups) {
    for (const Answer& answer : group.answers) {
      write_row(ids_, row, answer.ids);
      write_row(generated_, row, answer.generated);
      write_row(old_, row, answer.old);
      write_row(reference_, row, answer.reference);
      if (options_.has_critic) write_row(values_, row, answer.values);
      ++row;
    }
  }
}

std::vector<checkpoint::StateEntry> RolloutState::tensors() {
  if (!keeps()) return {};
  const auto entry = [&](const char* name, const Tensor& view) {
    const layout::Shape shape = view.sizes().vec();
    return checkpoint::StateEntry{name, "task",       "task", shape, layout::Rectangle::whole(shape),
                                  view, written_here_};
  };
  std::vector<checkpoint::StateEntry> entries = {
      entry("task.rollout.ids", ids_), entry("task.rollout.generated", generated_),
      entry("task.rollout.old", old_), entry("task.rollout.reference", reference_)};
  if (options_.has_critic) entries.push_back(entry("task.rollout.values", values_));
  return entries;
}

nlohmann::json RolloutState::facts() {
  nlohmann::json facts = {{"next_prompt", next_prompt},
                          {"short_batches", short_batches},
                          {"equal_batches", equal_batches},
                          {"used", used}};
  if (options_.adaptive) facts["levels"] = nlohmann::json(levels.json());
  nlohmann::json groups = nlohmann::json::array();
  for (const Group& group : batch.groups) {
    if (!keeps() || used >= options_.updates) break;
    nlohmann::json answers = nlohmann::json::array();
    for (const Answer& answer : group.answers) answers.push_back(json_of(answer));
    groups.push_back({{"number", group.prompt.number}, {"level", group.prompt.level}, {"answers", answers}});
  }
  facts["groups"] = groups;
  return {{kFact, facts}};
}

void RolloutState::restore(const checkpoint::SavedFacts& saved) {
  const nlohmann::json& facts = saved.at(kFact);
  next_prompt = facts.at("next_prompt");
  short_batches = facts.at("short_batches");
  equal_batches = facts.at("equal_batches");
  used = facts.at("used");
  if (options_.adaptive) levels = puzzles::LevelMixture::from_json(facts.at("levels"), saved.where);
  batch = {};
  int64_t row = 0;
  for (const nlohmann::json& group_json : facts.at("groups")) {
    Group& group = batch.groups.emplace_back(
        Group{.prompt = prompts_.again(group_json.at("number"), group_json.at("level")), .answers = {}});
    for (const nlohmann::json& json : group_json.at("answers")) {
      Answer& answer = group.answers.emplace_back();
      const int64_t length = json.at("tokens");
      answer.ids = read_row<int64_t>(ids_, row, length);
      answer.generated = read_row<double>(generated_, row, length);
      answer.old = read_row<double>(old_, row, length);
      if (options_.has_critic) answer.values = read_row<double>(values_, row, length);
      if (options_.kl > 0) answer.reference = read_row<double>(reference_, row, length);
      answer.ended = json.at("ended");
      answer.reward = {
          .sum = json.at("reward"), .parts = json.at("parts"), .formatted = json.at("formatted")};
      answer.shaped = json.at("shaped");
      answer.advantage = json.at("advantage");
      ++row;
    }
  }
  if (options_.has_critic) estimate_advantages(batch.groups, options_);
}

}  // namespace longhaul::posttrain
