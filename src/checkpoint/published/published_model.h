// PublishedModel: a folder in which a model is published (config.json, safetensors files), read as the model it is here: its configuration, and
// its logical tensors one at a time, however the folder names, fuses or transposes them. All is checked when it is opened: every tensor
// of the model must be there with its shape, the folder may hold no other (but buffers that the family knows), and the dtypes must be one
// but for what is kept in fp32. kData errors name file, tensor or field.
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
  std::string_view layout() const { return layout_; }  // which of the family's
  const std::filesystem::path& folder() const { return tensors_.folder(); }

  ScalarType dtype() const { return dtype_; }  // of all matrices
  ScalarType dtype_of(const std::string& logical) const;
  Tensor read(const std::string& logical) const;  // whole, in its dtype; memory of two such tensors

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
