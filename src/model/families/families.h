// Public tensors: the names, shapes and dtypes under which a model family is published, as data computed from a config. Import and
// export walk this list; they know no family. Every public tensor is tiled by blocks of logical tensors (layout/parameters.h), and
// every logical tensor is covered exactly once. Pure functions; nothing is allocated beyond the list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layout/rectangle.h"
#include "recipe/model_config.h"

namespace longhaul::model {

// A block of a public tensor that holds a block of a logical one.
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
};

// In the order of layout::parameters. Family "longhaul": the logical names themselves. A config that the family cannot express, and an
// unknown family, are kUsage errors.
std::vector<PublicTensor> public_tensors(const recipe::ModelConfig& config);

// Bytes of all tensors' elements, as an index file's total_size counts them.
int64_t public_bytes(const std::vector<PublicTensor>& tensors);

}  // namespace longhaul::model
