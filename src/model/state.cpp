#include "model/state.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/scan/op.h"
#include "kernels/short_convolution/op.h"
#include "kernels/toeplitz/op.h"

namespace longhaul::model {

MixerState::MixerState(std::span<const recipe::MixerStateTensor> tensors, const Precision& precision,
                       at::Device device, int64_t tensor_ranks) {
  std::map<std::string, std::vector<int64_t>, std::less<>> of_tokens;
  int64_t values_in_keys = 0;
  for (const recipe::MixerStateTensor& tensor : tensors) {
    std::vector<int64_t> shape = tensor.shape_on(tensor_ranks);
    if (tensor.of_token) {
      of_tokens[tensor.name] = shape;
      values_in_keys += tensor.values;
      continue;
    }
    shape.insert(shape.begin(), 0);
    tensors_[tensor.name] = at::empty(
        shape, at::TensorOptions().dtype(tensor.wide ? precision.reduce : precision.compute).device(device));
  }
  if (of_tokens.empty()) return;
  const auto keys = of_tokens.find("keys"), values = of_tokens.find("values");
  const bool in_keys = values_in_keys > 0;
  LONGHAUL_ASSERT(of_tokens.size() == (in_keys ? 1 : 2) && keys != of_tokens.end() &&
                      (in_keys || values != of_tokens.end()),
                  "what is kept of each token are keys and values, not {} tensors", of_tokens.size());
  keys_values_.emplace(
      kernels::PageSizes{.heads = keys->second.at(0),
                         .key = keys->second.at(1),
                         .value = in_keys ? values_in_keys : values->second.at(1),
                         .values_in_keys = in_keys,
                         .options = at::TensorOptions().dtype(precision.compute).device(device)});
}

const Tensor& MixerState::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  LONGHAUL_ASSERT(found != tensors_.end(), "the mixer's entry lists no state {}", name);
  return found->second;
}

kernels::KeyValueCache& MixerState::keys_values() {
  LONGHAUL_ASSERT(keys_values_.has_value(), "the mixer's entry lists no keys and values");
  return *keys_values_;
}

void MixerState::keep_keys_values_in_int8() {
  kernels::PageSizes sizes = keys_values().pool().sizes();
  LONGHAUL_ASSERT(keys_values().sequences() == 0, "keys and values are there already");
  sizes.int8 = true;
  keys_values_.emplace(sizes);
}

void MixerState::grow(int64_t rows) {
  for (auto& [name, tensor] : tensors_) {
    std::vector<int64_t> shape = tensor.sizes().vec();
    shape[0] = rows;
    const Tensor larger = at::empty(shape, tensor.options());
    larger.narrow(0, 0, tensor.size(0)).copy_(tensor);
    tensor = larger;
  }
  if (keys_values_) keys_values_->grow(rows);
}

void MixerState::clear(int64_t row) {
  for (const auto& [name, tensor] : tensors_) tensor[row].zero_();
  if (keys_values_) keys_values_->clear(row);
}

void MixerState::copy(int64_t from, int64_t to) {
  for (const auto& [name, tensor] : tensors_) tensor[to].copy_(tensor[from]);
  if (keys_values_) keys_values_->copy(from, to);
}

MixerState::Saved MixerState::save(int64_t row) const {
  Saved saved;
  for (const auto& [name, tensor] : tensors_) saved.tensors[name] = tensor[row].clone();
  if (keys_values_) saved.keys_values = keys_values_->save(row);
  return saved;
}

void MixerState::restore(int64_t row, const Saved& saved) {
  for (const auto& [name, tensor] : tensors_) tensor[row].copy_(saved.tensors.at(name));
  if (keys_values_) keys_values_->restore(row, saved.keys_values);
}

int64_t MixerState::row_bytes() const {
  int64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) {
    sum += c10::multiply_integers(tensor.sizes().slice(1)) * static_cast<int64_t>(tensor.element_size());
  }
  return sum;
}

kernels::RecurrenceStates recurrence_of(const MixerRows* state) {
  if (state == nullptr) return {};
  return {state->state.tensor("recurrence"), state->rows};
}

kernels::ConvolutionStates convolution_of(const MixerRows* state, std::string_view name) {
  if (state == nullptr) return {};
  return {state->state.tensor(name), state->rows};
}

kernels::ScanStates scan_of(const MixerRows* state, std::string_view name, std::string_view begun) {
  if (state == nullptr) return {};
  const auto flat = [&](std::string_view which) { return state->state.tensor(which).flatten(1); };
  return {flat(name), state->rows, begun.empty() ? Tensor() : flat(begun)};
}

kernels::ToeplitzStates toeplitz_of(const MixerRows* state) {
  if (state == nullptr) return {};
  return {state->state.tensor("sums"), state->rows};
}

void DecoderState::keep_keys_values_in_int8() {
  const auto refuse = [](std::string what, std::string expected, std::string found) {
    throw Error({.code = ExitCode::kUsage,
                 .what = std::move(what),
                 .expected = std::move(expected),
                 .found = std::move(found),
                 .where = "--kv-cache int8",
                 .hint = "leave --kv-cache out"});
  };
  bool any = false;
  for (const MixerState& layer : layers_) {
    if (layer.pages() == nullptr) continue;
    const kernels::PageSizes& sizes = layer.pages()->pool().sizes();
    any = true;
    if (sizes.values_in_keys)
      refuse("a latent and the key beside it differ in size, and would share one scale of eight bits",
             "softmax attention with keys and values of its own", "latent attention (mla)");
    if (!sizes.options.device().is_cpu())
      refuse("keys and values in eight bits are read on the CPU", "--device cpu",
             sizes.options.device().str());
  }
  if (!any)
    refuse("the model keeps no keys and values: its layers have states that do not grow",
           "a model with softmax attention", "none");
  for (MixerState& layer : layers_) {
    if (layer.pages() != nullptr) layer.keep_keys_values_in_int8();
  }
}

int64_t DecoderState::add() {
  const at::NoGradGuard no_gradient;
  if (free_.empty()) reserve(std::max<int64_t>(1, 2 * static_cast<int64_t>(tokens_.size())));
  const int64_t row = free_.back();
  free_.pop_back();
  tokens_[static_cast<size_t>(row)] = 0;
  for (MixerState& layer : layers_) layer.clear(row);
  return row;
}

void DecoderState::reserve(int64_t rows) {
  const at::NoGradGuard no_gradient;
  const auto had = static_cast<int64_t>(tokens_.size());
  if (rows <= had) return;
  for (MixerState& layer : layers_) layer.grow(rows);
  tokens_.resize(static_cast<size_t>(rows), -1);
  for (int64_t row = rows; row-- > had;) free_.push_back(row);
}

DecoderState::Saved DecoderState::save(int64_t row) const {
  const at::NoGradGuard no_gradient;
  Saved saved{.tokens = tokens(row), .layers = {}};
  for (const MixerState& layer : layers_) saved.layers.push_back(layer.save(row));
  return saved;
}

int64_t DecoderState::restore(const Saved& saved) {
  const at::NoGradGuard no_gradient;
  LONGHAUL_ASSERT(saved.layers.size() == layers_.size());
  const int64_t row = add();
  for (size_t l = 0; l < layers_.size(); ++l) layers_[l].restore(row, saved.layers[l]);
  tokens_[static_cast<size_t>(row)] = saved.tokens;
  return row;
}

int64_t DecoderState::page_bytes_to_append(int64_t row, int64_t tokens) const {
  int64_t sum = 0;
  for (const MixerState& layer : layers_) {
    if (layer.pages() != nullptr)
      sum += layer.pages()->pages_to_append(row, tokens) * layer.pages()->pool().page_bytes();
  }
  return sum;
}

int64_t DecoderState::page_bytes_in_use() const {
  int64_t sum = 0;
  for (const MixerState& layer : layers_) {
    if (layer.pages() != nullptr) sum += layer.pages()->pool().in_use() * layer.pages()->pool().page_bytes();
  }
  return sum;
}

void DecoderState::release_free_pages() {
  for (MixerState& layer : layers_) {
    if (layer.pages() != nullptr) layer.keys_values().release_free_pages();
  }
}

int64_t DecoderState::fork(int64_t row) {
  const at::NoGradGuard no_gradient;
  const int64_t seen = tokens(row), twin = add();
  for (MixerState& layer : layers_) layer.copy(row, twin);
  tokens_[static_cast<size_t>(twin)] = seen;
  return twin;
}

void DecoderState::drop(int64_t row) {
  LONGHAUL_ASSERT(tokens(row) >= 0);
  tokens_[static_cast<size_t>(row)] = -1;
  free_.push_back(row);
  for (MixerState& layer : layers_) {
    if (layer.pages() != nullptr) layer.keys_values().clear(row);  // for others to use
  }
}

int64_t DecoderState::tokens(int64_t row) const {
  const int64_t seen =
      row >= 0 && row < static_cast<int64_t>(tokens_.size()) ? tokens_[static_cast<size_t>(row)] : -1;
  LONGHAUL_ASSERT(seen >= 0, "row {} holds no sequence", row);
  return seen;
}

int64_t DecoderState::row_bytes() const {
  int64_t sum = 0;
  for (const MixerState& layer : layers_) sum += layer.row_bytes();
  return sum;
}

int64_t DecoderState::page_bytes() const {
  int64_t sum = 0;
  for (const MixerState& layer : layers_)
    sum += layer.pages() != nullptr ? layer.pages()->pool().page_bytes() : 0;
  return sum;
}

int64_t DecoderState::bytes() const {
  int64_t sum = static_cast<int64_t>(tokens_.size()) * row_bytes();
  for (const MixerState& layer : layers_) sum += layer.pages() != nullptr ? layer.pages()->pool().bytes() : 0;
  return sum;
}

void DecoderState::advance(int64_t row, int64_t count) {
  tokens_[static_cast<size_t>(row)] = tokens(row) + count;
}

}  // namespace longhaul::model
