#include "checkpoint/published/export_gguf.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "checkpoint/published/exported.h"
#include "checkpoint/published/gguf_names.h"
#include "checkpoint/published/gguf_tokenizer.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/saved_recipe.h"
#include "optim/schedule.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;
using storage::GgufType;

namespace {

constexpr double kLargestHalf = 65504;

[[noreturn]] void refuse_large(const std::string& name, double largest, const char* type) {
  throw Error({.code = ExitCode::kNumeric,
               .what = "a weight does not fit into the file's numbers",
               .expected = fmt::format("finite numbers up to {} for {}", kLargestHalf, type),
               .found = fmt::format("{} in {}", largest, name),
               .where = "--gguf",
               .hint = "export CKPT --out DIR --dtype fp32 keeps it"});
}

// (j, j + d/2) of each head become neighbours.
Tensor in_pairs(const Tensor& tensor, int64_t heads) {
  const int64_t half = tensor.size(0) / heads / 2;
  std::vector<int64_t> shape{heads, 2, half};
  shape.insert(shape.end(), tensor.sizes().begin() + 1, tensor.sizes().end());
  return tensor.reshape(shape).transpose(1, 2).reshape(tensor.sizes());
}

Tensor ordered(const Tensor& tensor, const GgufPart& part) {
  if (part.order == GgufOrder::kTransposed) return tensor.t().contiguous();
  if (part.order == GgufOrder::kPairs) return in_pairs(tensor, part.heads).contiguous();
  return tensor.contiguous();
}

// A tensor in fp32 as bytes of the type.
void write_tensor(storage::GgufWriter& writer, const Tensor& values, GgufType type, const std::string& name) {
  const auto bytes_of = [](const Tensor& tensor) {
    return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()),
                     static_cast<size_t>(tensor.nbytes()));
  };
  const double largest = values.abs().max().item<double>();
  if (!std::isfinite(largest)) refuse_large(name, largest, "any type");
  if (type == GgufType::kF32) return writer.write(bytes_of(values));
  // The scale of a block is its largest number / 127.
  if (largest > (type == GgufType::kF16 ? kLargestHalf : kLargestHalf * 127))
    refuse_large(name, largest, type == GgufType::kF16 ? "f16" : "q8_0");
  if (type == GgufType::kF16) return writer.write(bytes_of(values.to(at::kHalf)));
  const std::span<const float> numbers(values.const_data_ptr<float>(), static_cast<size_t>(values.numel()));
  std::vector<std::byte> blocks(static_cast<size_t>(storage::gguf_bytes(type, values.numel())));
  quantize_q8_0(numbers, blocks);
  writer.write(blocks);
}

void write_part(storage::GgufWriter& writer, const GgufPart& part, const storage::Checkpoint& checkpoint) {
  if (part.from.empty()) return writer.write(std::as_bytes(std::span(part.values)));
  for (const model::PublicTensor* tensor : part.from) {
    write_tensor(writer, ordered(read_public(checkpoint, *tensor, at::kFloat), part), part.tensor.type,
                 part.tensor.name);
  }
}

void refuse_taken(const storage::FileSystem& files, const fs::path& out) {
  if (!files.exists(out)) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the name of the file is taken",
               .expected = "a name that is free",
               .found = "it is there already",
               .where = out.string(),
               .hint = "--gguf with another name"});
}

}  // namespace

void quantize_q8_0(std::span<const float> values, std::span<std::byte> blocks) {
  LONGHAUL_ASSERT(values.size() % storage::kQ8Block == 0 &&
                  blocks.size() == values.size() / storage::kQ8Block * storage::kQ8BlockBytes);
  std::byte* to = blocks.data();
  for (size_t begin = 0; begin < values.size(); begin += storage::kQ8Block) {
    float largest = 0;
    for (size_t i = 0; i < storage::kQ8Block; ++i) largest = std::max(largest, std::fabs(values[begin + i]));
    const float scale = largest / 127, inverse = scale != 0 ? 1 / scale : 0;
    const c10::Half half(scale);
    std::memcpy(to, &half.x, sizeof half.x);
    to += sizeof half.x;
    for (size_t i = 0; i < storage::kQ8Block; ++i)
      *to++ = static_cast<std::byte>(static_cast<int8_t>(std::round(values[begin + i] * inverse)));
  }
}

GgufReport export_gguf(const fs::path& path, const fs::path& out, GgufType type,
                       const std::function<void(int64_t, int64_t)>& progress,
                       const std::string& asked_family) {
  storage::FileSystem& files = storage::local_file_system();
  refuse_taken(files, out);
  const storage::Checkpoint checkpoint =
      storage::open_checkpoint(files, path, storage::Depth::kContents, kWeightRole);
  const recipe::Recipe recipe = saved_recipe(checkpoint).recipe;
  require_without_adapters(recipe.model, checkpoint.folder());
  recipe::ModelConfig saved = recipe.model;
  saved.predict_ahead = 0;  // modules that predict further ahead stay here
  const recipe::ModelConfig config = in_its_family(saved, asked_family);
  GgufReport report{
      .family = config.family, .architecture = gguf_architecture(config), .step = checkpoint.manifest().step};
  const auto tensors = model::public_tensors(config);
  const std::vector<GgufPart> parts = gguf_parts(config, tensors, type);
  storage::GgufFields fields = gguf_model_fields(config, optim::longest_sequence(recipe.optim, recipe.train));
  fields.emplace_back("general.name", fs::weakly_canonical(out).stem().string());
  fields.emplace_back("general.file_type", uint32_t{type == GgufType::kF16 ? 1U : 7U});
  const fs::path run = fs::weakly_canonical(checkpoint.folder()).parent_path().parent_path();
  // The file has a row for each of its tokens.
  if (const auto tokenizer = run_tokenizer(run, recipe);
      tokenizer && tokenizer->vocabulary() <= config.vocabulary) {
    for (auto& field : gguf_tokenizer_fields(*tokenizer, config.vocabulary, run)) {
      report.chat_template = report.chat_template || field.first == "tokenizer.chat_template";
      fields.push_back(std::move(field));
    }
    report.tokenizer = true;
  } else {
    fields.emplace_back("tokenizer.ggml.model", std::string("none"));
  }
  std::vector<storage::GgufTensor> infos;
  int64_t total = 0;
  for (const GgufPart& part : parts) {
    infos.push_back(part.tensor);
    total += part.tensor.bytes();
    report.narrow += part.tensor.type == type ? 1 : 0;
  }
  report.tensors = static_cast<int64_t>(infos.size());

  fs::path temporary = out;
  temporary += ".partial";
  try {
    storage::GgufWriter writer(files, temporary, fields, infos);
    for (const GgufPart& part : parts) {
      write_part(writer, part, checkpoint);
      if (progress) progress(part.tensor.bytes(), total);
    }
    report.bytes = writer.finish();
  } catch (...) {
    files.remove(temporary);
    throw;
  }
  files.rename(temporary, out);
  files.sync_folder(fs::absolute(out).parent_path());
  return report;
}

}  // namespace longhaul::checkpoint
