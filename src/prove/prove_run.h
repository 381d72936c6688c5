// A proof's run on one rank: a few optimizer steps, and a record of their results on this rank (prove.h
// compares the records).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "layout/rectangle.h"
#include "prove/prove_layouts.h"
#include "prove/prove_task.h"

namespace longhaul::prove {

inline constexpr int64_t kProofSteps = 3, kProofSavedStep = 2;
// In bf16 a second step shows the effects of the first update; later steps drift apart (prove.h).
inline int64_t proof_steps(std::string_view dtype) { return dtype == "bf16" ? 2 : kProofSteps; }

// A box of a logical tensor, in fp64.
struct HeldBox {
  std::string name;
  layout::Rectangle box;
  Tensor values;
};

// The results of a rank: the loss and the norm of each step, the gradients of the first, the parameters after
// the last. The masters, which ranks share, are recorded at the start, after the first step, and after the
// last in the precision of the parameters.
struct Seen {
  std::vector<double> losses, norms;
  std::vector<HeldBox> gradients, parameters, start, masters, rounded;
};

// The results of steps from the first one on, and of the last step taken from a checkpoint.
struct SeenTwice {
  Seen whole, resumed;
};

struct ProofSubject {
  recipe::ModelConfig config;
  recipe::OptimOptions optim;
  std::string dtype;
  ProofLayout layout;  // of_small
  int64_t rows = 8;    // of a step
};

// The recipe's model made small for the layout's ranks.
ProofSubject subject_of(const recipe::ModelConfig& model, const recipe::OptimOptions& optim,
                        const ProofLayout& layout, const std::string& dtype = "fp64");

// Folders of checkpoints.
struct ProofCheckpoints {
  std::filesystem::path earlier;  // to go on from
  std::filesystem::path own;      // to save to
};

// The results of a single process; saves to the folder after kProofSavedStep, where one is given.
Seen prove_alone(const ProofSubject& subject, const std::optional<std::filesystem::path>& save_to);

// The results of this rank; without checkpoints nothing is saved or resumed.
SeenTwice prove_rank(const ProofSubject& subject, comm::Communicator& world,
                     const std::optional<ProofCheckpoints>& checkpoints);

}  // namespace longhaul::prove
