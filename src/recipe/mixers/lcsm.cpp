#include "recipe/mixers/lcsm.h"

#include <algorithm>
#include <utility>

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_lcsm(OptionSet& set, ModelConfig& model) {
  LcsmOptions& own = model.lcsm;
  set.add("model.lcsm.state", own.state,
          "Rows of the memory of lcsm layers, each with a number for every channel.")
      .unit("rows")
      .at_least(1)
      .at_most(1 << 12)
      .also_called({"expand_dim"});
  set.add("model.lcsm.expand", own.expand,
          "Where lcsm layers take what a token's channels are multiplied by as they enter the rows of the "
          "memory.");
  set.add("model.lcsm.shrink", own.shrink,
          "Where lcsm layers take what the rows of the memory are multiplied by as they are read.");
  set.add("model.lcsm.oscillation", own.oscillation,
          "What the memory of lcsm layers is multiplied by at every token: the published types 0 to 12 in "
          "order, then Mamba's.")
      .for_comparisons();
  set.add("model.lcsm.activation", own.activation, "Activation of expand and shrink in lcsm layers.");
  set.add("model.lcsm.tau", own.tau,
          "Oscillations of lcsm layers are sigmoid(z)^(1/tau). 0: fixed slopes, times sigmoid(z) where they "
          "depend on the input.")
      .at_least(0)
      .at_most(1e6);
  set.add("model.lcsm.rank", own.rank,
          "Inner channels of the matrices that make the steps of lcsm layers with oscillation = state_space.")
      .unit("channels")
      .at_least(1)
      .at_most(1 << 14);
  set.add("model.lcsm.norm_eps", own.norm_eps,
          "Added to the variance inside the layer norm of an lcsm layer.")
      .above(0)
      .at_most(1);
}

void check_lcsm(const ModelConfig& model, std::vector<Problem>& out) {
  using enum LcsmOscillation;
  const LcsmOptions& own = model.lcsm;
  const bool products = own.oscillation == kInputKeyMatrix || own.oscillation == kInputValueMatrix ||
                        own.oscillation == kInputValueKey || own.oscillation == kInputKeyValue;
  if (products && own.tau == 0) {
    out.push_back({{"model.lcsm.tau", "model.lcsm.oscillation"},
                   "model.lcsm.tau = 0 are fixed slopes, which model.lcsm.oscillation = " +
                       std::string(name_of_value(own.oscillation)) + " has not",
                   "model.lcsm.tau=16"});
  }
  const bool of_input = own.expand == LcsmSource::kInput && own.shrink == LcsmSource::kInput;
  if ((own.oscillation == kRotation || own.oscillation == kCumulative || own.oscillation == kStateSpace) &&
      !of_input) {
    out.push_back({{"model.lcsm.expand", "model.lcsm.shrink", "model.lcsm.oscillation"},
                   fmt::format("model.lcsm.oscillation = {} is for expand and shrink from the input",
                               name_of_value(own.oscillation)),
                   "model.lcsm.expand=input model.lcsm.shrink=input"});
  }
}

int64_t channels_of(const ModelConfig& model) { return model.heads * model.head_dim; }

OperatorSizes lcsm_operators(const ModelConfig& model) {
  const int64_t channels = channels_of(model), rows = model.lcsm.rows();
  if (model.lcsm.by_rows()) return {.recurrence = {.heads = 1, .key = rows, .value = channels}};
  return {.recurrence = {.heads = channels,
                         .key = rows,
                         .value = 1,
                         .sums_beside = model.lcsm.oscillation == LcsmOscillation::kCumulative}};
}

MixerTensor numbers(MixerTensor tensor, Fill fill) {
  tensor.role = Role::kCoefficient;
  tensor.fill = fill;
  return tensor;
}

// A number for every row, one for every channel, or both.
MixerTensor numbers_of(const char* name, const ModelConfig& model, LcsmOptions::Shape shape, Fill fill) {
  const LcsmOscillation oscillation = model.lcsm.oscillation;
  const bool of_channels =
      oscillation == LcsmOscillation::kValue || oscillation == LcsmOscillation::kInputKeyValue;
  if (shape.in > 0)
    return numbers(head_columns(name, Role::kCoefficient, shape.out, model.heads, model.head_dim), fill);
  if (of_channels) return numbers(head_vector(name, Role::kCoefficient, model.heads, model.head_dim), fill);
  return numbers({.name = name, .out = shape.out}, fill);
}

// Channels are distributed over tensor ranks, in heads. Tensors of the memory's rows serve all channels:
// every rank has them whole and computes them itself, and their gradient is a sum over the ranks.
std::vector<MixerTensor> lcsm_tensors(const ModelConfig& model) {
  const LcsmOptions& own = model.lcsm;
  const bool steps = own.oscillation == LcsmOscillation::kStateSpace;
  const auto of_channels = [&](const char* name, Role role, int64_t in) {
    return head_rows(name, role, model.heads, model.head_dim, in);
  };
  std::vector<MixerTensor> tensors{of_channels("mixer.input", Role::kValue, model.hidden)};
  if (own.value_logits() && !steps)
    tensors.push_back(below(of_channels("mixer.forget_value", Role::kForget, model.hidden)));
  bool first = true;
  const auto whole = [&](const char* name, Role role, int64_t out) {
    MixerTensor tensor{.name = name, .role = role, .out = out, .in = model.hidden};
    tensors.push_back(std::exchange(first, false) ? tensor : below(tensor));
  };
  if (own.expand == LcsmSource::kInput) whole("mixer.expand", Role::kKey, own.state);
  if (own.shrink == LcsmSource::kInput) whole("mixer.shrink", Role::kQuery, own.state);
  if (own.key_logits()) whole("mixer.forget_key", Role::kForget, own.state);
  if (steps) whole("mixer.step_down", Role::kForget, own.rank);
  if (steps) tensors.push_back(of_channels("mixer.forget_value", Role::kForget, own.rank));
  const LcsmOptions::Shape memory{own.state, channels_of(model)};
  if (own.expand == LcsmSource::kFixed)
    tensors.push_back(numbers_of("mixer.expand", model, memory, Fill::kTenths));
  if (own.shrink == LcsmSource::kFixed)
    tensors.push_back(numbers_of("mixer.shrink", model, memory, Fill::kTenths));
  if (const auto shape = own.parameter(channels_of(model)); shape.out > 0)
    tensors.push_back(numbers_of("mixer.oscillation", model, shape, steps ? Fill::kLogRows : Fill::kTenths));
  tensors.push_back(head_vector("mixer.norm", Role::kNorm, model.heads, model.head_dim));
  tensors.push_back(numbers(head_vector("mixer.norm_shift", Role::kCoefficient, model.heads, model.head_dim),
                            Fill::kZeros));
  tensors.push_back(head_columns("mixer.output", Role::kOutput, model.hidden, model.heads, model.head_dim));
  return tensors;
}

std::vector<MixerStateTensor> lcsm_state(const ModelConfig& model) {
  const RecurrenceSizes sizes = lcsm_operators(model).recurrence;
  std::vector<MixerStateTensor> state = state_of(sizes);
  if (model.lcsm.by_rows()) state.front().cut = 2;  // its channels
  if (model.lcsm.oscillation == LcsmOscillation::kCumulative)
    state.push_back({.name = "sums", .shape = {1, 1, model.lcsm.state}, .wide = true, .cut = -1});
  return state;
}

// Decays that are a product over row and channel exist as logits, as the values that their gradient needs,
// and as themselves.
int64_t decays_kept(const LcsmOptions& own) {
  using enum LcsmOscillation;
  if (own.oscillation == kNone || own.oscillation == kRotation) return 0;
  return own.oscillation == kInputBoth || own.oscillation == kInputValue || own.oscillation == kMatrix ||
                 own.oscillation == kValue
             ? 1
             : 3;
}

BlockMemory lcsm_memory(const ModelConfig& model, const BlockSizes& size) {
  const LcsmOptions& own = model.lcsm;
  const int64_t channels = channels_of(model);
  const double v = size.channels(channels), row = size.channels(own.state);
  const double made = v + (own.expand == LcsmSource::kInput ? row : 0) +
                      (own.shrink == LcsmSource::kInput ? row : 0) + (own.key_logits() ? row : 0) +
                      (own.value_logits() ? v : 0);
  // Entries that the recurrence reads per token.
  const int64_t entries = own.rows() * (own.by_rows() ? 1 : channels);
  const double operands = size.channels(entries),
               decays = size.tokens * static_cast<double>(entries) * size.wide;
  const double logits = own.by_rows() && size.element == size.wide ? 1 : 0;  // not copied
  const double ends = size.documents * static_cast<double>(own.rows() * channels) * size.wide;
  // Products, queries and keys, decays; y, the normalised y and its statistics.
  return {
      .kept = made + 2 * operands + (static_cast<double>(decays_kept(own)) - logits) * decays + 2 * v +
              2 * size.tokens * size.wide + size.states,
      // The norm; then the recurrence.
      .backward = size.hidden + std::max(v + size.norm_sums(2 * channels), 2 * operands + decays + ends),
      .cheap = v,  // the normed y
      .again = size.hidden + std::max(2 * v + size.norm_sums(2 * channels), v + 2 * operands + decays + ends),
      .evaluation = made + 2 * operands + 2 * decays + 2 * v + ends + 2 * size.hidden};
}

}  // namespace

bool LcsmOptions::by_rows() const {
  using enum LcsmOscillation;
  const bool of_rows = oscillation == kInputKey || oscillation == kKey || oscillation == kNone ||
                       oscillation == kRotation || oscillation == kCumulative;
  return of_rows && expand == LcsmSource::kInput && shrink == LcsmSource::kInput;
}

bool LcsmOptions::key_logits() const {
  using enum LcsmOscillation;
  return oscillation == kInputBoth || oscillation == kInputKey || oscillation == kInputKeyMatrix ||
         oscillation == kInputKeyValue || oscillation == kCumulative;
}

bool LcsmOptions::value_logits() const {
  using enum LcsmOscillation;
  return oscillation == kInputBoth || oscillation == kInputValue || oscillation == kInputValueMatrix ||
         oscillation == kInputValueKey || oscillation == kStateSpace;
}

LcsmOptions::Shape LcsmOptions::parameter(int64_t channels) const {
  using enum LcsmOscillation;
  switch (oscillation) {
    case kMatrix:
      return tau > 0 ? Shape{state, channels} : Shape{};
    case kInputKeyMatrix:
    case kInputValueMatrix:
    case kStateSpace:
      return {state, channels};
    case kKey:
      return tau > 0 ? Shape{state} : Shape{};
    case kInputValueKey:
      return {state};
    case kValue:
      return tau > 0 ? Shape{channels} : Shape{};
    case kInputKeyValue:
      return {channels};
    default:
      return {};
  }
}

std::vector<std::string_view> names_of(LcsmSource) { return {"input", "fixed"}; }
std::vector<std::string_view> names_of(LcsmOscillation) {
  return {"matrix", "input_both",       "input_value",        "input_key",       "key",
          "value",  "input_key_matrix", "input_value_matrix", "input_value_key", "input_key_value",
          "none",   "rotation",         "cumulative",         "state_space"};
}
std::vector<std::string_view> names_of(LcsmActivation) {
  return {"none", "relu", "sigmoid", "one_plus_elu", "silu", "elu", "squared_relu", "square"};
}

constinit const SequenceMixerEntry kLcsmMixer{.name = "lcsm",
                                              .declare = declare_lcsm,
                                              .check = check_lcsm,
                                              .operators = lcsm_operators,
                                              .tensors = lcsm_tensors,
                                              .state = lcsm_state,
                                              .memory = lcsm_memory};

}  // namespace longhaul::recipe
