// parameters(config): every logical tensor of a model, in the order in which the model uses them: name,
// global shape, role, initialisation and split rule. It is the only such list: modules are built over it, and
// the planner, the checkpoint, the importer and the "does it fit" check read it. Weights are [out, in].
// Names, initialisation and splits: docs/design/parameters.md. Plain data; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/mesh.h"
#include "layout/placement.h"
#include "layout/rectangle.h"
#include "layout/split.h"
#include "recipe/mixers.h"

namespace longhaul::layout {

using recipe::Role;  // purpose of a logical tensor

struct LogicalTensor {
  std::string name;  // "layers.3.mixer.query.weight"
  Shape global_shape;
  Role role = Role::kNorm;
  bool operator==(const LogicalTensor&) const = default;
};

// Init: the initial values with all numbers resolved: ones, zeros, normal(0, std), or those of recipe::Fill.
// For Xavier, std = gain · sqrt(2 / (fan_in + fan_out)).
struct Init {
  enum class Kind {
    kOnes,
    kZeros,
    kNormal,
    kFrequencies,
    kLogRates,
    kSteps,
    kLogRows,
    kMean,
    kTimescales,
    kUniform
  };
  Kind kind = Kind::kZeros;
  double gain = 1;     // DeepNorm's beta, GPT-2's 1/sqrt(2·layers), else 1; already included in std
  int64_t fan_in = 0;  // 0 where std does not depend on fans
  int64_t fan_out = 0;
  double std = 0;  // kUniform: of numbers drawn evenly from ±√3 · std
  bool operator==(const Init&) const = default;
};

enum class SplitOver { kNothing, kTensor, kVocabulary, kExpertTensor };  // tp; tp, by vocabulary rows; etp

struct SplitRule {
  SplitOver over = SplitOver::kNothing;
  int64_t dimension = 0;  // the dimension that is cut
  int64_t unit = 1;       // elements that stay together: head_dim where heads are distributed
  // every rank must get the same number of units (heads: queries must be with their keys)
  bool even = false;
  // A unit serves a group of heads: if there are more ranks than units, the ranks of a group hold copies of
  // the unit (key_copies).
  bool grouped = false;
  int64_t experts = 0;  // > 0: one of this many experts, distributed over ep in runs of experts / ep
  bool operator==(const SplitRule&) const = default;
};

// The matrix beside which an adapter stands (layout/adapters.h).
struct AdapterOf {
  std::string tensor;  // its name; empty: the tensor is no adapter
  Role role = Role::kNorm;
  double scale = 1;  // of what the adapter adds
  bool operator==(const AdapterOf&) const = default;
};

struct ParameterSpec {
  LogicalTensor tensor;
  Init init;
  SplitRule split;
  int64_t layer = -1;   // -1: outside the layers
  int64_t expert = -1;  // -1: not in an expert
  int64_t ahead = -1;   // Index of the module that predicts further ahead (model/decoder.h); -1: in none.
  bool trainable = true;
  bool frozen = false;  // by train.freeze: nothing changes it, and it is not trainable
  // of the task's sets of tensors (layout/parameter_sets.h); empty: the main one
  std::string set;
  std::string drawn_as;                       // the tensor whose initial values it has; empty: its own
  std::vector<int64_t> pipeline_ranks = {0};  // pipeline ranks that use it, ascending (parameters_of)
  // How the tensor grows in a wider model; under muP its initialisation and learning rate follow from it
  // (layout/width.h).
  enum class Width { kVector, kInput, kHidden, kHead };
  Width width = Width::kVector;
  double width_factor = 1;  // width of the model over the base width; 1 without muP
  double lr_factor = 1;     // factor of the learning rate
  // Weight decay applies: to matrices, including embeddings; not to norms, biases and bounds of gates.
  bool decay = false;
  AdapterOf adapter_of;
  int64_t elements() const { return volume(tensor.global_shape); }
  bool operator==(const ParameterSpec&) const = default;
};

// Norms, routers and bounds of gates are kept in the precision of sums, whatever the working precision is
// (docs/sources/minimax-01.md §2.5, §12).
bool kept_wide(const ParameterSpec& spec);

std::vector<ParameterSpec> parameters(const recipe::ModelConfig& config);
// The tensors of a mixer that a task builds beside a decoder, or without one: named `prefix` and what the
// mixer calls them ("tower." and "mixer.query"), with the config's initial values.
std::vector<ParameterSpec> mixer_parameters(const recipe::ModelConfig& config, const std::string& prefix,
                                            std::span<const recipe::MixerTensor> tensors, int64_t layer = -1);

int64_t parameter_count(const recipe::ModelConfig& config);
// The parameters that one token uses: experts_per_token of the experts; without embedding, learned positions
// and head (the definition of the published 45.9B of MiniMax-Text-01). Every number of "parameters used per
// token" is this one.
int64_t activated_elements(const ParameterSpec& spec, const recipe::ModelConfig& config);  // of one tensor
int64_t activated_parameter_count(const recipe::ModelConfig& config);                      // of all tensors

// The pipeline ranks whose modules use a parameter, ascending: those with its layer's stage; a tied embedding
// is used by the first stage and the last.
std::vector<int64_t> pipeline_ranks_of(const ParameterSpec& spec, const recipe::ModelConfig& config,
                                       const Pipeline& pipeline);
// The parameters that the modules of a rank's stages use, with `pipeline_ranks` set.
std::vector<ParameterSpec> parameters_of(const recipe::ModelConfig& config, const MeshRank& place);

// The number of tensor ranks that have the same key head of the model's mixers (when parallel.tp exceeds the
// number of heads): MeshShape::key_copies. 1 where each rank has whole heads of its own, one head serves all,
// or they cannot be distributed; kUsage where two mixers would need different numbers.
int64_t key_copies(const recipe::ModelConfig& config, int64_t tensor_ranks);

// The placement of a parameter's part on pipeline rank `pipeline_rank`. Refuses (kUsage) heads or experts
// that the mesh cannot distribute evenly.
Placement placement_of(const ParameterSpec& spec, const Mesh& mesh, int64_t pipeline_rank = 0);

}  // namespace longhaul::layout
