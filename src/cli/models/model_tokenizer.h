// The tokenizer that a model is used with: the run's own, or the one named on the command line.
#pragma once

#include <string>

#include "checkpoint/open_model.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::cli {

// named: "bytes", the path of a tokenizer.json, or empty for the run's own, which must be the one that the
// model was trained with. A different tokenizer that is named is accepted with a warning. Error (65) when
// the run's own is not the trained one, or a tokenizer is missing or has no use for the model's rows
// (data/tokens/row_check.h).
data::Tokenizer tokenizer_for(const checkpoint::OpenModel& model, const std::string& named);

}  // namespace longhaul::cli
