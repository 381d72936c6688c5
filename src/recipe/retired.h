// Keys that earlier versions wrote into recipes and checkpoints, and that mean nothing any more. They are read whatever their value is,
// ignored, and warned of once a process. The file format's version stays: what such a key did was no part of the model or of a run's numbers.
#pragma once

#include <string_view>

namespace longhaul::recipe {

struct RetiredKey {
  std::string_view name;
  std::string_view reason;  // completes "… is no option any more and is ignored: "
};

inline constexpr RetiredKey kRetiredKeys[] = {
    {"model.chunk", "the recurrence chooses its own blocks"},
    {"train.recompute", "nothing was ever recomputed"},
};

}  // namespace longhaul::recipe
