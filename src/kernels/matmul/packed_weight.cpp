#include "kernels/matmul/packed_weight.h"

#include "base/error.h"
#include "kernels/matmul/product.h"

namespace longhaul::kernels {
namespace {

template <class Element>
void pack(const Tensor& weight, bool for_input, int64_t longest, MemoryPurpose purpose, Tensor& panels) {
  const int64_t matrices = weight.dim() == 3 ? weight.size(0) : 1, out = weight.size(-2),
                in = weight.size(-1);
  const int64_t size =
      matrices * PanelLayout<Element>(for_input ? out : in, for_input ? in : out, longest).size();
  if (!panels.defined() || panels.numel() != size) {
    const MemoryPurposeScope scope(purpose);
    panels = at::empty({size}, weight.options().requires_grad(false));
  }
  pack_weights({static_cast<const Element*>(weight.const_data_ptr()), matrices, out, in, for_input, longest},
               static_cast<Element*>(panels.mutable_data_ptr()));
}

// In-place writes so far. Tensors made in inference mode count none; a copy of theirs does not outlive the
// call it is made for.
int64_t writes_to(const Tensor& weight) {
  return weight.is_inference() ? 0 : static_cast<int64_t>(weight._version());
}

}  // namespace

void PackedWeight::written(uint64_t version) {
  expect_newest(version);
  newest_ = version;
}

void PackedWeight::expect_newest(uint64_t version) const {
  LONGHAUL_ASSERT(version >= newest_,
                  "version {} of a weight is asked for after it was written and became version {}: a "
                  "backward pass must run before the "
                  "weights of its forward pass are updated",
                  version, newest_);
}

const void* PackedWeight::fresh(Copy& copy, const Tensor& weight, uint64_t version, bool for_input,
                                int64_t longest) {
  written(version);
  const void* data = weight.const_data_ptr();
  const int64_t writes = writes_to(weight);
  if (!copy.panels.defined() || copy.data != data || copy.version != version || copy.writes != writes ||
      copy.longest != longest || copy.panels.scalar_type() != weight.scalar_type()) {
    LONGHAUL_ASSERT(weight.is_contiguous(), "a weight that is not contiguous");
    if (copy.panels.defined() && copy.panels.scalar_type() != weight.scalar_type()) copy.panels = Tensor();
    if (weight.scalar_type() == at::kBFloat16)
      pack<uint16_t>(weight, for_input, longest, purpose_, copy.panels);
    else
      pack<float>(weight, for_input, longest, purpose_, copy.panels);
    copy.data = data;
    copy.version = version;
    copy.writes = writes;
    copy.longest = longest;
    ++packings_;
  }
  return copy.panels.const_data_ptr();
}

void PackedWeight::pack_rows(const Tensor& weight, int64_t matrix, int64_t begin, int64_t end) {
  const auto run = [&]<class Element>(Element) {
    for (Copy* copy : {&for_output_, &for_input_gradient_}) {
      if (!copy->panels.defined()) continue;
      const WeightsToPack<Element> from{static_cast<const Element*>(weight.const_data_ptr()),
                                        weight.dim() == 3 ? weight.size(0) : 1,
                                        weight.size(-2),
                                        weight.size(-1),
                                        copy == &for_input_gradient_,
                                        copy->longest};
      kernels::pack_rows(from, matrix, begin, end, static_cast<Element*>(copy->panels.mutable_data_ptr()));
    }
  };
  if (weight.scalar_type() == at::kBFloat16)
    run(uint16_t{});
  else
    run(float{});
}

void PackedWeight::refreshed(const Tensor& weight, uint64_t version) {
  written(version);
  for (Copy* copy : {&for_output_, &for_input_gradient_}) {
    if (!copy->panels.defined()) continue;
    copy->version = version;
    copy->writes = writes_to(weight);
  }
}

int64_t PackedWeight::bytes() const {
  int64_t sum = 0;
  for (const Copy* copy : {&for_output_, &for_input_gradient_}) {
    if (copy->panels.defined()) sum += static_cast<int64_t>(copy->panels.nbytes());
  }
  return sum;
}

}  // namespace longhaul::kernels
