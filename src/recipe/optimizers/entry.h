// OptimizerEntry: everything about an optimizer that needs no tensor. Each entry is in a file of its own
// beside this one, and is listed once, in optimizers.cpp. All other code asks the entry, and none
// distinguishes optimizers by name:
//
//   recipe   optim.name, the options of single optimizers, optim.group, unread options, refusals
//   plan     bytes of states, memory of a step (plan/memory/update_memory.h); layout: muP
//   optim    which states exist; makes the optimizer by the list in optim/optimizer.cpp
//   kernels  the operator optimizer_step for Python: its options, states and checks
//
// The room knows only plain data, because the operators' library (torch_ops) holds it and links nothing but
// LibTorch. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recipe/sections/optim_options.h"

namespace longhaul::recipe {

// OptimizerOption: an option of [optim] that not every optimizer reads. Its default is the initial value of
// the field.
struct OptimizerOption {
  using Field =
      std::variant<double OptimOptions::*, int64_t OptimOptions::*, bool OptimOptions::*,
                   LambDecay OptimOptions::*, AdafactorForm OptimOptions::*, MuonScale OptimOptions::*>;
  std::string_view name;  // in [optim]: "beta1"
  Field field;
  // Its sentence in the reference, before which the optimizers that read it are named: "decay of …".
  std::string_view help;
  double least = 0, most = 1;  // of a number; of an enumeration: of its values
  bool above = false;          // `least` itself is refused
  bool published = false;      // −1 is allowed too, and stands for the entry's own number (momentum)
  bool may_change = false, for_comparisons = false;
  std::array<std::string_view, 2> also_called{};                                         // in other programs
  bool whole() const { return !std::holds_alternative<double OptimOptions::*>(field); }  // 0, 1, …
};

// OptimizerState: a state in addition to the master weight. States of every element may be narrow, as
// optim.state_dtype says of first and of second moments; all others stay wide.
struct OptimizerState {
  enum class Of {
    kFirstMoment,   // of every element: a momentum or a first moment
    kSecondMoment,  // of every element
    kRows,          // a number of each row of a matrix; other tensors have none
    kColumns,       // likewise of each column
    kVector         // of every element of a tensor that is no matrix: its second moment
  };
  std::string_view kind;  // in checkpoints: "m"
  Of of = Of::kFirstMoment;
  bool with_momentum = false;  // it exists only where the momentum is above 0
  bool of_elements() const { return of == Of::kFirstMoment || of == Of::kSecondMoment; }
};

// How an optimizer's step changes as a matrix becomes wider; its muP factors follow from it (layout/width.h).
// kElements: every element moves by about the rate, whatever the gradient's size. kGradient: by the gradient
// times the rate. kSpectral: the update's spectral norm is the rate. kRootOfElements: it is the rate times
// the square root of the width.
enum class WidthRule { kUnknown, kElements, kGradient, kSpectral, kRootOfElements };

// OptimizerRefusal: numbers that an optimizer cannot work with.
struct OptimizerRefusal {
  std::string_view option, with;  // of [optim]: the one that is refused, and the one that forbids it
  std::string_view reason;        // "torch's form of adafactor has no momentum"
  std::string_view expected;      // "0"
};

struct OptimizerEntry {
  std::string_view name;   // optim.name
  std::string_view keeps;  // what it stores for every tensor, for the option's sentence
  // The options that it reads, in the order in which optimizer_step takes their numbers.
  std::span<const OptimizerOption* const> options;
  std::span<const OptimizerState> states;
  double momentum = 0;  // as published: the meaning of optim.momentum = -1
  // The step of an element depends on that element only, so that no cut of a tensor changes any bit.
  bool of_elements = false;
  // Its step needs whole matrices, so that one of the ranks that share a matrix gathers it (optim/optimizers/
  // muon.h). It takes matrices of layers only; the other tensors have the optimizer `beside`.
  bool whole_matrices = false;
  std::string_view beside{};
  // Its steps are in proportion to the weights of their tensor already.
  bool scales_to_weights = false;
  WidthRule (*width_rule)(const OptimOptions&) = nullptr;  // null: it is unknown
  std::string_view width_hint = "optim.name=adamw";        // what to type where it is unknown
  std::optional<OptimizerRefusal> (*refusal)(const OptimOptions&) = nullptr;
};

}  // namespace longhaul::recipe
