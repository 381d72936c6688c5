// parameters(config): every logical tensor of a model, in the order in which the model uses them: name, global shape,
// role, initialisation and split rule. There is no second table: modules are built over this list, and the planner, the
// checkpoint, the importer and the "does it fit" check read it. Weights are [out, in]. Names, initialisation and
// splits: docs/design/parameters.md. Plain data; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/mesh.h"
#include "layout/placement.h"
#include "layout/rectangle.h"
#include "layout/split.h"
#include "recipe/mixers.h"

namespace longhaul::layout {

using recipe::Role;  // what a logical tensor is for

struct LogicalTensor {
  std::string name;  // "layers.3.mixer.query.weight"
  Shape global_shape;
  Role role = Role::kNorm;
  bool operator==(const LogicalTensor&) const = default;
};

// Every number is resolved: fill with ones, zeros, or normal(0, std), or as recipe::Fill says. For Xavier, std = gain · sqrt(2 / (fan_in + fan_out)).
struct Init {
  enum class Kind { kOnes, kZeros, kNormal, kFrequencies, kLogRates, kSteps, kLogRows, kMean, kTimescales };
  Kind kind = Kind::kZeros;
  double gain = 1;     // DeepNorm's beta, GPT-2's 1/sqrt(2·layers), else 1; already inside std
  int64_t fan_in = 0;  // 0 where std does not come from fans
  int64_t fan_out = 0;
  double std = 0;
  bool operator==(const Init&) const = default;
};

enum class SplitOver { kNothing, kTensor, kVocabulary, kExpertTensor };  // tp; tp, by vocabulary rows; etp

struct SplitRule {
  SplitOver over = SplitOver::kNothing;
  int64_t dimension = 0;  // that is cut
  int64_t unit = 1;       // elements that stay together: head_dim where heads are dealt out
  bool even = false;      // every rank must get the same number of units (heads: queries must meet their keys)
  bool grouped = false;  // a unit serves a group of heads: where ranks outnumber the units, those of a group hold copies of it (key_copies)
  int64_t experts = 0;   // > 0: one of this many experts, dealt out over ep in runs of experts / ep
  bool operator==(const SplitRule&) const = default;
};

struct ParameterSpec {
  LogicalTensor tensor;
  Init init;
  SplitRule split;
  int64_t layer = -1;   // -1: outside the layers
  int64_t expert = -1;  // -1: not of an expert
  int64_t ahead = -1;   // of which module that predicts further ahead (model/decoder.h); -1: of none
  bool trainable = true;
  std::vector<int64_t> pipeline_ranks = {0};  // that use it, ascending (parameters_of)
  // How it grows where the model becomes wider, and with it, under muP, what is said of its beginning and learning rate (layout/width.h).
  enum class Width { kVector, kInput, kHidden, kHead };
  Width width = Width::kVector;
  double width_factor = 1;  // of the model, over the base; 1 without muP
  double lr_factor = 1;     // on the learning rate
  bool decay = false;       // weight decay applies: matrices, embeddings among them; not norms, biases and bounds of gates
  int64_t elements() const { return volume(tensor.global_shape); }
  bool operator==(const ParameterSpec&) const = default;
};

// Norms, routers and bounds of gates: in the precision of sums whatever the working precision is (docs/sources/minimax-01.md §2.5, §12).
bool kept_wide(const ParameterSpec& spec);

std::vector<ParameterSpec> parameters(const recipe::ModelConfig& config);

int64_t parameter_count(const recipe::ModelConfig& config);
// What one token passes through: experts_per_token of the experts; without embedding, learned positions and head (the
// definition behind the published 45.9B of MiniMax-Text-01). Every figure of "parameters used per token" is this one.
int64_t activated_elements(const ParameterSpec& spec, const recipe::ModelConfig& config);  // of one tensor
int64_t activated_parameter_count(const recipe::ModelConfig& config);                      // of all

// The ranks of a pipeline whose modules use a parameter, ascending: where its layer's stage lies; a tied embedding is used by the first stage and
// the last.
std::vector<int64_t> pipeline_ranks_of(const ParameterSpec& spec, const recipe::ModelConfig& config, const Pipeline& pipeline);
// Those that the modules of a rank's stages use, `pipeline_ranks` filled in.
std::vector<ParameterSpec> parameters_of(const recipe::ModelConfig& config, const MeshRank& place);

// On how many of so many tensor ranks the model's mixers have the same key head (parallel.tp above their number): MeshShape::key_copies. 1 where each
// has whole ones of its own, one serves all, or they cannot be dealt out; kUsage where two mixers would need different numbers.
int64_t key_copies(const recipe::ModelConfig& config, int64_t tensor_ranks);

// Where the mesh puts what rank `pipeline_rank` of each pipeline holds of a parameter. Refuses (kUsage) heads or experts that
// the mesh cannot deal out evenly.
Placement placement_of(const ParameterSpec& spec, const Mesh& mesh, int64_t pipeline_rank = 0);

}  // namespace longhaul::layout
