#include "generate/routes_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "storage/safetensors.h"
#include "tensor/to_tensor.h"

namespace longhaul::generate {
namespace {

constexpr const char* kFormat = "longhaul.routes";
constexpr const char* kVersion = "1";
constexpr const char* kIds = "ids";
constexpr const char* kOffsets = "offsets";

storage::TensorData data_of(const std::string& name, storage::DType dtype, const Tensor& tensor) {
  return {name,
          dtype,
          tensor.sizes().vec(),
          {static_cast<const std::byte*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())}};
}

class Reader {
 public:
  Reader(const std::filesystem::path& path, const recipe::ModelConfig& config)
      : path_(path), config_(config), file_(open(path)) {}

  std::vector<RoutedSequence> sequences() const {
    const std::vector<std::string> blocks = model::blocks_with_routers(config_);
    check_model(blocks);
    const Tensor ids = integers(kIds, 1), offsets = integers(kOffsets, 1);
    check_offsets(offsets, ids.size(0));
    model::Routes all;
    for (const std::string& block : blocks) all[block] = choices(block, ids.size(0));
    std::vector<RoutedSequence> sequences;
    for (int64_t s = 0; s + 1 < offsets.size(0); ++s) {
      const int64_t begin = offsets[s].item<int64_t>(), length = offsets[s + 1].item<int64_t>() - begin;
      const int64_t* const id = ids.const_data_ptr<int64_t>() + begin;
      RoutedSequence& sequence = sequences.emplace_back(RoutedSequence{{id, id + length}, {}});
      for (const auto& [block, choice_tk] : all) sequence.routes[block] = choice_tk.narrow(0, begin, length);
    }
    return sequences;
  }

 private:
  static constexpr const char* kHint = "write it anew: longhaul sample CKPT … --routes FILE";

  [[noreturn]] void refuse(const std::string& what, const std::string& expected,
                           const std::string& found) const {
    throw Error({.code = ExitCode::kData,
                 .what = what,
                 .expected = expected,
                 .found = found,
                 .where = path_.string(),
                 .hint = kHint});
  }

  static storage::SafetensorsFile open(const std::filesystem::path& path) {
    try {
      return storage::SafetensorsFile::open(storage::LocalFileSystem(), path, {}, storage::Links::kFollow);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kCheckpoint) throw;
      ErrorFields fields = error.fields();  // no checkpoint this time
      fields.code = ExitCode::kData;
      fields.hint = kHint;
      throw Error(fields);
    }
  }

  std::string metadata(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? "nothing" : found->second;
  }

  void check_model(std::vector<std::string> blocks) const {
    if (metadata(kFormat) != kVersion)
      refuse("the file holds no routes",
             fmt::format("metadata {} = {}, as `sample --routes` writes it", kFormat, kVersion),
             metadata(kFormat));
    const std::pair<const char*, int64_t> numbers[] = {{"experts", config_.experts},
                                                       {"experts_per_token", config_.experts_per_token}};
    for (const auto& [key, expected] : numbers) {
      if (metadata(key) != std::to_string(expected))
        refuse("the routes are of another model", fmt::format("{} = {}, as this one has", key, expected),
               metadata(key));
    }
    std::vector<std::string> found;
    for (const storage::TensorInfo& tensor : file_.tensors()) {
      if (tensor.name != kIds && tensor.name != kOffsets) found.push_back(tensor.name);
    }
    std::ranges::sort(blocks);
    std::ranges::sort(found);
    if (blocks != found)
      refuse("the routes are of another model", fmt::format("{}", fmt::join(blocks, ", ")),
             fmt::format("{}", fmt::join(found, ", ")));
  }

  void check_offsets(const Tensor& offsets, int64_t tokens) const {
    const int64_t n = offsets.size(0);
    const bool ends = n >= 2 && offsets[0].item<int64_t>() == 0 && offsets[n - 1].item<int64_t>() == tokens;
    if (!ends || offsets.narrow(0, 1, n - 1).lt(offsets.narrow(0, 0, n - 1)).any().item<bool>())
      refuse("the sequences do not add up", fmt::format("{} from 0 up to {} ids", kOffsets, tokens),
             fmt::format("{} numbers that do not", n));
  }

  Tensor choices(const std::string& block, int64_t tokens) const {
    const Tensor choice = integers(block, 2);
    const std::vector<int64_t> expected = {tokens, config_.experts_per_token};
    if (choice.sizes() != expected) {
      refuse(fmt::format("{} does not fit the tokens", block), fmt::format("[{}]", fmt::join(expected, ", ")),
             fmt::format("[{}]", fmt::join(choice.sizes(), ", ")));
    }
    if (tokens == 0) return choice;
    const Tensor sorted = std::get<0>(choice.sort(1));
    const int64_t least = sorted.min().item<int64_t>(), most = sorted.max().item<int64_t>();
    if (least < 0 || most >= config_.experts) {
      refuse(fmt::format("{} names an expert that there is not", block),
             fmt::format("0 to {}", config_.experts - 1), fmt::format("{}", least < 0 ? least : most));
    }
    const int64_t k = config_.experts_per_token;
    if (sorted.narrow(1, 1, k - 1).eq(sorted.narrow(1, 0, k - 1)).any().item<bool>())
      refuse(fmt::format("{} sends a token to an expert twice", block),
             fmt::format("{} different experts a token", k), "equal ones");
    return choice;
  }

  // int64, whatever whole numbers the file has.
  Tensor integers(const std::string& name, int64_t dimensions) const {
    const storage::TensorInfo* const info = file_.find(name);
    if (info == nullptr) refuse("a tensor is missing", name, "none of that name");
    const auto type = [&] {
      switch (info->dtype) {
        case storage::DType::kU8:
          return at::kByte;
        case storage::DType::kI16:
          return at::kShort;
        case storage::DType::kI32:
          return at::kInt;
        case storage::DType::kI64:
          return at::kLong;
        default:
          refuse(fmt::format("{} holds no whole numbers", name), "I16, I32, I64 or U8",
                 std::string(storage::name_of(info->dtype)));
      }
    }();
    if (std::ssize(info->shape) != dimensions)
      refuse(fmt::format("{} has another shape", name), fmt::format("{} axes", dimensions),
             fmt::format("{}", info->shape.size()));
    const Tensor tensor = at::empty(info->shape, type);
    file_.read(*info, 0,
               {static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<size_t>(tensor.nbytes())});
    return tensor.to(at::kLong);
  }

  std::filesystem::path path_;
  const recipe::ModelConfig& config_;
  storage::SafetensorsFile file_;
};

}  // namespace

void write_routes(const std::filesystem::path& path, std::span<const RoutedSequence> sequences,
                  const recipe::ModelConfig& config, const std::map<std::string, std::string>& about) {
  std::vector<int64_t> ids, offsets = {0};
  std::map<std::string, std::vector<Tensor>> choices;
  for (const RoutedSequence& sequence : sequences) {
    ids.insert(ids.end(), sequence.ids.begin(), sequence.ids.end());
    offsets.push_back(std::ssize(ids));
    for (const auto& [block, choice_tk] : sequence.routes) choices[block].push_back(choice_tk);
  }
  const Tensor id = to_tensor(ids).to(at::kInt), offset = to_tensor(offsets);
  std::vector<Tensor> held;  // as long as they are written
  std::vector<storage::TensorData> tensors = {data_of(kIds, storage::DType::kI32, id),
                                              data_of(kOffsets, storage::DType::kI64, offset)};
  for (const auto& [block, parts] : choices) {
    held.push_back(at::cat(parts).to(at::kShort).contiguous());  // model.experts is 2¹³ at most
    tensors.push_back(data_of(block, storage::DType::kI16, held.back()));
  }
  std::map<std::string, std::string> metadata = about;
  metadata[kFormat] = kVersion;
  metadata["experts"] = std::to_string(config.experts);
  metadata["experts_per_token"] = std::to_string(config.experts_per_token);
  storage::LocalFileSystem files;
  storage::write_safetensors(files, path, tensors, metadata);
}

std::vector<RoutedSequence> read_routes(const std::filesystem::path& path,
                                        const recipe::ModelConfig& config) {
  return Reader(path, config).sequences();
}

void require_routers(const recipe::ModelConfig& config, const std::string& option) {
  if (!model::blocks_with_routers(config).empty()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the model has no experts, so no token is sent to any",
               .expected = "a model with model.experts of 2 or more",
               .found = fmt::format("model.experts = {}", config.experts),
               .where = option,
               .hint = fmt::format("leave {} out", option)});
}

}  // namespace longhaul::generate
