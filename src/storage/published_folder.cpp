#include "storage/published_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text/text.h"
#include "storage/manifest.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kIndexLimitBytes = int64_t{256} << 20;

[[noreturn]] void refuse_index(const fs::path& index, const std::string& what, const std::string& expected,
                               const std::string& found) {
  throw Error(
      {.code = ExitCode::kData, .what = what, .expected = expected, .found = found, .where = index.string()});
}

std::map<std::string, std::string> read_index(const FileSystem& files, const fs::path& index) {
  const auto reader = files.open(index, ExitCode::kData, Links::kFollow);
  if (reader->size() > kIndexLimitBytes) {
    refuse_index(index, "the index is too large", fmt::format("at most {} bytes", kIndexLimitBytes),
                 std::to_string(reader->size()));
  }
  std::string text(static_cast<size_t>(reader->size()), '\0');
  reader->read_exactly(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object() ||
      json["weight_map"].empty()) {
    refuse_index(index, "the index cannot be read", "JSON with a weight_map of tensors and their files",
                 json.is_discarded() ? "no JSON, or the end of it is missing" : "something else");
  }
  std::map<std::string, std::string> file_of_tensor;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !is_plain_file_name(file.get<std::string>()) ||
        !file.get<std::string>().ends_with(".safetensors")) {
      refuse_index(index,
                   fmt::format("the index sends tensor '{}' to a file that it may not name", brief(tensor)),
                   "the plain name of a .safetensors file in the same folder",
                   brief(file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    }
    file_of_tensor.emplace(tensor, file.get<std::string>());
  }
  return file_of_tensor;
}

bool is_pickle(const std::string& name) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"},
      [&](const char* end) { return name.ends_with(end); });
}

[[noreturn]] void refuse_folder(const FileSystem& files, const fs::path& folder) {
  std::string pickle;
  for (const FolderEntry& entry : files.list(folder)) {
    if (!entry.is_folder && is_pickle(entry.name) && pickle.empty()) pickle = entry.name;
  }
  if (pickle.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "there are no weights in this folder",
                 .expected = fmt::format("{}, or {} with its files", kPublishedFile, kPublishedIndex),
                 .found = files.is_folder(folder) ? "neither" : "no such folder",
                 .where = folder.string()});
  }
  throw Error(
      {.code = ExitCode::kData,
       .what = "weights in a pickle file are not read: reading one runs whatever program is inside it",
       .expected = ".safetensors files",
       .found = printable(brief(pickle)),
       .where = folder.string(),
       .hint = "let the library that wrote it write it again: model.save_pretrained(DIR, "
               "safe_serialization=True)"});
}

}  // namespace

void PublishedFolder::add_file(const FileSystem& files, const std::string& name) {
  const fs::path path = folder_ / name;
  files_.push_back(SafetensorsFile::open(files, path, {}, Links::kFollow));
}

PublishedFolder PublishedFolder::open(const FileSystem& files, const fs::path& folder) {
  PublishedFolder opened;
  opened.folder_ = folder;
  std::map<std::string, std::string> index;
  const bool single = files.exists(folder / kPublishedFile);
  if (files.exists(folder / kPublishedIndex)) {
    index = read_index(files, folder / kPublishedIndex);
    std::set<std::string> names;
    for (const auto& [tensor, file] : index) names.insert(file);
    if (single && !names.contains(kPublishedFile)) {
      throw Error(
          {.code = ExitCode::kData,
           .what = "the folder holds two sets of weights",
           .expected = fmt::format("{}, or {} with its files", kPublishedFile, kPublishedIndex),
           .found = "both, and the index does not name the single file",
           .where = folder.string(),
           .hint = "take away those that are not meant: other programs read the single file without a word"});
    }
    for (const std::string& name : names) {
      if (!files.exists(folder / name))
        refuse_index(folder / kPublishedIndex, "a file that the index names is missing", name,
                     "no such file");
      opened.add_file(files, name);
    }
  } else if (single) {
    opened.add_file(files, kPublishedFile);
  } else {
    refuse_folder(files, folder);
  }
  for (size_t file = 0; file < opened.files_.size(); ++file) {
    for (const TensorInfo& tensor : opened.files_[file].tensors()) {
      const auto [at, added] = opened.places_.emplace(tensor.name, Place{file, &tensor});
      if (added) continue;
      refuse_index(folder / kPublishedIndex, fmt::format("tensor '{}' is in two files", brief(tensor.name)),
                   "each tensor in one file",
                   fmt::format("{} and {}", opened.files_[at->second.file].path().filename().string(),
                               opened.files_[file].path().filename().string()));
    }
  }
  if (!index.empty()) opened.check_index(index);
  return opened;
}

void PublishedFolder::check_index(const std::map<std::string, std::string>& file_of_tensor) const {
  const fs::path index = folder_ / kPublishedIndex;
  for (const auto& [tensor, file] : file_of_tensor) {
    const auto found = places_.find(tensor);
    if (found == places_.end())
      refuse_index(index, fmt::format("tensor '{}' is not in the file that the index names", brief(tensor)),
                   file, "no file has it");
    const std::string holder = files_[found->second.file].path().filename().string();
    if (holder != file)
      refuse_index(index, fmt::format("tensor '{}' is not in the file that the index names", brief(tensor)),
                   file, holder);
  }
  for (const auto& [tensor, place] : places_) {
    if (file_of_tensor.contains(tensor)) continue;
    refuse_index(index, "the index lacks a tensor that one of its files holds",
                 fmt::format("'{}'", brief(tensor)),
                 fmt::format("it is in {}: the index was cut short, or belongs to other files",
                             files_[place.file].path().filename().string()));
  }
}

std::vector<std::string> PublishedFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

const TensorInfo* PublishedFolder::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.tensor;
}

void PublishedFolder::read(const std::string& name, int64_t first_byte, std::span<std::byte> into) const {
  const Place& place = places_.at(name);
  files_[place.file].read(*place.tensor, first_byte, into);
}

fs::path PublishedFolder::file_of(const std::string& name) const {
  return files_[places_.at(name).file].path();
}

int64_t PublishedFolder::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, place] : places_) bytes += place.tensor->bytes();
  return bytes;
}

}  // namespace longhaul::storage
