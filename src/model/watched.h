// Marks where a layer begins and ends, for a ParameterWatch. In the forward pass the watch is called
// immediately. In the backward pass it is called when autograd reaches the tensors that enter and leave the
// layer, which is before and after everything inside the layer. The recomputation of a layer happens between
// the two marks. While a ReplayArena serves the thread, both marks are also cuts of its plan.
#pragma once

#include <initializer_list>

#include "model/parameter.h"

namespace longhaul::model {

// `entering` and `leaving`: all tensors through which gradients leave and enter the layer. Undefined tensors
// and empty lists are allowed.
void begin_layer(ParameterWatch* watch, int64_t layer, std::initializer_list<Tensor*> entering);
void end_layer(ParameterWatch* watch, int64_t layer, std::initializer_list<Tensor*> leaving);

}  // namespace longhaul::model
