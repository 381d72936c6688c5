// mean_hidden: a vector for each text: the mean of the model's final normed hidden states over its tokens, in
// fp32. It is not scaled to length one.
#pragma once

#include <span>
#include <vector>

#include "model/decoder.h"

namespace longhaul::generate {

// [texts, hidden], on the host. One pass reads all texts; each has at least one token.
Tensor mean_hidden(model::Decoder& decoder, std::span<const std::vector<int64_t>> texts);

}  // namespace longhaul::generate
