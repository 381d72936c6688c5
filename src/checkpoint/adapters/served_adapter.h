// The adapters of a run beside a model that is open, for a server of several (model/served_adapters.h). The
// run was trained beside the same weights: which the tensors that the adapters stand beside show, since its
// checkpoint has them too.
#pragma once

#include <filesystem>

#include "model/decoder.h"

namespace longhaul::checkpoint {

// run: as AdaptedRun::open takes it (a run with [lora], or what `import --adapter` made). Returns the number
// of its adapters in decoder.parameters().served(). kUsage: DoRA, experts, latent attention, a model that is
// of another shape or has adapters itself; kData: a run that was trained beside other weights.
int64_t add_served_adapter(model::Decoder& decoder, const std::filesystem::path& run);

}  // namespace longhaul::checkpoint
