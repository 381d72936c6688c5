// Keys that earlier versions wrote into recipes and checkpoints and that have no meaning any more. They are
// accepted with any value, ignored, and warned of once per process. The version of the file format does not
// change, because such a key changed neither the model nor the numbers of a run.
#pragma once

#include <string_view>

namespace longhaul::recipe {

struct RetiredKey {
  std::string_view name;
  std::string_view reason;      // completes "… is no option any more and is ignored: "
  bool only_as_switch = false;  // Its value was true or false then; with other values it has another meaning.
};

inline constexpr RetiredKey kRetiredKeys[] = {
    {"model.chunk", "the recurrence chooses its own blocks"},
    {"train.recompute", "true and false meant nothing", /*only_as_switch=*/true},
};

}  // namespace longhaul::recipe
