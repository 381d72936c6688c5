// The tensors of adapters ([lora], recipe/architecture/adapters.h) in the list of a model's parameters.
// Behind each targeted matrix NAME.weight [out, in] stand
//
//   NAME.lora_a.weight [rank, in]        drawn evenly from ±1/√in: Kaiming's rule with √5, as PEFT has it
//   NAME.lora_b.weight [out, rank]       zeros: training begins with the model as it was
//   NAME.lora_magnitude.weight [out]     DoRA: what is added to the length of each row of the weight; zeros
//
// and every other tensor is frozen. A cut of the matrix over ranks goes on in the adapter: of its rows in B,
// of its columns in A; the other one lies whole on each rank. Then the product of each rank is its part of
// the adapted product, as that of the matrix is, and gradients of the whole one are sums over the ranks.
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layout/parameters.h"

namespace longhaul::layout {

// "layers.0.mixer.query.lora_a.weight" of "layers.0.mixer.query.weight"
std::string adapter_down_name(std::string_view tensor);
std::string adapter_up_name(std::string_view tensor);
std::string adapter_magnitude_name(std::string_view tensor);
bool is_adapter_name(std::string_view tensor);
std::string last_word(std::string_view tensor);  // "query" of "layers.0.mixer.query.weight"

// a matrix of a linear layer: no table, router or convolution
bool can_be_adapted(const ParameterSpec& spec);
bool is_adapted(const recipe::AdapterOptions& options, const ParameterSpec& spec);

// Freezes the tensors of the list and puts the adapters into it.
void add_adapters(std::vector<ParameterSpec>& list, const recipe::AdapterOptions& options);

// list: all tensors of a model, with adapters. Throws kUsage for a pattern of lora.targets that fits no
// matrix that can have an adapter, with the names that are near.
void require_adaptable(const std::vector<ParameterSpec>& list, const recipe::AdapterOptions& options);

}  // namespace longhaul::layout
