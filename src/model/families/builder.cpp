#include "model/families/builder.h"

#include "base/error.h"
#include "layout/parameters.h"

namespace longhaul::model {

using layout::Rectangle;
using layout::Shape;

PublicTensors::PublicTensors(const recipe::ModelConfig& config, std::string_view dtype) : dtype_(dtype) {
  for (const auto& spec : layout::parameters(config))
    shapes_.emplace(spec.tensor.name, spec.tensor.global_shape);
}

const Shape& PublicTensors::shape_of(const std::string& logical) const {
  const auto found = shapes_.find(logical);
  LONGHAUL_ASSERT(found != shapes_.end(), "a name map asks for {}, which the model does not have", logical);
  return found->second;
}

void PublicTensors::whole(const std::string& name, const std::string& logical) {
  whole(name, logical, dtype_);
}

void PublicTensors::whole(const std::string& name, const std::string& logical, std::string_view dtype) {
  const Shape& shape = shape_of(logical);
  tensors_.push_back({name, shape, dtype, {{logical, Rectangle::whole(shape), Rectangle::whole(shape)}}});
}

void PublicTensors::transposed(const std::string& name, const std::vector<std::string>& logical) {
  PublicTensor tensor{name, {shape_of(logical.front())[1], 0}, dtype_, {}};
  for (const std::string& part : logical) {
    const Shape& shape = shape_of(part);
    tensor.pieces.push_back(
        {part, Rectangle::whole(shape), {{0, tensor.shape[1]}, {shape[1], shape[0]}}, true});
    tensor.shape[1] += shape[0];
  }
  tensors_.push_back(std::move(tensor));
}

void PublicTensors::stacked(const std::string& name, const std::vector<std::string>& logical, int64_t rows) {
  PublicTensor tensor{name, shape_of(logical.front()), dtype_, {}};
  tensor.shape[0] = 0;
  int64_t turns = 1;
  if (rows > 0) turns = shape_of(logical.front())[0] / rows;
  for (int64_t turn = 0; turn < turns; ++turn) {
    for (const std::string& part : logical) {
      Rectangle source = Rectangle::whole(shape_of(part));
      if (rows > 0) {
        source.offset[0] = turn * rows;
        source.length[0] = rows;
      }
      Rectangle target = source;
      target.offset[0] = tensor.shape[0];
      tensor.shape[0] += source.length[0];
      tensor.pieces.push_back({part, source, target});
    }
  }
  tensors_.push_back(std::move(tensor));
}

void PublicTensors::matrices(const std::string& name, const std::vector<std::vector<std::string>>& logical) {
  std::vector<std::string> all;
  for (const auto& matrix : logical) all.insert(all.end(), matrix.begin(), matrix.end());
  stacked(name, all);
  layout::Shape& shape = tensors_.back().shape;
  const auto count = static_cast<int64_t>(logical.size());
  shape = {count, shape[0] / count, shape[1]};
}

void PublicTensors::convolution(const std::string& name, const std::vector<std::string>& logical) {
  stacked(name, logical);
  layout::Shape& shape = tensors_.back().shape;
  shape = {shape[0], 1, shape[1]};
}

}  // namespace longhaul::model
