// A picture of planned addresses: time goes to the right, addresses go up, and each tensor is a rectangle, as
// SVG. The line is the most that lives at one time, which no plan comes below.
#pragma once

#include <span>
#include <string>

#include "plan/memory/addresses/address_plan.h"

namespace longhaul::plan {

// cuts: times at which layers begin and end, drawn as thin lines. The largest tensors, if there are too many.
std::string address_picture(std::span<const TensorLife> requests, const AddressPlan& plan,
                            std::span<const int64_t> cuts);

}  // namespace longhaul::plan
