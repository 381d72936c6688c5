// The output of `bench train --by-operator`: where the time of a training step goes, operator by operator.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/operator_clock.h"
#include "tensor/machine_profile.h"

namespace longhaul::bench {

// Times and work of one step on average over `steps`; `rows` are of all of them.
std::string operator_table(const std::vector<kernels::OperatorTime>& rows, int64_t steps,
                           const std::string& dtype, const MachineProfile& peak, bool colours);
nlohmann::ordered_json operators_json(const std::vector<kernels::OperatorTime>& rows, int64_t steps);

}  // namespace longhaul::bench
