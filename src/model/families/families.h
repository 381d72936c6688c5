// Public families: how a model is published. A family reads and writes config.json, and says as data under
// which names, in which shapes and dtypes its tensors stand in files: import and export walk that list, they
// know no family. Every public tensor is tiled by blocks of logical tensors (layout/parameters.h), and every
// logical tensor is covered exactly once. One entry a family, in a file of its own, listed in families.cpp;
// which models it can hold is recipe/architecture/families.h. Pure functions; nothing is allocated beyond the
// lists.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "layout/rectangle.h"
#include "recipe/architecture/model_config.h"
#include "tensor/tensor.h"

namespace longhaul::model {

class ConfigReader;  // config_reader.h

// A block of a public tensor that holds a block of a logical one. Blocks of public tensors count rows and
// columns: of a tensor with more than two dimensions all but the last one are rows.
struct PublicPiece {
  std::string logical;  // "layers.3.mixer.query.weight"
  layout::Rectangle of_logical;
  layout::Rectangle of_public;  // same shape, or its transpose
  bool transposed = false;      // public element (i, j) of the block is logical element (j, i)
  bool operator==(const PublicPiece&) const = default;
};

struct PublicTensor {
  std::string name;
  layout::Shape shape;
  std::string_view dtype;  // as published: "bf16" or "fp32"; a reader believes the file's header instead
  std::vector<PublicPiece> pieces;
  bool operator==(const PublicTensor&) const = default;
  layout::Shape rows_and_columns() const;  // what blocks count
};

// One way in which files of a family name their tensors.
struct PublicLayout {
  // "transformer."; of the one that export writes unless the model came in another: ""
  std::string_view name;
  std::vector<PublicTensor> (*tensors)(const recipe::ModelConfig&);
};

// A tensor that files of a family hold beside the weights, and that follows from the configuration.
struct PublicBuffer {
  std::string name;
  layout::Shape shape;
  std::function<Tensor()> made;  // in fp32
};

struct Family {
  std::string_view name;                        // model.family
  std::vector<std::string_view> model_types;    // of config.json
  std::vector<std::string_view> architectures;  // likewise; the first is written
  std::string_view title;                       // for people
  std::string_view loaded_by = "transformers";  // a program that has a model for its files
  recipe::ModelConfig (*read)(ConfigReader&);
  // all that says what the model computes
  void (*write)(const recipe::ModelConfig&, nlohmann::ordered_json&);
  std::vector<PublicLayout> layouts;
  bool (*is_buffer)(std::string_view name) = nullptr;  // a tensor of files that is made anew, not read
  // Those that a reader of the family's files asks for; `json`: the config.json that stands beside them.
  std::vector<PublicBuffer> (*buffers)(const recipe::ModelConfig&,
                                       const nlohmann::ordered_json& json) = nullptr;
};

const std::vector<const Family*>& families();      // those with public files
const Family* find_family(std::string_view name);  // null: none
// Of config.json; kData errors that name the nearest.
const Family& family_of(const nlohmann::json& config, const std::string& where);
recipe::ModelConfig read_config(const Family& family, const nlohmann::json& config, const std::string& where,
                                std::vector<std::string>* ignored = nullptr);

// In the order of layout::parameters. Family "longhaul": the logical names themselves. A config that the
// family cannot express, and an unknown family, are kUsage errors.
std::vector<PublicTensor> public_tensors(const recipe::ModelConfig& config, std::string_view layout = "");

// Bytes of all tensors' elements, as an index file's total_size counts them.
int64_t public_bytes(const std::vector<PublicTensor>& tensors);

}  // namespace longhaul::model
