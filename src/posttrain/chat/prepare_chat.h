// prepare_chat: conversations → token shards of whole documents (data/tokens/shard.h) with what each token
// weighs in the loss, once per (files, template, tokenizer, options); later runs find them in the cache by
// that key.
//
// Samples are rendered and encoded in parallel, in batches, and written in order, so the result does not
// depend on threads. A sample is held out by the hash of its content; of equal samples the first is kept, if
// data.remove_copies says so. dataset.json is written last, so an interrupted preparation leaves nothing that
// could be taken for a whole one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokens/dataset.h"
#include "posttrain/chat/answer_ranges.h"
#include "posttrain/chat/chat_options.h"
#include "posttrain/chat/conversation_files.h"
#include "recipe/sections/data_options.h"

namespace longhaul::posttrain {

struct ChatPreparation {
  TemplateUse use;
  const ChatOptions& options;
  const recipe::DataOptions& data;
  int64_t sequence = 0;  // the longest sample has a token more
};

struct ChatSource {
  std::filesystem::path path;
  std::vector<ConversationFile> files;
  int64_t held_out_percent = 0;  // 100: all (a source of data.validation)
  // The prepared sources of data.validation, whose samples are never trained on.
  std::vector<const data::TokenDataset*> validation{};
};

// kData: a row that is no sample (unless data.skip_bad_lines), or nothing to train on.
data::PreparedSource prepare_chat(const ChatSource& source, const ChatPreparation& how,
                                  const std::filesystem::path& cache);

// Calls give(file, line, sample) for each good sample, and bad(file, line, why) for each row that is none.
// `system` as read_sample() has it. Logs which form a file has.
void read_samples(const std::vector<ConversationFile>& files, const std::string& system,
                  const std::function<void(const ConversationFile&, int64_t, ChatSample)>& give,
                  const std::function<void(const ConversationFile&, int64_t, const BadSample&)>& bad);

[[noreturn]] void refuse_sample(const ConversationFile& file, int64_t line, const BadSample& why);

}  // namespace longhaul::posttrain
