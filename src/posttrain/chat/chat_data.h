// The data of train.task = "chat": the conversations of data.source and data.validation as token shards, the
// tokenizer, and the chat template with which they were written.
#pragma once

#include "train/task_entry.h"

namespace longhaul::posttrain {

// Shows three samples unless request.quiet. kUsage, kData: see find_format() and prepare_chat().
data::RunData open_chat_data(const train::DataRequest& request);

}  // namespace longhaul::posttrain
