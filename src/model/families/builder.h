// PublicTensors: collects a family's list, looking up logical shapes so that a map only names things. For
// src/model/families.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/families/families.h"

namespace longhaul::model {

class PublicTensors {
 public:
  PublicTensors(const recipe::ModelConfig& config, std::string_view dtype);

  bool has(const std::string& logical) const { return shapes_.contains(logical); }
  // A public tensor that is one logical tensor.
  void whole(const std::string& name, const std::string& logical);
  void whole(const std::string& name, const std::string& logical, std::string_view dtype);
  // One that is the transpose of the logical tensors put above each other (a single one, or fused rows): [in,
  // Σ out].
  void transposed(const std::string& name, const std::vector<std::string>& logical);
  // One that is a stack of matrices, each of which is some logical tensors above each other: [matrices, Σ
  // rows, columns].
  void matrices(const std::string& name, const std::vector<std::vector<std::string>>& logical);
  // The logical tensors (matrices or vectors) above each other; with `rows` > 0 dealt out in turn: `rows`
  // rows of the first, `rows` of the second, …, and again.
  void stacked(const std::string& name, const std::vector<std::string>& logical, int64_t rows = 0);

  // Taps of convolutions above each other: [Σ channels, 1, taps].
  void convolution(const std::string& name, const std::vector<std::string>& logical);

  std::vector<PublicTensor> take() { return std::move(tensors_); }

 private:
  const layout::Shape& shape_of(const std::string& logical) const;

  std::map<std::string, layout::Shape> shapes_;
  std::string_view dtype_;
  std::vector<PublicTensor> tensors_;
};

}  // namespace longhaul::model
