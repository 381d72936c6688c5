#include "bench/models/corruption.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "base/clock.h"
#include "base/files/temporary_folder.h"
#include "base/random.h"
#include "base/statistics.h"
#include "bench/models/random_tokens.h"
#include "comm/threads/run_ranks.h"
#include "kernels/linear/product_check.h"
#include "kernels/linear/raw.h"
#include "recipe/load.h"
#include "tensor/random_fill.h"
#include "train/guards/corruption.h"

namespace longhaul::bench {
namespace {

constexpr BitKind kBitKinds[] = {BitKind::kSign, BitKind::kExponent, BitKind::kMantissa};

CorruptionRow::Rate& rate_of(CorruptionRow& row, BitKind kind) {
  return kind == BitKind::kSign ? row.sign : kind == BitKind::kExponent ? row.exponent : row.mantissa;
}

// One number of some tensors, and a bit of it.
struct Flip {
  std::byte* at = nullptr;  // of the least byte
  int64_t bit = 0;
  void turn() const { at[bit / 8] ^= std::byte{1} << (bit % 8); }
};

Flip flip_in(const std::vector<Tensor>& tensors, BitKind kind, std::mt19937_64& dice) {
  int64_t elements = 0;
  for (const Tensor& each : tensors) elements += each.numel();
  auto element = static_cast<int64_t>(dice() % static_cast<uint64_t>(elements));
  size_t which = 0;
  while (element >= tensors[which].numel()) element -= tensors[which++].numel();
  const Tensor& tensor = tensors[which];
  LONGHAUL_ASSERT(tensor.is_contiguous() && tensor.device().is_cpu(), "numbers beside each other");
  const int64_t bits = tensor.element_size() * 8, exponent = bits == 64 ? 11 : 8,
                mantissa = bits - 1 - exponent;
  const auto draw = [&](int64_t below) {
    return static_cast<int64_t>(dice() % static_cast<uint64_t>(below));
  };
  const int64_t bit = kind == BitKind::kSign       ? bits - 1
                      : kind == BitKind::kExponent ? mantissa + draw(exponent)
                                                   : draw(mantissa);
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()) + element * tensor.element_size(), bit};
}

// The same in every run: LibTorch's generator is one for all ranks that are threads, so what each of them
// draws from it is chance.
RandomStream stream_of(const std::string& name) { return {0, "bench/corruption/" + name}; }

std::vector<Tensor> contiguous_states(optim::Optimizer& optimizer, const std::string& kind) {
  std::vector<Tensor> views;
  for (const optim::StateTensor& state : optimizer.state()) {
    if (state.kind == kind && state.view.numel() > 0 && state.view.is_contiguous())
      views.push_back(state.view);
  }
  return views;
}

recipe::Recipe small_recipe() {
  return recipe::load_defaults({"model.layers=2", "model.hidden=64", "model.heads=2", "model.kv_heads=2",
                                "model.head_dim=32", "model.vocabulary=257", "data.tokenizer=bytes",
                                "model.rotary_dim=16", "model.mixers=lightning,softmax",
                                "model.intermediate=96", "train.dtype=bf16", "optim.lr=0.01"})
      .recipe;
}

// The task, whose blocks' outputs a test may spoil behind what has looked at them.
class Spoilt final : public train::Task {
 public:
  Spoilt(const RandomTokensRequest& request, const recipe::ModelConfig& config, const parallel::Ranks& ranks)
      : inner_(request, config, ranks) {}
  std::function<void(const Tensor& output, int64_t block)> spoil;
  int64_t blocks = 0;

  model::ParameterSet& parameters() override { return inner_.parameters(); }
  const Precision& precision() const override { return inner_.precision(); }
  train::StepWork prepare(int64_t step) override { return inner_.prepare(step); }
  bool prepare_of(int64_t step, int64_t replica) override { return inner_.prepare_of(step, replica); }
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override {
    blocks = 0;
    if (context.inspect) {
      context.inspect = [this, look = context.inspect](const std::string& block, const Tensor& output) {
        look(block, output);
        if (spoil) spoil(output, blocks);
        ++blocks;
      };
    }
    return inner_.forward(context, micro_batch, entering);
  }

 private:
  RandomTokens inner_;
};

// One rank's model, trained for a few steps.
struct DrilledRun {
  DrilledRun(comm::Communicator& world, const recipe::Recipe& recipe, const RandomTokensRequest& request,
             const std::filesystem::path& folder)
      : ranks(world, {.mesh = {world.size(), {}}}),
        task(request, recipe.model, ranks),
        optimizer(optim::make_optimizer(recipe.optim, task.parameters(), task.precision())),
        events({.path = folder / fmt::format("{}.jsonl", world.rank()), .rank = world.rank()}),
        checks(recipe, task, *optimizer, ranks, events) {}
  void step(int64_t number, const std::function<void()>& with_gradients = {}) {
    train::run_step(task, *optimizer, ranks, number,
                    {.lr = 0.01, .clip_norm = 1, .with_gradients = with_gradients});
  }
  parallel::Ranks ranks;
  Spoilt task;
  std::unique_ptr<optim::Optimizer> optimizer;
  observe::EventWriter events;
  train::CorruptionChecks checks;
};

// On one of the ranks, drawn by chance, that all agree on.
class Drill {
 public:
  Drill(DrilledRun& trained, const CorruptionRequest& request, Corruption& into, std::mutex& mutex)
      : trained_(trained),
        request_(request),
        into_(into),
        mutex_(mutex),
        dice_(static_cast<uint64_t>(request.seed)) {}

  // `before`: what is flipped on the rank that errs, or does it itself; `find`: the check, on all ranks.
  void run(CorruptionRow row, const std::function<Flip(BitKind)>& before,
           const std::function<std::optional<std::string>()>& find) {
    for (const BitKind kind : kBitKinds) {
      for (int64_t i = 0; i < request_.flips; ++i) {
        const int64_t errs = static_cast<int64_t>(dice_() % static_cast<uint64_t>(request_.ranks));
        const bool here = trained_.ranks.rank() == errs;
        std::optional<Flip> flip;
        if (here) flip = before(kind);
        if (flip && flip->at != nullptr) flip->turn();
        const auto found = find();
        if (flip && flip->at != nullptr) flip->turn();
        count(rate_of(row, kind), found.has_value(), here);
      }
    }
    if (trained_.ranks.rank() != 0) return;
    const std::lock_guard lock(mutex_);
    into_.rows.push_back(std::move(row));
  }
  std::mt19937_64& dice() { return own_dice_; }

 private:
  // The same on all ranks.
  void count(CorruptionRow::Rate& rate, bool found, bool here) {
    const bool named =
        trained_.ranks.most(here && !found ? 1 : 0) == 0 && trained_.ranks.most(!here && found ? 1 : 0) == 0;
    const bool caught = trained_.ranks.most(found ? 1 : 0) == 1;
    ++rate.flips;
    rate.caught += caught ? 1 : 0;
    rate.named += caught && named ? 1 : 0;
  }
  DrilledRun& trained_;
  const CorruptionRequest& request_;
  Corruption& into_;
  std::mutex& mutex_;
  std::mt19937_64 dice_, own_dice_{7};
};

void drill_replicas(DrilledRun& trained, Drill& drill) {
  const auto replicas = [&] { return trained.checks.replicas(); };
  std::vector<Tensor> values;
  for (const auto& parameter : trained.task.parameters().all()) values.push_back(parameter->own_value);
  drill.run(
      {.place = "weights", .dtype = "bf16", .check = "replicas", .by = "replicas"},
      [&](BitKind kind) { return flip_in(values, kind, drill.dice()); }, replicas);
  for (const char* const state : {"master", "m", "v"}) {
    const auto views = contiguous_states(*trained.optimizer, state);
    drill.run(
        {.place = state, .dtype = "fp32", .check = "replicas", .by = "replicas"},
        [&](BitKind kind) { return flip_in(views, kind, drill.dice()); }, replicas);
  }
}

// What nobody has a copy of.
void drill_states(DrilledRun& trained, Drill& drill) {
  const auto states = [&] { return trained.checks.states(); };
  std::vector<Tensor> values;
  for (const auto& parameter : trained.task.parameters().all()) values.push_back(parameter->own_value);
  drill.run(
      {.place = "weights", .dtype = "bf16", .check = "states", .by = "alone"},
      [&](BitKind kind) { return flip_in(values, kind, drill.dice()); }, states);
  for (const char* const state : {"master", "m", "v"}) {
    const auto views = contiguous_states(*trained.optimizer, state);
    drill.run(
        {.place = state, .dtype = "fp32", .check = "states", .by = "alone"},
        [&](BitKind kind) { return flip_in(views, kind, drill.dice()); }, states);
  }
  for (const char* const state : {"master", "m", "v"}) {
    const auto views = contiguous_states(*trained.optimizer, state);
    drill.run(
        {.place = state, .dtype = "fp32", .check = "memory", .by = "hashes"},
        [&](BitKind kind) {
          trained.checks.remember_states();
          return flip_in(views, kind, drill.dice());
        },
        [&] { return trained.checks.remembered_states(); });
  }
}

// The drill damages the result that a sum over the ranks gave one of them; its numbers are of the size of
// gradients, and none is an exact zero.
void drill_messages(DrilledRun& trained, Drill& drill) {
  const int64_t ranks = trained.ranks.world()->size();
  const Tensor own = normal({100'000}, stream_of(fmt::format("message of {}", trained.ranks.rank())), 1e-3);
  const Tensor sums = parallel::block_sums(own), sum = own.clone();
  trained.ranks.world()->all_reduce(sum, comm::Reduction::kSum, {.name = "message"}).wait();
  trained.ranks.world()->all_reduce(sums, comm::Reduction::kSum, {.name = "check of message"}).wait();
  drill.run(
      {.place = "messages", .dtype = "fp32", .check = "messages", .by = "block sums"},
      [&](BitKind kind) { return flip_in({sum}, kind, drill.dice()); },
      [&]() -> std::optional<std::string> {
        return parallel::excess_of_sums(sum, sums, ranks) > 1 ? std::optional<std::string>("wrong")
                                                              : std::nullopt;
      });
}

// A block's output, behind the hash of that block: only what later blocks make of it can tell. Not the last,
// behind which nothing is.
void drill_replay(DrilledRun& trained, Drill& drill) {
  trained.checks.replay(1);  // counts the blocks
  const int64_t blocks = trained.task.blocks;
  std::optional<BitKind> kind;
  int64_t block = 0;
  trained.task.spoil = [&](const Tensor& output, int64_t at) {
    if (!kind || at != block) return;
    flip_in({output.detach()}, *std::exchange(kind, std::nullopt), drill.dice()).turn();
  };
  drill.run(
      {.place = "activations", .dtype = "bf16", .check = "replay", .by = "replicas"},
      [&](BitKind of) {
        kind = of;
        block =
            static_cast<int64_t>(drill.dice()() % static_cast<uint64_t>(std::max<int64_t>(1, blocks - 2)));
        return Flip{};
      },
      [&] { return trained.checks.replay(1); });
  trained.task.spoil = {};
}

// The drill damages one rank's gradient before the sum. The norm of all gradients shows it when it is five
// times what it was, or not finite; then the step is done again.
void drill_gradients(DrilledRun& trained, Drill& drill) {
  std::vector<Tensor> gradients;
  trained.step(100, [&] {
    for (const auto& parameter : trained.task.parameters().all()) {
      if (parameter->trainable()) gradients.push_back(parameter->own_grad.clone());
    }
  });
  const auto norm = [&] {
    double squares = 0;
    for (const Tensor& each : gradients) squares += each.to(at::kDouble).square().sum().item<double>();
    return std::sqrt(squares);
  };
  const double before = norm();
  drill.run(
      {.place = "gradients", .dtype = "fp32", .check = "norm × 5", .by = "alone"},
      [&](BitKind kind) { return flip_in(gradients, kind, drill.dice()); },
      [&]() -> std::optional<std::string> {
        const double now = norm();
        return std::isfinite(now) && now <= 5 * before ? std::nullopt : std::optional<std::string>("larger");
      });
}

void drill_products(Drill& drill) {
  for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Tensor x = normal({32, 256}, stream_of("x")).to(type),
                 weight = normal({384, 256}, stream_of("weight"), 0.05).to(type);
    const Tensor y = kernels::linear_output(x, weight, {});
    const auto check = [&]() -> std::optional<std::string> {
      return kernels::check_product(x, weight, y).good() ? std::nullopt : std::optional<std::string>("wrong");
    };
    const std::string dtype = type == at::kFloat ? "fp32" : "bf16";
    drill.run(
        {.place = "products", .dtype = dtype, .check = "products", .by = "sums"},
        [&](BitKind kind) { return flip_in({y}, kind, drill.dice()); }, check);
  }
}

int64_t false_alarms(DrilledRun& trained) {
  int64_t found = 0;
  for (int64_t step = 1; step <= 10; ++step) {
    const parallel::CheckedSums sums;
    trained.step(step);
    found += trained.ranks.most(sums.wrong() || sums.checked() == 0 ? 1 : 0);
    for (const auto& each : {trained.checks.replicas(), trained.checks.states(),
                             trained.checks.products(step), trained.checks.replay(step)}) {
      found += trained.ranks.most(each ? 1 : 0);
    }
    trained.checks.remember_states();
    found += trained.ranks.most(trained.checks.remembered_states() ? 1 : 0);
  }
  return found;
}

std::vector<CorruptionCost> costs_of(const CorruptionRequest& request, const std::filesystem::path& folder) {
  const recipe::Recipe recipe =
      recipe::load_defaults({"model.preset=" + request.preset, "train.dtype=bf16"}).recipe;
  std::vector<CorruptionCost> costs{{"replicas"}, {"states"}, {"products"},
                                    {"replay"},   {"memory"}, {"messages"}};
  comm::run_ranks(2, [&](comm::Communicator& world) {
    DrilledRun trained(world, recipe, {.batch = 8, .micro_batch = 2, .sequence = 256}, folder);
    std::vector<std::vector<double>> times(costs.size());
    std::vector<double> steps;
    const auto timed = [&](const auto& work) {
      world.barrier({.name = "turn"}).wait();
      const Stopwatch watch;
      work();
      world.barrier({.name = "turn"}).wait();
      return watch.milliseconds();
    };
    for (int64_t turn = 0; turn <= request.turns; ++turn) {
      const double step = timed([&] { trained.step(turn + 1); });
      const double of[] = {timed([&] { trained.checks.replicas(); }),
                           timed([&] { trained.checks.states(); }),
                           timed([&] { trained.checks.products(turn); }),
                           timed([&] { trained.checks.replay(turn + 1); }),
                           timed([&] {
                             trained.checks.remember_states();
                             trained.checks.remembered_states();
                           }),
                           timed([&] {
                             const parallel::CheckedSums sums;
                             trained.step(turn + 1);
                           }) - step};  // two steps' difference: noisy
      if (turn == 0) continue;          // memory is taken, weights are packed
      steps.push_back(step);
      for (size_t i = 0; i < times.size(); ++i) times[i].push_back(of[i]);
    }
    if (world.rank() != 0) return;
    for (size_t i = 0; i < times.size(); ++i) {
      costs[i].milliseconds = median(times[i]);
      costs[i].step_milliseconds = median(steps);
    }
  });
  return costs;
}

double share(const CorruptionRow::Rate& rate) {
  return rate.flips > 0 ? static_cast<double>(rate.caught) / static_cast<double>(rate.flips) : 0;
}

}  // namespace

Corruption measure_corruption(const CorruptionRequest& request) {
  Corruption measured;
  std::mutex mutex;
  const TemporaryFolder folder;
  const recipe::Recipe recipe = small_recipe();
  const RandomTokensRequest tokens{.batch = request.ranks * 2, .micro_batch = 1, .sequence = 64};
  comm::run_ranks(request.ranks, [&](comm::Communicator& world) {
    DrilledRun trained(world, recipe, tokens, folder.path());
    const int64_t alarms = false_alarms(trained);
    if (world.rank() == 0) measured.false_alarms = alarms;
    Drill drill(trained, request, measured, mutex);
    drill_replicas(trained, drill);
    drill_states(trained, drill);
    drill_replay(trained, drill);
    drill_products(drill);
    drill_messages(trained, drill);
    drill_gradients(trained, drill);
  });
  if (request.turns > 0) {
    std::filesystem::create_directories(folder / "costs");
    measured.costs = costs_of(request, folder / "costs");
  }
  return measured;
}

bool Corruption::good() const {
  return false_alarms == 0 && std::ranges::all_of(rows, [](const CorruptionRow& row) {
           return (row.by != "replicas" && row.by != "hashes" && row.by != "block sums") ||
                  share(row.exponent) >= 0.95;
         });
}

nlohmann::ordered_json to_json(const Corruption& measured) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array(), costs = nlohmann::ordered_json::array();
  const auto of = [](const CorruptionRow::Rate& rate) {
    return nlohmann::ordered_json{{"flips", rate.flips}, {"caught", rate.caught}, {"named", rate.named}};
  };
  for (const CorruptionRow& row : measured.rows) {
    rows.push_back({{"place", row.place},
                    {"dtype", row.dtype},
                    {"check", row.check},
                    {"by", row.by},
                    {"sign", of(row.sign)},
                    {"exponent", of(row.exponent)},
                    {"mantissa", of(row.mantissa)}});
  }
  for (const CorruptionCost& cost : measured.costs) {
    costs.push_back(
        {{"check", cost.check}, {"milliseconds", cost.milliseconds}, {"of_a_step", cost.of_a_step()}});
  }
  return {{"name", "corruption"}, {"false_alarms", measured.false_alarms}, {"rows", rows}, {"costs", costs}};
}

std::vector<observe::Table> tables_of(const Corruption& measured) {
  using observe::Align;
  observe::Table rows(
      fmt::format("one bit flipped: how often a check saw it ({} false alarms)", measured.false_alarms),
      {{"place"},
       {"dtype"},
       {"check"},
       {"goes by"},
       {"exponent", Align::kRight},
       {"sign", Align::kRight},
       {"mantissa", Align::kRight},
       {"rank named", Align::kRight}});
  for (const CorruptionRow& row : measured.rows) {
    const auto percent = [](const CorruptionRow::Rate& rate) {
      return fmt::format("{:.1f} %", share(rate) * 100);
    };
    const int64_t caught = row.sign.caught + row.exponent.caught + row.mantissa.caught;
    const int64_t named = row.sign.named + row.exponent.named + row.mantissa.named;
    rows.row({row.place, row.dtype, row.check, row.by, percent(row.exponent), percent(row.sign),
              percent(row.mantissa),
              caught > 0
                  ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(named) / static_cast<double>(caught))
                  : "-"});
  }
  observe::Table costs("what a check costs beside a step",
                       {{"check"}, {"of a step", Align::kRight}, {"each 100 steps", Align::kRight}});
  for (const CorruptionCost& cost : measured.costs) {
    costs.row({cost.check, fmt::format("{:.1f} %", cost.of_a_step() * 100),
               fmt::format("{:.3f} %", cost.of_a_step())});
  }
  std::vector<observe::Table> tables{std::move(rows)};
  if (!measured.costs.empty()) tables.push_back(std::move(costs));
  return tables;
}

}  // namespace longhaul::bench
