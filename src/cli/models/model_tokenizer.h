// The tokenizer that a model is used with: the run's own, or the one that the command line names.
#pragma once

#include <string>

#include "checkpoint/open_model.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::cli {

// named: "bytes", the path of a tokenizer.json, or empty for the run's own, which must be the one that the model was trained with; another
// one is taken with a warning. Error (65) when it is not, is missing, or has more entries than the model has rows.
data::Tokenizer tokenizer_for(const checkpoint::OpenModel& model, const std::string& named);

}  // namespace longhaul::cli
