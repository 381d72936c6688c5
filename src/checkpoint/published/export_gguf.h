// export_gguf: writes a checkpoint as one GGUF file for llama.cpp: weights in f16 or in blocks of eight bits,
// tokenizer, chat template and what the model computes. Tensors are read, converted and written one at a time
// (experts one by one). The file appears complete or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "storage/gguf.h"

namespace longhaul::checkpoint {

struct GgufReport {
  std::string family, architecture;
  int64_t tensors = 0, bytes = 0, step = 0;
  int64_t narrow = 0;  // tensors of the type that was asked for
  bool tokenizer = false, chat_template = false;
};

// kUsage when llama.cpp has no such model (gguf_names.h) or tokenizer (gguf_tokenizer.h), or the name is
// taken; kNumeric when a weight does not fit into f16.
GgufReport export_gguf(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                       storage::GgufType type,
                       const std::function<void(int64_t done, int64_t total)>& progress = {},
                       const std::string& family = "");

// Blocks of 32 numbers as a scale in f16 and signed bytes: q = round(x / d), d = largest |x| / 127.
void quantize_q8_0(std::span<const float> values, std::span<std::byte> blocks);

}  // namespace longhaul::checkpoint
