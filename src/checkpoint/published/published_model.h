// PublishedModel: a folder in which a model is published (config.json, safetensors files), read as a
// Longhaul model. It gives the model's configuration and its logical tensors, one at a time, however the
// folder names, fuses or transposes them. Everything is checked when the folder is opened: every tensor of
// the model must be there with its shape; the folder may hold no other tensor, except buffers that the
// family knows; and all dtypes must be the same, except for tensors kept in fp32. kData errors name the
// file, tensor or field.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "layout/parameters.h"
#include "model/families/families.h"
#include "storage/published_folder.h"
#include "tensor/tensor.h"

namespace longhaul::checkpoint {

class PublishedModel {
 public:
  static PublishedModel open(const storage::FileSystem& files, const std::filesystem::path& folder);

  const recipe::ModelConfig& config() const { return config_; }
  const std::vector<layout::ParameterSpec>& specs() const { return specs_; }
  const model::Family& family() const { return *family_; }
  std::string_view layout() const { return layout_; }  // the family's layout of files that this folder has
  const std::filesystem::path& folder() const { return tensors_.folder(); }

  ScalarType dtype() const { return dtype_; }  // the dtype of all matrices
  ScalarType dtype_of(const std::string& logical) const;
  // The whole tensor in its dtype; needs the memory of two such tensors.
  Tensor read(const std::string& logical) const;

  size_t mapped() const { return public_.size(); }  // public tensors
  const std::vector<std::string>& ignored_tensors() const { return ignored_tensors_; }
  const std::vector<std::string>& ignored_fields() const { return ignored_fields_; }  // of config.json

 private:
  struct Source {
    size_t tensor = 0;  // of public_
    model::PublicPiece piece;
  };
  void choose_layout();
  void match_tensors();
  std::string wrapped_name(const std::string& missing) const;
  void refuse_shape(const model::PublicTensor& expected, const storage::TensorInfo& found) const;
  void refuse_unexpected();
  void check_dtypes();
  Tensor block(const Source& source) const;

  recipe::ModelConfig config_;
  const model::Family* family_ = nullptr;
  std::string_view layout_;
  storage::PublishedFolder tensors_;
  std::vector<layout::ParameterSpec> specs_;
  std::vector<model::PublicTensor> public_;
  std::unordered_map<std::string, std::vector<Source>> sources_;  // by logical name
  std::vector<std::string> ignored_tensors_, ignored_fields_;
  ScalarType dtype_ = at::kFloat;
};

}  // namespace longhaul::checkpoint
