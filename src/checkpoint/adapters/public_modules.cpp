#include "checkpoint/adapters/public_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "layout/adapters.h"

namespace longhaul::checkpoint {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string reason_against(const model::PublicTensor& tensor,
                           const std::map<std::string, layout::ParameterSpec>& specs) {
  std::set<std::string> logical;
  for (const model::PublicPiece& piece : tensor.pieces) logical.insert(piece.logical);
  if (logical.size() > 1) return fmt::format("it holds {} together", fmt::join(logical, ", "));
  const layout::ParameterSpec& spec = specs.at(*logical.begin());
  if (!layout::can_be_adapted(spec))
    return fmt::format("it is {}, which can have no adapter", spec.tensor.name);
  const auto whole_rows = [&](const model::PublicPiece& piece) {
    return !piece.transposed && piece.of_public.offset[1] == 0 &&
           piece.of_public.length[1] == tensor.shape[1];
  };
  if (!std::ranges::all_of(tensor.pieces, whole_rows))
    return "its matrix stands on its side, or is cut inside its rows";
  if (tensor.shape != spec.tensor.global_shape) return fmt::format("it is a part of {}", spec.tensor.name);
  return "";
}

}  // namespace

Tensor PublicModule::moved(const Tensor& from, bool to_logical) const {
  if (rows.size() == 1) return from;
  const Tensor to = at::empty_like(from);
  for (const model::PublicPiece& piece : rows) {
    const layout::Rectangle &source = to_logical ? piece.of_public : piece.of_logical,
                            &target = to_logical ? piece.of_logical : piece.of_public;
    to.narrow(0, target.offset[0], target.length[0])
        .copy_(from.narrow(0, source.offset[0], source.length[0]));
  }
  return to;
}

std::vector<PublicModule> public_modules(const recipe::ModelConfig& config, std::string_view layout) {
  std::map<std::string, layout::ParameterSpec> specs;
  for (const layout::ParameterSpec& spec : layout::parameters(config)) specs.emplace(spec.tensor.name, spec);
  std::vector<PublicModule> modules;
  for (const model::PublicTensor& tensor : model::public_tensors(config, layout)) {
    if (tensor.shape.size() != 2 || !tensor.name.ends_with(kWeight)) continue;
    PublicModule module{.name = tensor.name.substr(0, tensor.name.size() - kWeight.size()),
                        .why_not = reason_against(tensor, specs)};
    if (module.why_not.empty()) {
      module.logical = specs.at(tensor.pieces.front().logical);
      module.rows = tensor.pieces;
    }
    modules.push_back(std::move(module));
  }
  return modules;
}

}  // namespace longhaul::checkpoint
