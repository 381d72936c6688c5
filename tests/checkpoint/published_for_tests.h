// What the tests of published models share: the golden ones, copies of them to be spoilt, and what a model
// computes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "checkpoint/published/import.h"
#include "layout/sequence_view.h"
#include "model/context.h"
#include "model/decoder.h"
#include "model/parallel_ops.h"
#include "storage/safetensors.h"
#include "support/places.h"
#include "support/refused.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::refused;

inline const fs::path kGolden = fs::path(source_folder()) / "tests" / "golden" / "published";

inline Tensor read_tensor(const fs::path& path, const std::string& name) {
  const auto file = storage::SafetensorsFile::open(storage::local_file_system(), path);
  const storage::TensorInfo& info = file.at(name);
  const Tensor tensor = at::empty(info.shape, info.dtype == storage::DType::kI64 ? at::kLong : at::kFloat);
  file.read(info, 0,
            {static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<size_t>(tensor.nbytes())});
  return tensor;
}

inline Tensor logits_of(model::Decoder& decoder, const Tensor& ids) {
  const at::NoGradGuard no_gradient;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  return decoder.logits(decoder.hidden(context, ids, layout::make_single(ids.size(0))));
}

inline std::map<std::string, std::string> bytes_of_tensors(const fs::path& folder) {
  std::map<std::string, std::string> found;
  const auto file =
      storage::SafetensorsFile::open(storage::local_file_system(), folder / "model.safetensors");
  for (const storage::TensorInfo& tensor : file.tensors()) {
    const std::vector<std::byte> data = file.read(tensor.name);
    std::string text(storage::name_of(tensor.dtype));
    for (const int64_t size : tensor.shape) text += " " + std::to_string(size);
    found[tensor.name] = text + ":" + std::string(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return found;
}

inline nlohmann::json config_of(const fs::path& folder) {
  return nlohmann::json::parse(read_text(folder / "config.json"));
}
inline void write_config(const fs::path& folder, const nlohmann::json& config) {
  std::ofstream(folder / "config.json") << config;
}

class PublishedTest : public ::testing::Test {
 protected:
  fs::path copy_of(const std::string& golden) {
    const fs::path copy = folder_.path() / "model";
    fs::remove_all(copy);
    fs::copy(kGolden / golden / "model", copy, fs::copy_options::recursive);
    return copy;
  }
  std::string import_refused(const fs::path& from) {
    const fs::path out = folder_.path() / "out";
    const std::string text = refused([&] { import_model(from, out); });
    EXPECT_FALSE(fs::exists(out));
    EXPECT_FALSE(fs::exists(folder_.path() / "out.unfinished"));
    return text;
  }
  std::string with(const std::string& golden, const nlohmann::json& changes) {
    const fs::path model = copy_of(golden);
    nlohmann::json config = config_of(model);
    config.update(changes);
    write_config(model, config);
    return import_refused(model);
  }
  TemporaryFolder folder_;
};

struct Named {
  std::string name;
  storage::DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

inline std::vector<Named> tensors_in(const fs::path& path) {
  const auto file = storage::SafetensorsFile::open(storage::local_file_system(), path);
  std::vector<Named> found;
  for (const auto& tensor : file.tensors())
    found.push_back({tensor.name, tensor.dtype, tensor.shape, file.read(tensor.name)});
  return found;
}

inline void write_tensors(const fs::path& path, const std::vector<Named>& tensors) {
  std::vector<storage::TensorData> data;
  for (const Named& tensor : tensors) data.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data});
  storage::write_safetensors(storage::local_file_system(), path, data);
}

}  // namespace longhaul::checkpoint
