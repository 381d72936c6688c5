// Tensors that keep their values in training: those whose names fit a pattern of train.freeze
// (base/text/glob.h). A frozen tensor has no gradient and no optimizer state; the gradient of what it is
// multiplied with flows on. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "layout/parameters.h"

namespace longhaul::layout {

bool is_frozen(const std::vector<std::string>& patterns, const std::string& tensor);
// Marks the tensors of the list. A pattern may fit none of them, since the list may be that of one stage.
void freeze(std::vector<ParameterSpec>& list, const std::vector<std::string>& patterns);

// Names that a mistyped pattern may have meant: the nearest spelling, and a few that begin in the same way.
std::string near_names(const std::vector<ParameterSpec>& list, const std::string& pattern);

// list: all tensors of a model. Throws kUsage for a pattern that fits none of them, with the names that are
// near, and where nothing is left that trains.
void require_freezable(const std::vector<ParameterSpec>& list, const std::vector<std::string>& patterns);
// The tensors of one matrix product: kUsage, with the names that are missing, where only some are frozen.
void require_frozen_together(const std::vector<ParameterSpec>& of_product);

// Which products of the passes a tensor takes part in. The gradient of its input is computed where anything
// that comes before it in the model trains, and that of its own values where it trains.
struct TensorPasses {
  bool input_gradient = true, own_gradient = true;
  // Products of the size of the tensor, for one of the forward pass.
  int64_t products() const { return 1 + (input_gradient ? 1 : 0) + (own_gradient ? 1 : 0); }
};
// For each tensor of a list in the order of use. Projections of one mixer's input have the same input.
std::vector<TensorPasses> tensor_passes(const std::vector<ParameterSpec>& list);

// The first layer that is part of the backward pass: 0 where anything in it or before the layers trains;
// `layers` where only what comes after them does.
int64_t first_layer_backward(const std::vector<ParameterSpec>& list, int64_t layers);

}  // namespace longhaul::layout
