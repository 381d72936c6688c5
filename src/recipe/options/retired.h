// Keys that earlier versions wrote into recipes and checkpoints, and that mean nothing any more. They are read whatever their value is,
// ignored, and warned of once a process. The file format's version stays: what such a key did was no part of the model or of a run's numbers.
#pragma once

#include <string_view>

namespace longhaul::recipe {

struct RetiredKey {
  std::string_view name;
  std::string_view reason;      // completes "… is no option any more and is ignored: "
  bool only_as_switch = false;  // true or false was its value then; it has another meaning with other values
};

inline constexpr RetiredKey kRetiredKeys[] = {
    {"model.chunk", "the recurrence chooses its own blocks"},
    {"train.recompute", "true and false meant nothing", /*only_as_switch=*/true},
};

}  // namespace longhaul::recipe
