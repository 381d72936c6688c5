#include "recipe/sections/optim_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "recipe/optimizers/optimizers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(Schedule) {
  return {"constant",     "linear",     "cosine",    "wsd",
          "inverse_sqrt", "polynomial", "one_cycle", "cosine_restarts"};
}
std::vector<std::string_view> names_of(CycleForm) { return {"cosine", "linear"}; }
std::vector<std::string_view> names_of(WsdFall) {
  return {"exponential", "linear", "cosine", "one_minus_sqrt", "halving"};
}
std::vector<std::string_view> names_of(Rise) { return {"linear", "cosine", "one_minus_sqrt"}; }
std::vector<std::string_view> names_of(LambDecay) { return {"decoupled", "l2"}; }
std::vector<std::string_view> names_of(AdafactorForm) { return {"fairseq", "torch", "big_vision"}; }
std::vector<std::string_view> names_of(MuonScale) { return {"match_rms", "original"}; }
std::vector<std::string_view> names_of(StateDtype) { return {"float32", "bfloat16", "int8"}; }

namespace {

// "sgd 0.9, muon 0.95": what -1 stands for.
std::string published_numbers(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names)
    text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", name, optimizer_entry(name).momentum);
  return text;
}

std::string sentence_of(const OptimizerOption& option) {
  const std::vector<std::string_view> readers = readers_of(option);
  std::string text(option.help);
  if (option.published) text += fmt::format(" ({}).", published_numbers(readers));
  if (readers.size() == optimizers().size()) return text;
  return fmt::format("{}: {}", fmt::join(readers, ", "), text);
}

void declare_option(OptionSet& set, OptimOptions& optim, const OptimizerOption& option) {
  const auto add = [&](auto field) {
    OptionBuilder builder = set.add(fmt::format("optim.{}", option.name), optim.*field, sentence_of(option));
    using Number = std::remove_reference_t<decltype(optim.*field)>;
    if constexpr (std::is_same_v<Number, double> || std::is_same_v<Number, int64_t>) {
      option.above ? builder.above(option.least) : builder.at_least(option.published ? -1 : option.least);
      builder.at_most(option.most);
    }
    return builder;
  };
  OptionBuilder builder = std::visit(add, option.field);
  std::vector<std::string> others;
  for (const std::string_view name : option.also_called) {
    if (!name.empty()) others.emplace_back(name);
  }
  builder.also_called(std::move(others));
  if (option.may_change) builder.may_change();
  if (option.for_comparisons) builder.for_comparisons();
}

// Each option of single optimizers once, in the order of the entries.
void declare_rules(OptionSet& set, OptimOptions& optim) {
  std::set<std::string_view> declared;
  for (const OptimizerEntry* entry : optimizers()) {
    for (const OptimizerOption* option : entry->options) {
      if (declared.insert(option->name).second) declare_option(set, optim, *option);
    }
  }
}

void declare_states(OptionSet& set, OptimOptions& optim) {
  set.add("optim.state_dtype", optim.state_dtype,
          "What an optimizer keeps of every element of a matrix: float32; bfloat16: momenta and first "
          "moments in bf16 with stochastic rounding, "
          "second moments stay fp32; int8: both in 8 bits, by blocks of a row, but for embeddings and small "
          "tensors. On a CPU.");
  set.add("optim.state_block", optim.state_block,
          "int8: elements of a row that share a scale; columns are cut over ranks at its multiples.")
      .at_least(1)
      .at_most(256);
  set.add("optim.state_least", optim.state_least, "int8: tensors with fewer elements keep states in fp32.")
      .unit("elements")
      .at_least(1)
      .at_most(1 << 30);
}

void declare_cycles(OptionSet& set, OptimOptions& optim) {
  set.add("optim.cycle_rise", optim.cycle_rise,
          "one_cycle: share of train.steps after which the learning rate is at its peak.")
      .above(0)
      .at_most(1)
      .also_called({"pct_start"})
      .may_change();
  set.add("optim.cycle_start_divisor", optim.cycle_start_divisor,
          "one_cycle: the first step's learning rate is the peak divided by this.")
      .at_least(1)
      .at_most(1e12)
      .also_called({"div_factor"})
      .may_change();
  set.add("optim.cycle_end_divisor", optim.cycle_end_divisor,
          "one_cycle: the last step's learning rate is the first step's divided by this.")
      .at_least(1)
      .at_most(1e12)
      .also_called({"final_div_factor"})
      .may_change();
  set.add("optim.cycle_form", optim.cycle_form,
          "one_cycle: the learning rate rises and falls along half a cosine, or along a line.")
      .also_called({"anneal_strategy"})
      .may_change();
  set.add("optim.cycle_symmetric", optim.cycle_symmetric,
          "one_cycle: from the peak the learning rate comes back to the first step's in as many steps as it "
          "rose, and then falls to the last step's; false: it falls to the last step's at once.")
      .also_called({"three_phase"})
      .may_change();
  set.add("optim.restart_steps", optim.restart_steps,
          "cosine_restarts: steps of the first cycle, after warm-up; it must be given.")
      .unit("steps")
      .at_least(0)
      .also_called({"T_0"})
      .may_change();
  set.add("optim.restart_factor", optim.restart_factor,
          "cosine_restarts: each cycle is so many times as long as the one before it.")
      .at_least(1)
      .at_most(1000)
      .also_called({"T_mult"})
      .may_change();
}

}  // namespace

void declare(OptionSet& set, OptimStage& stage) {
  set.add("from_step", stage.from_step, "First step of the stage; give this or from_tokens.")
      .unit("steps")
      .at_least(0);
  set.add("from_tokens", stage.from_tokens, "Tokens trained on before the stage begins.")
      .unit("tokens")
      .at_least(0);
  set.add("lr", stage.lr, "Peak learning rate from here on; 0: as before.").at_least(0).at_most(100);
  set.add("batch", stage.batch, "Sequences per optimizer step from here on; 0: as before.")
      .unit("sequences")
      .at_least(0)
      .at_most(1 << 30);
  set.add("sequence", stage.sequence, "Tokens of a sequence from here on; 0: as before.")
      .unit("tokens")
      .at_least(0)
      .at_most(2147483648.0);
}

void declare(OptionSet& set, OptimOptions& optim) {
  std::vector<std::string> names;
  std::string sentence = "The optimizer";
  for (const OptimizerEntry* entry : optimizers()) {
    names.emplace_back(entry->name);
    sentence += fmt::format("{} {} keeps {}", names.size() == 1 ? ":" : ";", entry->name, entry->keeps);
  }
  set.add("optim.name", optim.name, sentence + ".").one_of(names).also_called({"optimizer"});
  set.add("optim.lr", optim.lr, "Peak learning rate.")
      .at_least(0)
      .at_most(100)
      .also_called({"learning_rate", "max_lr"})
      .may_change();
  set.add("optim.average", optim.average,
          "Decay per step of an averaged copy of the trained weights, average = decay · average + (1 − "
          "decay) · weight, that checkpoints "
          "hold beside the weights; 0: none.")
      .at_least(0)
      .at_most(0.999999999)
      .also_called({"ema", "ema_decay"});
  declare_rules(set, optim);
  declare_states(set, optim);
  set.add("optim.weight_decay_from", optim.weight_decay_from,
          "Weight decay before the first step as a fraction of optim.weight_decay, which it reaches at "
          "train.steps; 1: it never changes.")
      .at_least(0)
      .at_most(1e6)
      .may_change();
  set.add("optim.weight_decay_rise", optim.weight_decay_rise,
          "How weight decay comes from there to optim.weight_decay: linear, cosine, or one_minus_sqrt (1 - "
          "sqrt of the share of steps that is left).")
      .may_change();
  set.add("optim.clip_norm", optim.clip_norm, "Gradients are scaled down to this global norm; 0: never.")
      .at_least(0)
      .at_most(1e12)
      .also_called({"grad_clip", "max_grad_norm", "clip"})
      .may_change();
  set.add("optim.warmup_steps", optim.warmup_steps,
          "Steps over which the learning rate rises to its peak, from optim.warmup_from.")
      .unit("steps")
      .at_least(0)
      .also_called({"warmup"})
      .may_change();
  set.add("optim.warmup_from", optim.warmup_from,
          "Learning rate before the first step as a fraction of the peak.")
      .at_least(0)
      .at_most(1)
      .may_change();
  set.add("optim.warmup_rise", optim.warmup_rise,
          "How the learning rate rises: linear, cosine, or one_minus_sqrt (1 - sqrt of the share of steps "
          "that is left).")
      .may_change();
  set.add(
         "optim.schedule", optim.schedule,
         "Learning rate after warm-up: constant; linear, cosine or polynomial down to its final fraction; "
         "wsd (constant, then a fall at the "
         "end); inverse_sqrt (with 1/sqrt(step) from the end of warm-up, to its final fraction at least); "
         "cosine_restarts (down to its final fraction again and again). one_cycle has no warm-up: it goes up "
         "and down once over train.steps.")
      .also_called({"lr_schedule", "lr_decay_style", "scheduler"})
      .may_change();
  set.add("optim.wsd_fall", optim.wsd_fall,
          "wsd: how the learning rate falls to its final fraction over the last decay_steps: exponential, "
          "linear, cosine, one_minus_sqrt (1 - sqrt of the "
          "share that is done), or halving (2 * 0.5^share - 1).")
      .may_change();
  set.add("optim.decay_power", optim.decay_power,
          "polynomial: power of the share of the fall that is left; 1: linear.")
      .above(0)
      .at_most(100)
      .may_change();
  set.add("optim.decay_steps", optim.decay_steps,
          "linear, cosine, polynomial: steps from the end of warm-up to the final rate, 0: until "
          "train.steps. wsd: length of the fall, 0: a tenth of train.steps.")
      .unit("steps")
      .at_least(0)
      .also_called({"lr_decay_steps", "lr_decay_iters"})
      .may_change();
  set.add("optim.final_lr_fraction", optim.final_lr_fraction,
          "Learning rate at the end of the decay as a fraction of the peak.")
      .at_least(0)
      .at_most(1)
      .also_called({"min_lr"})
      .may_change();
  declare_cycles(set, optim);
  set.add_tables("optim.stages", optim.stages,
                 "Stages that change the learning rate, the batch or the length of sequences on the way, for "
                 "example [{ from_tokens = 69000000000, batch = 4096 }]. A run that goes on may have others, "
                 "if the steps before have read the same data.")
      .may_change();
  set.add("optim.batch_growth", optim.batch_growth,
          "The batch doubles where the critical batch, measured by observe.batch_noise_every, is at least "
          "this many times it (1: where it has caught "
          "up); 0: never.")
      .at_least(0)
      .at_most(1e6)
      .may_change();
  set.add("optim.batch_most", optim.batch_most,
          "optim.batch_growth: the batch doubles only while it stays within this.")
      .unit("sequences")
      .at_least(0)
      .at_most(1 << 30)
      .may_change();
  set.add("optim.batch_lr_power", optim.batch_lr_power,
          "optim.batch_growth: with the batch the learning rate grows, by that power of it: 0: not, 0.5: "
          "with its root.")
      .at_least(0)
      .at_most(1)
      .may_change();
  set.add("optim.fresh_states", optim.fresh_states,
          "A run may go on with another optimizer, or other numbers of it: weights and steps stay, its "
          "states begin at zero.")
      .may_change();
  set.add_tables("optim.group", optim.groups,
                 "Other optimizers or numbers for the tensors of some roles, for example [{ tensors = "
                 "[\"embedding\", \"head\"], name = \"adamw\", "
                 "lr_factor = 0.5 }]; the first entry that names a role has it.");
  declare(set, optim.outer);
}

}  // namespace longhaul::recipe
