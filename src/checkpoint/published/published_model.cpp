#include "checkpoint/published/published_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/published/naming.h"
#include "model/families/config_text.h"
#include "recipe/write.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kConfigLimitBytes = 16 << 20;
constexpr const char* kHead = "lm_head.weight";

[[noreturn]] void refuse_tensor(const fs::path& file, const std::string& name, const std::string& what,
                                const std::string& expected, const std::string& found,
                                const std::string& hint = "") {
  throw Error({.code = ExitCode::kData,
               .what = what,
               .expected = expected,
               .found = found,
               .where = fmt::format("{}, tensor {}", file.string(), brief(name, 200)),
               .hint = hint});
}

nlohmann::json read_json(const storage::FileSystem& files, const fs::path& path) {
  const auto reader = files.open(path, ExitCode::kData, storage::Links::kFollow);
  const int64_t size = std::min(reader->size(), kConfigLimitBytes + 1);
  std::string text(static_cast<size_t>(size), '\0');
  reader->read_exactly(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  const nlohmann::json json =
      nlohmann::json::parse(model::json_of_python(text), nullptr, /*allow_exceptions=*/false);
  if (size > kConfigLimitBytes || json.is_discarded()) {
    throw Error({.code = ExitCode::kData,
                 .what = "the model's configuration cannot be read",
                 .expected = "JSON of at most 16 MiB",
                 .found = size > kConfigLimitBytes ? "a larger file" : "no JSON, or the end of it is missing",
                 .where = path.string()});
  }
  return json;
}

// As a recipe would be checked: ranges of all options, and combinations that cannot be.
void require_valid(const recipe::ModelConfig& config, const std::string& where) {
  recipe::LoadedRecipe loaded;
  loaded.recipe.model = config;
  loaded.recipe.data.tokenizer = "tokenizer.json";
  if (config.max_positions > 0)
    loaded.recipe.train.sequence = std::min(loaded.recipe.train.sequence, config.max_positions);
  try {
    recipe::load_text(recipe::to_toml(loaded), where);
  } catch (const Error& error) {
    ErrorFields fields = error.fields();
    fields.code = ExitCode::kData;
    fields.what = "the model that this configuration describes cannot be: " + fields.what;
    fields.where = where;
    throw Error(std::move(fields));
  }
}

}  // namespace

PublishedModel PublishedModel::open(const storage::FileSystem& files, const fs::path& folder) {
  PublishedModel model;
  const fs::path config = folder / "config.json";
  const nlohmann::json json = read_json(files, config);
  model.family_ = &model::family_of(json, config.string());
  model.config_ = model::read_config(*model.family_, json, config.string(), &model.ignored_fields_);
  require_valid(model.config_, config.string());
  model.tensors_ = storage::PublishedFolder::open(files, folder);
  model.specs_ = layout::parameters(model.config_);
  model.choose_layout();
  model.match_tensors();
  model.refuse_unexpected();
  model.check_dtypes();
  return model;
}

// The one of which most is there: files that lack a tensor are still told by the names that they have.
void PublishedModel::choose_layout() {
  size_t most = 0;
  for (const model::PublicLayout& layout : family_->layouts) {
    const auto tensors = layout.tensors(config_);
    const auto there = static_cast<size_t>(std::ranges::count_if(
        tensors, [&](const auto& each) { return tensors_.find(each.name) != nullptr; }));
    if (!public_.empty() && there <= most) continue;
    most = there;
    layout_ = layout.name;
    public_ = tensors;
  }
}

void PublishedModel::refuse_shape(const model::PublicTensor& expected,
                                  const storage::TensorInfo& found) const {
  const bool table = expected.pieces.front().logical == "embedding.weight" ||
                     expected.pieces.front().logical == "head.weight";
  const bool rows = table && found.shape.size() == 2 && found.shape[1] == expected.shape[1];
  refuse_tensor(
      tensors_.file_of(expected.name), expected.name,
      rows ? "the table has another number of rows than the configuration's vocab_size"
           : "a tensor has another shape than the configuration says",
      layout::shape_text(expected.shape), layout::shape_text(found.shape),
      rows ? fmt::format("\"vocab_size\": {} in config.json, if the weights are right", found.shape[0]) : "");
}

// A name of the folder that is this one with something in front, or this one without; empty: none.
std::string PublishedModel::wrapped_name(const std::string& missing) const {
  std::string best;
  for (const std::string& name : tensors_.names()) {
    const bool alike = name.ends_with("." + missing) || missing.ends_with("." + name);
    if (alike && name.size() > best.size()) best = name;
  }
  return best;
}

void PublishedModel::match_tensors() {
  std::vector<std::string> missing;
  for (const model::PublicTensor& tensor : public_) {
    const storage::TensorInfo* found = tensors_.find(tensor.name);
    if (found == nullptr) {
      missing.push_back(tensor.name);
      continue;
    }
    if (found->shape != tensor.shape) refuse_shape(tensor, *found);
  }
  if (!missing.empty()) {
    const bool only_head = missing.size() == 1 && missing.front() == kHead;
    const std::vector<std::string> names = tensors_.names();
    const std::string wrapped = wrapped_name(missing.front()),
                      near = nearest_spelling(missing.front(), names);
    const std::string shown = !wrapped.empty() ? wrapped
                              : !near.empty()  ? near
                              : names.empty()  ? ""
                                               : names.front();
    throw Error(
        {.code = ExitCode::kData,
         .what = fmt::format("the folder lacks {} of the model's {} tensors", missing.size(), public_.size()),
         .expected = missing.front(),
         .found = shown.empty()
                      ? "no tensor at all"
                      : fmt::format("{}, such as {}", counted(static_cast<int64_t>(names.size()), "tensor"),
                                    printable(brief(shown, 200))),
         .where = tensors_.folder().string(),
         .hint = only_head ? "where embedding and head are one matrix, config.json must say "
                             "\"tie_word_embeddings\": true"
                 : wrapped.empty()
                     ? ""
                     : "names with something else in front are those of a wrapped model (torch.compile, "
                       "DistributedDataParallel, adapters) or "
                       "of a part of one: write it again with the model itself, model.save_pretrained(DIR)"});
  }
  for (size_t i = 0; i < public_.size(); ++i) {
    for (const model::PublicPiece& piece : public_[i].pieces) sources_[piece.logical].push_back({i, piece});
  }
}

void PublishedModel::refuse_unexpected() {
  std::set<std::string> known;
  for (const model::PublicTensor& tensor : public_) known.insert(tensor.name);
  for (const std::string& name : tensors_.names()) {
    if (known.contains(name)) continue;
    if (family_->is_buffer != nullptr && family_->is_buffer(name)) {
      ignored_tensors_.push_back(name);
      continue;
    }
    // a second copy of the embedding, or the configuration is wrong
    if (name == kHead && config_.tie_embeddings) {
      const model::PublicTensor& embedding = public_[sources_.at("embedding.weight").front().tensor];
      const storage::TensorInfo &head = *tensors_.find(name), &table = *tensors_.find(embedding.name);
      std::vector<std::byte> a(static_cast<size_t>(head.bytes())), b(static_cast<size_t>(table.bytes()));
      tensors_.read(name, 0, a);
      tensors_.read(embedding.name, 0, b);
      if (head.dtype == table.dtype && a == b) {
        ignored_tensors_.push_back(name);
        continue;
      }
      refuse_tensor(tensors_.file_of(name), name,
                    "the head is not the embedding, though the configuration ties them",
                    "the same bytes as " + embedding.name, "others",
                    "\"tie_word_embeddings\": false in config.json, if the weights are right");
    }
    const std::string near = nearest_spelling(name, {known.begin(), known.end()});
    refuse_tensor(tensors_.file_of(name), name, fmt::format("{} models have no such tensor", family_->title),
                  near.empty() ? "tensors of the model alone" : "tensors of the model alone, such as " + near,
                  brief(name, 200),
                  "the nearest architecture was taken from config.json; weights of another one, or adapters, "
                  "must be merged first");
  }
}

void PublishedModel::check_dtypes() {
  const auto stored = [&](const model::PublicTensor& tensor) {
    const storage::TensorInfo& info = *tensors_.find(tensor.name);
    const std::optional<ScalarType> type =
        info.dtype == storage::DType::kF32 || info.dtype == storage::DType::kF16 ||
                info.dtype == storage::DType::kBF16 || info.dtype == storage::DType::kF64
            ? std::optional(scalar_type(info.dtype, tensor.name))
            : std::nullopt;
    if (!type) {
      refuse_tensor(tensors_.file_of(tensor.name), tensor.name, "weights of this dtype are not read",
                    "F32, BF16, F16 or F64", std::string(storage::name_of(info.dtype)),
                    "quantised weights must be made whole first");
    }
    return *type;
  };
  std::set<std::string> wide;
  for (const layout::ParameterSpec& spec : specs_) {
    if (layout::kept_wide(spec)) wide.insert(spec.tensor.name);
  }
  const model::PublicTensor* first = nullptr;
  for (const model::PublicTensor& tensor : public_) {
    const ScalarType type = stored(tensor);
    const bool may_be_wide =
        std::ranges::all_of(tensor.pieces, [&](const auto& piece) { return wide.contains(piece.logical); });
    if (may_be_wide) continue;
    if (first == nullptr) {
      first = &tensor;
      dtype_ = type;
    }
    if (type == dtype_) continue;
    refuse_tensor(tensors_.file_of(tensor.name), tensor.name, "the weights are of several dtypes",
                  fmt::format("{}, as {}", name_of(dtype_), first->name), std::string(name_of(type)),
                  "only norms and routers may be in fp32 beside others");
  }
}

ScalarType PublishedModel::dtype_of(const std::string& logical) const {
  const std::string& name = public_[sources_.at(logical).front().tensor].name;
  return scalar_type(tensors_.find(name)->dtype, name);
}

// The rows and columns of one piece, as they stand in the file.
Tensor PublishedModel::block(const Source& source) const {
  const model::PublicTensor& tensor = public_[source.tensor];
  const layout::Shape shape = tensor.rows_and_columns();
  const layout::Rectangle& box = source.piece.of_public;
  const ScalarType type = scalar_type(tensors_.find(tensor.name)->dtype, tensor.name);
  const Tensor out = at::empty(box.length, type);
  const auto element = static_cast<int64_t>(out.element_size());
  auto* bytes = static_cast<std::byte*>(out.mutable_data_ptr());
  const int64_t columns = shape.size() == 2 ? shape[1] : 1, taken = shape.size() == 2 ? box.length[1] : 1;
  const int64_t first_column = shape.size() == 2 ? box.offset[1] : 0;
  if (taken == columns) {
    tensors_.read(tensor.name, box.offset[0] * columns * element, {bytes, static_cast<size_t>(out.nbytes())});
    return out;
  }
  for (int64_t row = 0; row < box.length[0]; ++row) {
    tensors_.read(tensor.name, ((box.offset[0] + row) * columns + first_column) * element,
                  {bytes + row * taken * element, static_cast<size_t>(taken * element)});
  }
  return out;
}

Tensor PublishedModel::read(const std::string& logical) const {
  const std::vector<Source>& sources = sources_.at(logical);
  const auto placed = [&](const Source& source) {
    const Tensor found = block(source);
    return source.piece.transposed ? found.t() : found;
  };
  const auto spec =
      std::ranges::find(specs_, logical, [](const layout::ParameterSpec& each) { return each.tensor.name; });
  LONGHAUL_ASSERT(spec != specs_.end(), "{}", logical);
  const layout::Shape& shape = spec->tensor.global_shape;
  if (sources.size() == 1) return placed(sources.front()).contiguous();
  const Tensor out = at::empty(shape, dtype_of(logical));
  for (const Source& source : sources) {
    Tensor into = out;
    for (size_t d = 0; d < shape.size(); ++d) {
      into = into.narrow(static_cast<int64_t>(d), source.piece.of_logical.offset[d],
                         source.piece.of_logical.length[d]);
    }
    into.copy_(placed(source));
  }
  return out;
}

}  // namespace longhaul::checkpoint
