#include "train/guards/corruption.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "detect/replica_vote.h"
#include "kernels/linear/product_check.h"
#include "kernels/linear/raw.h"
#include "model/arena.h"
#include "recipe/sections/optim_groups.h"
#include "tensor/content_hash.h"
#include "tensor/random_fill.h"
#include "train/passes.h"

namespace longhaul::train {
namespace {

bool due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

// Each of the group's ranks has a number of its own: what all of them have, by rank, on all. 64 bits travel
// as two halves, which sums of one number and zeros leave exact.
std::vector<std::vector<uint64_t>> gathered(const parallel::Ranks& ranks, layout::AxisSet over,
                                            const std::vector<uint64_t>& own, at::Device device) {
  const comm::Communicator& group = ranks.groups()->over(over);
  const auto size = static_cast<size_t>(group.size()), rank = static_cast<size_t>(group.rank()),
             count = own.size();
  const Tensor numbers = at::zeros({static_cast<int64_t>(size * count * 2)}, at::kDouble);
  double* const at = numbers.mutable_data_ptr<double>();
  for (size_t i = 0; i < count; ++i) {
    at[(rank * count + i) * 2] = static_cast<double>(own[i] >> 32);
    at[(rank * count + i) * 2 + 1] = static_cast<double>(own[i] & 0xffffffffU);
  }
  const Tensor there = numbers.to(device);
  ranks.reduce_over(over, there, comm::Reduction::kSum);
  const Tensor back = there.cpu();
  const double* const from = back.const_data_ptr<double>();
  std::vector<std::vector<uint64_t>> all(size, std::vector<uint64_t>(count));
  for (size_t i = 0; i < size * count; ++i) {
    all[i / count][i % count] =
        static_cast<uint64_t>(from[i * 2]) << 32 | static_cast<uint64_t>(from[i * 2 + 1]);
  }
  return all;
}

std::string first_not_finite(const std::vector<optim::StateTensor>& states) {
  for (const optim::StateTensor& state : states) {
    if (state.view.is_floating_point() && !state.view.isfinite().all().item<bool>())
      return fmt::format("{} of {} is not finite", state.kind, state.name);
  }
  return "";
}

// m and v are means of gradients and of their squares, with weights (1 − β) βⁱ: by Cauchy and Schwarz m² ≤ v
// (1 − β₁)² / ((1 − β₂)(1 − β₁² / β₂)). 0: they have no such bound.
double bound_of_moments(double beta1, double beta2) {
  const double ratio = beta1 * beta1 / beta2;
  return ratio < 1 && beta2 < 1 ? (1 - beta1) / std::sqrt((1 - beta2) * (1 - ratio)) : 0;
}

}  // namespace

// What several ranks hold, and over which axes.
struct CorruptionChecks::Copies {
  layout::AxisSet over;
  std::string name;
  uint64_t hash = 0;
};

CorruptionChecks::CorruptionChecks(const recipe::Recipe& recipe, Task& task, optim::Optimizer& optimizer,
                                   parallel::Ranks& ranks, observe::EventWriter& events)
    : recipe_(recipe), task_(task), optimizer_(optimizer), ranks_(ranks), events_(events) {}

std::vector<CorruptionChecks::Copies> CorruptionChecks::copies() {
  std::vector<Copies> all;
  std::map<const model::Parameter*, size_t> arenas;
  for (const auto& arena : task_.parameters().arenas()) {
    for (const model::Parameter* parameter : arena->parameters) arenas[parameter] = all.size();
    // Of what is cut only the groups that have all shares hold copies; without them nobody does.
    const bool shares = arena->cut() && arena->values_come;
    all.push_back({shares ? arena->share_copies : arena->copies(), arena->name, 0});
    const Tensor& values = shares ? arena->own_values : arena->values;
    if (values.defined() && !(shares && arena->share_copies.empty())) all.back().hash = content_hash(values);
  }
  if (ranks_.place().zero > 0) {
    if (ranks_.place().mesh.size(layout::Axis::kDpr) == 1) return all;
    for (const auto& arena : task_.parameters().arenas()) {
      for (const model::Parameter* parameter : arena->parameters) arenas[parameter] = all.size();
      all.push_back(
          {arena->cut() ? arena->share_copies : arena->copies(), "optimizer state of " + arena->name, 0});
    }
  }
  for (const optim::StateTensor& state : optimizer_.state()) {
    const model::Parameter* const holder = task_.parameters().holder_of(state.name);
    if (holder == nullptr) continue;
    uint64_t& hash = all[arenas.at(holder)].hash;
    hash = hash * 0x9e3779b97f4a7c15 + content_hash(state.view);
  }
  return all;
}

std::optional<std::string> CorruptionChecks::replicas() {
  if (ranks_.groups() == nullptr) return std::nullopt;
  parallel::Sharding* const sharding = ranks_.sharding_of(task_.parameters());
  // some come with the next forward pass
  if (sharding != nullptr && ranks_.place().zero < 3) sharding->gather_values();
  std::map<std::string, std::vector<Copies>> by_axes;
  for (Copies& each : copies()) {
    if (each.over != layout::AxisSet{}) by_axes[each.over.text()].push_back(std::move(each));
  }
  std::optional<std::string> found;
  for (const auto& [axes, held] : by_axes) {
    std::vector<uint64_t> own;
    for (const Copies& each : held) own.push_back(each.hash);
    const auto all = gathered(ranks_, held.front().over, own, task_.parameters().device());
    const auto place = static_cast<size_t>(ranks_.groups()->over(held.front().over).rank());
    for (size_t i = 0; i < held.size(); ++i) {
      std::vector<uint64_t> hashes;
      for (const auto& of_rank : all) hashes.push_back(of_rank[i]);
      const detect::Vote vote = detect::vote(hashes);
      if (found || std::ranges::find(vote.suspects, place) == vote.suspects.end()) continue;
      found = fmt::format("rank {} holds other bits than its replicas: {}{}", ranks_.rank(), held[i].name,
                          vote.majority ? "" : " (no majority: it or one of them is wrong)");
    }
  }
  return found;
}

// With the betas of the rule that the tensor follows: optim.group may give it others than [optim] has.
double CorruptionChecks::bound_of(const std::string& tensor) const {
  size_t part = 0;
  const model::Parameter* const holder = task_.parameters().holder_of(tensor, &part);
  LONGHAUL_ASSERT(holder != nullptr, "moments of {}, which is no tensor of the model", tensor);
  const layout::ParameterSpec& spec = holder->parts[part].spec;
  const size_t rule =
      recipe::rule_of(recipe_.optim, spec.tensor.role, spec.layer, spec.tensor.global_shape, spec.set);
  const recipe::OptimOptions options = recipe::optim_rule(recipe_.optim, rule).options;
  return bound_of_moments(options.beta1, options.beta2);
}

std::optional<std::string> CorruptionChecks::states() {
  const auto states = optimizer_.state();
  if (std::string bad = first_not_finite(states); !bad.empty()) return bad;
  std::map<std::string, std::pair<Tensor, Tensor>> moments;  // m, v of a tensor
  for (const optim::StateTensor& state : states) {
    if (state.view.numel() == 0) continue;
    if (state.kind == "v" && (state.view < 0).any().item<bool>())
      return fmt::format("v of {} is negative", state.name);
    if (state.kind == "master" && (state.view.abs() > 1e6).any().item<bool>())
      return fmt::format("a weight of {} is above 1e6", state.name);
    if (state.kind == "m") moments[state.name].first = state.view;
    if (state.kind == "v") moments[state.name].second = state.view;
  }
  for (const auto& [name, pair] : moments) {
    const auto& [m, v] = pair;
    if (!m.defined() || !v.defined() || m.sizes() != v.sizes()) continue;
    const double bound = bound_of(name);
    if (bound == 0) continue;
    // Both are rounded at every step, to bf16 by up to 2^-7; of numbers near the least that fp32 has little
    // is left.
    const double slack = m.scalar_type() == at::kBFloat16 ? 1.1 : 1.01;
    if ((m.abs() > v.sqrt() * (slack * bound) + 1e-18).any().item<bool>())
      return fmt::format("m of {} is larger than its v allows", name);
  }
  const auto& parameters = task_.parameters().all();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor &value = parameters[i]->own_value, &master = optimizer_.masters()[i];
    if (!value.defined() || value.numel() == 0 || master.is_alias_of(value)) continue;
    if (!master.to(value.scalar_type()).equal(value))
      return fmt::format("{} is not the rounding of its master", parameters[i]->name);
  }
  return std::nullopt;
}

std::optional<std::string> CorruptionChecks::products(int64_t step) {
  constexpr int64_t kRows = 32;
  parallel::Sharding* const sharding = ranks_.sharding_of(task_.parameters());
  // some come with the next forward pass
  if (sharding != nullptr && ranks_.place().zero < 3) sharding->gather_values();
  std::vector<model::Parameter*> layers;
  for (const auto& each : task_.parameters().all()) {
    const bool matrix = each->value.defined() && each->value.dim() == 2 &&
                        each->name.starts_with("layers.") && each->name.ends_with(".weight");
    if (matrix && each->packed.in_use()) layers.push_back(each.get());
  }
  if (layers.empty()) return std::nullopt;
  const auto seed = static_cast<uint64_t>(recipe_.train.seed);
  const RandomStream stream(seed, "products");
  model::Parameter& layer = *layers[stream.below(static_cast<uint64_t>(step), layers.size())];
  const layout::Shape shape{kRows, layer.value.size(1)};
  const Tensor x = at::empty(shape, layer.value.options());
  fill_normal(x, RandomStream(seed, fmt::format("products/{}", step)), 1, shape,
              {.offset = {0, 0}, .length = shape});
  const at::NoGradGuard no_gradients;
  const kernels::ProductCheck check = kernels::check_product(
      x, layer.value.detach(), kernels::linear_output(x, layer.value.detach(), {}, layer.kept()));
  if (check.good()) return std::nullopt;
  return fmt::format("a product with {} is wrong at columns from {} on: {:.3g} times what rounding may leave",
                     layer.name, check.column, check.worst);
}

uint64_t CorruptionChecks::outputs_of(int64_t step, int64_t replica) {
  uint64_t bits = 0;
  const auto inspect = [&](const std::string&, const Tensor& output) {
    bits = bits * 0x9e3779b97f4a7c15 + content_hash(output);
  };
  Passes(task_, ranks_,
         {.step = step,
          .seed = static_cast<uint64_t>(recipe_.train.seed),
          .inspect = inspect,
          .replica = replica})
      .forward(1);
  return bits;
}

std::optional<uint64_t> CorruptionChecks::replayed(int64_t step, int64_t replica) {
  if (!task_.prepare_of(step, replica)) return std::nullopt;
  return outputs_of(step, replica % ranks_.place().mesh.size(layout::Axis::kDp));
}

std::optional<std::string> CorruptionChecks::replay(int64_t step) {
  const int64_t replicas = ranks_.place().mesh.size(layout::Axis::kDp), first = ranks_.worker() * replicas;
  const int64_t here = ranks_.place().coordinate(layout::Axis::kDp);
  // Experts of other replicas take part in this one's passes: then what runs elsewhere in another order is
  // compared with itself.
  const bool together = recipe_.parallel.ep > 1 || recipe_.model.shares_batch();
  const bool alone = replicas == 1 || together;
  const auto own = replayed(step, first + here),
             next = replayed(step, first + (alone ? here : (here + 1) % replicas));
  if (!own || !next) {
    if (!std::exchange(said_that_nothing_is_replayed_, true) && ranks_.rank() == 0)
      log_warning("guard.replay_every checks nothing: this task cannot prepare a micro-batch a second time");
    return std::nullopt;
  }
  if (alone)
    return *own == *next ? std::nullopt
                         : std::optional<std::string>(fmt::format(
                               "rank {} computed a micro-batch twice and got other bits", ranks_.rank()));
  std::vector<uint64_t> of_own, of_next;
  for (const auto& each : gathered(ranks_, {layout::Axis::kDp}, {*own, *next}, task_.parameters().device())) {
    of_own.push_back(each[0]);
    of_next.push_back(each[1]);
  }
  const detect::Vote vote = detect::vote_in_ring(of_own, of_next);
  if (std::ranges::find(vote.suspects, static_cast<size_t>(here)) == vote.suspects.end()) return std::nullopt;
  return fmt::format("rank {} computed a micro-batch with other bits than another replica{}", ranks_.rank(),
                     vote.majority ? "" : " (one of them is wrong)");
}

void CorruptionChecks::remember_states() {
  remembered_.clear();
  for (const optim::StateTensor& state : optimizer_.state()) remembered_.push_back(content_hash(state.view));
}

std::optional<std::string> CorruptionChecks::remembered_states() {
  const std::vector<uint64_t> before = std::exchange(remembered_, {});
  const auto states = optimizer_.state();
  for (size_t i = 0; i < before.size() && before.size() == states.size(); ++i) {
    if (content_hash(states[i].view) != before[i])
      return fmt::format("{} of {} changed in memory between two updates", states[i].kind, states[i].name);
  }
  return std::nullopt;
}

void CorruptionChecks::states_change() { remembered_.clear(); }

std::optional<std::string> CorruptionChecks::messages() {
  std::optional<std::string> wrong = sums_ ? sums_->wrong() : std::nullopt;
  sums_.reset();
  return wrong;
}

void CorruptionChecks::before_passes(int64_t step) {
  sums_.reset();
  if (ranks_.groups() != nullptr && due(recipe_.guard.replicas_every, step)) sums_.emplace();
}

// Both due on all ranks or on none. Who sees a wrong sum need not be who made it.
void CorruptionChecks::before_update(int64_t step) {
  if (!remembered_.empty()) settle(step, remembered_states());
  if (sums_) settle(step, messages(), false);
}

// Whoever is found out says so, and all end together.
void CorruptionChecks::settle(int64_t step, const std::optional<std::string>& found, bool here) {
  const int64_t worst = ranks_.most(found ? ranks_.rank() + 1 : 0);
  if (worst == 0) return;
  const std::string text =
      found ? *found
            : fmt::format("rank {} was found to compute or to keep wrong numbers: its own events say which",
                          worst - 1);
  if (found || ranks_.rank() == 0)
    events_.write(
        observe::Alarm{.kind = "silent_corruption", .message = fmt::format("step {}: {}", step, text)});
  throw Error({.code = found && here ? ExitCode::kDevice : ExitCode::kCommunication,
               .what = "silent corruption: " + text,
               .where = fmt::format("step {}", step),
               .hint = "test this machine (longhaul diagnose), and start the run without it"});
}

void CorruptionChecks::before_save(int64_t step) {
  if (recipe_.guard.replicas_every == 0 || std::exchange(compared_step_, step) == step) return;
  settle(step, replicas());
}

void CorruptionChecks::behind_step(int64_t step) {
  const recipe::GuardOptions& guard = recipe_.guard;
  if (due(guard.replicas_every, step)) before_save(step);
  const bool states_due = due(guard.states_every, step), products_due = due(guard.products_every, step);
  if (states_due || products_due) {
    std::optional<std::string> found = states_due ? states() : std::nullopt;
    // all ranks together: whatever one has found
    std::optional<std::string> product = products_due ? products(step) : std::nullopt;
    settle(step, found ? found : product);
  }
  if (states_due) remember_states();
  if (due(guard.replay_every, step)) settle(step, replay(step));
}

// An error that happened once has been made good by the second try; the rank that makes another one is not
// trusted any more.
void CorruptionChecks::behind_second_try(int64_t step, const SecondTry& second) {
  if (second.same) return;
  events_.write(observe::Alarm{
      .kind = "silent_corruption",
      .message = fmt::format(
          "step {} was computed twice and came out differently: loss {:.9g} and norm {:.9g} the first time{}",
          step, second.first_loss, second.first_norm,
          second.own_same ? "" : fmt::format("; rank {} has computed another loss", ranks_.rank()))});
  errors_ += second.own_same ? 0 : 1;
  settle(step, errors_ > 1 ? std::optional<std::string>(fmt::format("rank {} computed other numbers {} times",
                                                                    ranks_.rank(), errors_))
                           : std::nullopt);
}

}  // namespace longhaul::train
