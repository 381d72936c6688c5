// PublicModule: a module of a public model and the one logical matrix that it holds: where an adapter of the
// one is an adapter of the other. Rows may stand in another order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layout/parameters.h"
#include "model/families/families.h"
#include "tensor/tensor.h"

namespace longhaul::checkpoint {

struct PublicModule {
  std::string name;               // "model.layers.0.self_attn.q_proj"
  layout::ParameterSpec logical;  // empty name: the module holds no single matrix
  std::string why_not;            // then: why
  std::vector<model::PublicPiece> rows;

  // [out, …] in the order of the public rows, and of the logical ones.
  Tensor to_logical(const Tensor& rows_of_public) const { return moved(rows_of_public, true); }
  Tensor to_public(const Tensor& rows_of_logical) const { return moved(rows_of_logical, false); }

 private:
  Tensor moved(const Tensor& from, bool to_logical) const;
};

// All modules with a matrix, in the order of layout::parameters. layout: of the family's files ("" for its
// own).
std::vector<PublicModule> public_modules(const recipe::ModelConfig& config, std::string_view layout);

}  // namespace longhaul::checkpoint
