// Chat: supervised fine-tuning on conversations. It is next-token training (language/pretrain.h) on data
// whose tokens say what they weigh; the loss of an evaluation is that of the answers. A sample shows the
// model's answer to the beginning of a held-out conversation, or to sample.prompt.
#pragma once

#include "language/pretrain.h"
#include "train/task_entry.h"

namespace longhaul::posttrain {

class Chat final : public language::Pretrain {
 public:
  using Pretrain::Pretrain;
  std::optional<train::TaskSample> sample() override;

 private:
  std::vector<int64_t> question() const;  // what the model is to answer
};

train::TaskEntry chat_entry();

}  // namespace longhaul::posttrain
