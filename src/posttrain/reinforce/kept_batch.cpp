#include "posttrain/reinforce/kept_batch.h"

#include <algorithm>

#include "base/memory/memory_purpose.h"

namespace longhaul::posttrain {
namespace {

constexpr double kNumber = 8;  // bytes, of ids and log-probabilities alike

nlohmann::json json_of(const Answer& answer) {
  return {{"tokens", answer.ids.size()},  {"ended", answer.ended},   {"reward", answer.reward.sum},
          {"parts", answer.reward.parts}, {"shaped", answer.shaped}, {"formatted", answer.reward.formatted},
          {"advantage", answer.advantage}};
}

nlohmann::json json_of(const RolloutTally& tally) {
  nlohmann::json tasks = nlohmann::json::object();
  for (const auto& [name, of_task] : tally.of_task) tasks[name] = {of_task.reward, of_task.answers};
  return {{"groups", tally.groups},
          {"accepted", tally.accepted},
          {"rounds", tally.rounds},
          {"answers", tally.answers},
          {"right", tally.right},
          {"formatted", tally.formatted},
          {"truncated", tally.truncated},
          {"tokens", tally.tokens},
          {"reward", tally.reward},
          {"window", tally.window},
          {"tasks", tasks}};
}

RolloutTally tally_of(const nlohmann::json& json) {
  RolloutTally tally{.groups = json.at("groups"),
                     .accepted = json.at("accepted"),
                     .rounds = json.at("rounds"),
                     .answers = json.at("answers"),
                     .right = json.at("right"),
                     .formatted = json.at("formatted"),
                     .truncated = json.at("truncated"),
                     .tokens = json.at("tokens"),
                     .reward = json.at("reward"),
                     .window = json.at("window"),
                     .of_task = {}};
  for (const auto& [name, of_task] : json.at("tasks").items())
    tally.of_task[name] = {of_task.at(0).get<double>(), of_task.at(1).get<int64_t>()};
  return tally;
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

double KeptBatch::Sizes::bytes() const {
  const double of_token = 2 + (scores ? 2 : 0) + (values ? 1 : 0),
               of_read = static_cast<double>(routers.size()) * static_cast<double>(experts);
  return kNumber * static_cast<double>(answers) *
         (of_token * static_cast<double>(tokens) + of_read * static_cast<double>(read));
}

KeptBatch::KeptBatch(std::string prefix, Sizes sizes) : prefix_(std::move(prefix)), sizes_(std::move(sizes)) {
  const MemoryPurposeScope scope(MemoryPurpose::kData);
  const std::vector<int64_t> shape = {sizes_.answers, sizes_.tokens};
  ids_ = at::zeros(shape, at::kLong);
  generated_ = at::zeros(shape, at::kDouble);
  if (sizes_.scores) old_ = at::zeros(shape, at::kDouble), reference_ = at::zeros(shape, at::kDouble);
  if (sizes_.values) values_ = at::zeros(shape, at::kDouble);
  for (size_t i = 0; i < sizes_.routers.size(); ++i)
    routes_.push_back(at::zeros({sizes_.answers, sizes_.read, sizes_.experts}, at::kLong));
}

void KeptBatch::keep(const RolloutBatch& batch) {
  for (const Tensor* const each : {&ids_, &generated_, &old_, &reference_, &values_}) {
    if (each->defined()) each->zero_();
  }
  for (const Tensor& each : routes_) each.zero_();
  int64_t row = 0;
  for (const Group& group : batch.groups) {
    for (const Answer& answer : group.answers) {
      write_row(ids_, row, answer.ids);
      write_row(generated_, row, answer.generated);
      if (sizes_.scores) write_row(old_, row, answer.old), write_row(reference_, row, answer.reference);
      if (sizes_.values) write_row(values_, row, answer.values);
      for (size_t i = 0; i < routes_.size(); ++i) {
        const Tensor& choice_tk = answer.routes.at(sizes_.routers[i]);
        routes_[i][row].narrow(0, 0, choice_tk.size(0)).copy_(choice_tk);
      }
      ++row;
    }
  }
}

std::vector<checkpoint::StateEntry> KeptBatch::tensors(bool written_here) const {
  std::vector<checkpoint::StateEntry> entries;
  const auto add = [&](const std::string& name, const Tensor& view) {
    if (!view.defined()) return;
    const layout::Shape shape = view.sizes().vec();
    entries.push_back(
        {prefix_ + name, "task", "task", shape, layout::Rectangle::whole(shape), view, written_here});
  };
  add("ids", ids_), add("generated", generated_), add("old", old_), add("reference", reference_);
  add("values", values_);
  for (size_t i = 0; i < routes_.size(); ++i) add("routes." + sizes_.routers[i], routes_[i]);
  return entries;
}

nlohmann::json KeptBatch::facts(const RolloutBatch& batch) {
  nlohmann::json groups = nlohmann::json::array();
  for (const Group& group : batch.groups) {
    nlohmann::json answers = nlohmann::json::array();
    for (const Answer& answer : group.answers) answers.push_back(json_of(answer));
    groups.push_back({{"number", group.prompt.number}, {"level", group.prompt.level}, {"answers", answers}});
  }
  return {{"groups", groups}, {"tally", json_of(batch.tally)}};
}

RolloutBatch KeptBatch::batch(const nlohmann::json& facts, const Prompts& prompts) const {
  RolloutBatch batch;
  if (facts.contains("tally")) batch.tally = tally_of(facts.at("tally"));  // runs of before have none
  int64_t row = 0;
  for (const nlohmann::json& group_json : facts.at("groups")) {
    Group& group = batch.groups.emplace_back(
        Group{.prompt = prompts.again(group_json.at("number"), group_json.at("level")), .answers = {}});
    for (const nlohmann::json& json : group_json.at("answers")) {
      Answer& answer = group.answers.emplace_back();
      const int64_t length = json.at("tokens");
      answer.ids = read_row<int64_t>(ids_, row, length);
      answer.generated = read_row<double>(generated_, row, length);
      if (sizes_.scores) {
        answer.old = read_row<double>(old_, row, length);
        answer.reference = read_row<double>(reference_, row, length);
      }
      if (sizes_.values) answer.values = read_row<double>(values_, row, length);
      const MemoryPurposeScope scope(MemoryPurpose::kData);
      for (size_t i = 0; i < routes_.size(); ++i)
        answer.routes[sizes_.routers[i]] =
            routes_[i][row].narrow(0, 0, std::ssize(group.prompt.ids) + length - 1).clone();
      answer.ended = json.at("ended");
      answer.reward = {
          .sum = json.at("reward"), .parts = json.at("parts"), .formatted = json.at("formatted")};
      answer.shaped = json.at("shaped");
      answer.advantage = json.at("advantage");
      ++row;
    }
  }
  return batch;
}

}  // namespace longhaul::posttrain
