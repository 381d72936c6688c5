// What happens around a layer for whoever watches its parameters (ParameterWatch): told at once in the forward pass; in the backward pass by the
// tensors on the layer's way in and out, which autograd meets before and behind everything of the layer. A layer that is recomputed is so
// between the two.
#pragma once

#include <initializer_list>

#include "model/parameter.h"

namespace longhaul::model {

// `entering`, `leaving`: all that leads gradients out of the layer and into it; undefined ones and none are passed over.
void begin_layer(ParameterWatch* watch, int64_t layer, std::initializer_list<Tensor*> entering);
void end_layer(ParameterWatch* watch, int64_t layer, std::initializer_list<Tensor*> leaving);

}  // namespace longhaul::model
