#include "kernels/feature_maps/op.h"

#include <fmt/format.h>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/feature_maps/cuda_call.h"
#include "kernels/feature_maps/loops.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

constexpr const char *kFeatures = "features", *kGated = "gated";

int64_t feature_grain(int64_t columns) {
  return std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, columns));
}

void check_feature_rows(const char* op, const char* argument, const Tensor& x) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf)
    refuse_argument(op, argument, "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
}

void check_turn(const Tensor& x, int64_t heads, Turn turn, const TurnTable& table) {
  if (heads < 1 || x.size(1) % heads != 0)
    refuse_argument(kFeatures, "x", fmt::format("[tokens, {} heads]", heads), shape_text(x));
  if (turn == Turn::kNone) return;
  const int64_t of_head = x.size(1) / heads / (turn == Turn::kRotary ? 2 : 1);
  if (turn == Turn::kRotary && x.size(1) / heads % 2 != 0)
    refuse_argument(kFeatures, "x", "an even number of channels a head", shape_text(x));
  for (const Tensor* each : {&table.cos_tr, &table.sin_tr}) {
    const bool rows = each->defined() && each->dim() == 2 && each->size(0) == x.size(0) &&
                      each->scalar_type() == wide_type(x);
    if (rows && each->sizes() == table.cos_tr.sizes() &&
        (each->size(1) == of_head || each->size(1) == heads * of_head))
      continue;
    refuse_argument(
        kFeatures, "table",
        fmt::format("[{}, {} or {}] {}", x.size(0), of_head, heads * of_head, name_of(wide_type(x))),
        shape_text(*each));
  }
}

Tensor with_rows(const Tensor& x) { return x.numel() == 0 || x.stride(1) == 1 ? x : x.contiguous(); }

struct Featuring {
  int64_t heads;
  FeatureMap map;
  Turn turn;
  bool on_gpu = false;
};

FeatureLoops loops_of_features(const Tensor& x, const Featuring& by, const TurnTable& table) {
  return {.storage = storage_of(x),
          .heads = by.heads,
          .head_dim = x.size(1) / by.heads,
          .map = by.map,
          .turn = by.turn,
          .x = pointer_to(x),
          .ld_x = x.stride(0),
          .cos_tr = pointer_to(table.cos_tr),
          .sin_tr = pointer_to(table.sin_tr),
          .angles = table.cos_tr.defined() ? table.cos_tr.size(1) : 0,
          .of_head = x.size(1) / by.heads / (by.turn == Turn::kRotary ? 2 : 1)};
}

std::vector<int64_t> feature_sizes(const Tensor& x, const Featuring& by) {
  return {x.size(0), by.heads, x.size(1) / by.heads * (by.turn == Turn::kCosine ? 2 : 1)};
}

Tensor features_result(const Tensor& x, const Featuring& by, const TurnTable& table) {
  const Tensor y = at::empty(feature_sizes(x, by), x.options().requires_grad(false));
  if (by.on_gpu) {
    cuda_calls<FeaturesCuda>().features(x, by.heads, by.map, by.turn, table, y);
    return y;
  }
  FeatureLoops loops = loops_of_features(x, by, table);
  loops.y = writable(y);
  parallel_for(0, x.size(0), feature_grain(x.size(1)),
               [&](int64_t begin, int64_t end) { feature_rows(loops, begin, end); });
  return y;
}

std::vector<Tensor> features_gradient(const BackwardCall& call, const Featuring& by) {
  const Tensor& x = call.saved[0];
  const Tensor dy = call.gradients[0].contiguous(),
               dx = at::empty(x.sizes(), x.options().requires_grad(false));
  const TurnTable table{call.saved[1], call.saved[2]};
  Tensor d_cos, d_sin;
  if (table.cos_tr.defined() && (call.wanted[1] || call.wanted[2])) {
    d_cos = at::zeros(table.cos_tr.sizes(), table.cos_tr.options().requires_grad(false));
    d_sin = at::zeros_like(d_cos);
  }
  if (by.on_gpu) {
    cuda_calls<FeaturesCuda>().features_gradient(x, by.heads, by.map, by.turn, table, dy, dx, {d_cos, d_sin});
    return {dx, d_cos, d_sin};
  }
  FeatureLoops loops = loops_of_features(x, by, table);
  loops.dy = pointer_to(dy);
  loops.dx = writable(dx);
  loops.d_cos_tr = writable(d_cos), loops.d_sin_tr = writable(d_sin);
  parallel_for(0, x.size(0), feature_grain(x.size(1)),
               [&](int64_t begin, int64_t end) { feature_gradient_rows(loops, begin, end); });
  return {dx, d_cos, d_sin};
}

GatedLoops loops_of_gated(const Tensor& n, const Tensor& u, FeatureMap map) {
  return {.storage = storage_of(n),
          .channels = n.size(1),
          .map = map,
          .n = pointer_to(n),
          .u = pointer_to(u),
          .ld_n = n.stride(0),
          .ld_u = u.stride(0)};
}

Tensor gated_result(const Tensor& n, const Tensor& u, FeatureMap map, bool on_gpu) {
  const Tensor y = at::empty(n.sizes(), n.options().requires_grad(false));
  if (on_gpu) {
    cuda_calls<FeaturesCuda>().gated(n, u, map, y);
    return y;
  }
  GatedLoops loops = loops_of_gated(n, u, map);
  loops.y = writable(y);
  parallel_for(0, n.size(0), feature_grain(n.size(1)),
               [&](int64_t begin, int64_t end) { gated_rows(loops, begin, end); });
  return y;
}

std::vector<Tensor> gated_gradient(const BackwardCall& call, FeatureMap map, bool on_gpu) {
  const Tensor &n = call.saved[0], &u = call.saved[1];
  const Tensor dy = call.gradients[0].contiguous(),
               dn = at::empty(n.sizes(), n.options().requires_grad(false)), du = at::empty_like(dn);
  if (on_gpu) {
    cuda_calls<FeaturesCuda>().gated_gradient(n, u, map, dy, dn, du);
    return {dn, du};
  }
  GatedLoops loops = loops_of_gated(n, u, map);
  loops.dy = pointer_to(dy);
  loops.dn = writable(dn), loops.du = writable(du);
  parallel_for(0, n.size(0), feature_grain(n.size(1)),
               [&](int64_t begin, int64_t end) { gated_gradient_rows(loops, begin, end); });
  return {dn, du};
}

Tensor mapped_reference(const Tensor& x, FeatureMap map) {
  switch (map) {
    case FeatureMap::kNone:
      return x;
    case FeatureMap::kSilu:
      return at::silu(x);
    case FeatureMap::kRelu:
      return at::relu(x);
    case FeatureMap::kSigmoid:
      return at::sigmoid(x);
  }
  return {};
}

}  // namespace

Tensor features(const Tensor& x, int64_t heads, FeatureMap map, Turn turn, const TurnTable& table) {
  check_feature_rows(kFeatures, "x", x);
  check_turn(x, heads, turn, table);
  const ByDevice choice = choose_by_device(kFeatures, x, refuse_cuda(x));
  const Featuring by{heads, map, turn, choice == ByDevice::kCuda};
  const bool turns = turn != Turn::kNone;
  const Tensor cos = turns ? table.cos_tr : Tensor(), sin = turns ? table.sin_tr : Tensor();
  switch (choice) {
    case ByDevice::kMeta:
      return meta_results({x, cos, sin}, {{feature_sizes(x, by), x.scalar_type()}})[0];
    case ByDevice::kCuda:
    case ByDevice::kCpu:
      return differentiable(kFeatures, {x, cos, sin}, [&]() -> Recorded {
        const Tensor rows = with_rows(x), c = turns ? cos.contiguous() : cos,
                     s = turns ? sin.contiguous() : sin;
        const Tensor y = features_result(rows, by, {c, s});
        return {.results = {y},
                .saved = {rows, c, s},
                .backward = [by](const BackwardCall& call) { return features_gradient(call, by); },
                .cheap = {{y, {rows, c, s}, [by](const std::vector<Tensor>& from) {
                             return features_result(from[0], by, {from[1], from[2]});
                           }}}};
      })[0];
    default:
      return features_reference(x, heads, map, turn, table);
  }
}

Tensor gated(const Tensor& n, const Tensor& u, FeatureMap map) {
  check_feature_rows(kGated, "n", n);
  if (u.sizes() != n.sizes() || u.scalar_type() != n.scalar_type())
    refuse_argument(kGated, "u", "as n: " + shape_text(n), shape_text(u));
  const ByDevice choice = choose_by_device(kGated, n, refuse_cuda(n));
  const bool on_gpu = choice == ByDevice::kCuda;
  switch (choice) {
    case ByDevice::kMeta:
      return meta_results({n, u}, {{n.sizes().vec(), n.scalar_type()}})[0];
    case ByDevice::kCuda:
    case ByDevice::kCpu:
      return differentiable(kGated, {n, u}, [&]() -> Recorded {
        const Tensor rows = with_rows(n), by = with_rows(u), y = gated_result(rows, by, map, on_gpu);
        return {
            .results = {y},
            .saved = {rows, by},
            .backward = [map, on_gpu](const BackwardCall& call) { return gated_gradient(call, map, on_gpu); },
            .cheap = {{y, {rows, by}, [map, on_gpu](const std::vector<Tensor>& from) {
                         return gated_result(from[0], from[1], map, on_gpu);
                       }}}};
      })[0];
    default:
      return gated_reference(n, u, map);
  }
}

Tensor features_reference(const Tensor& x, int64_t heads, FeatureMap map, Turn turn, const TurnTable& table) {
  const Tensor f = mapped_reference(x.to(wide_type(x)), map).view({x.size(0), heads, -1});
  const int64_t dim = f.size(2);
  if (turn == Turn::kNone) return f.to(x.scalar_type());
  if (turn == Turn::kCosine) {
    const auto angles = [&](const Tensor& each) { return each.view({x.size(0), -1, dim}); };
    return at::cat({f * angles(table.cos_tr), f * angles(table.sin_tr)}, 2).to(x.scalar_type());
  }
  const Tensor a = f.narrow(2, 0, dim / 2), b = f.narrow(2, dim / 2, dim / 2),
               c = table.cos_tr.view({x.size(0), -1, dim / 2}),
               s = table.sin_tr.view({x.size(0), -1, dim / 2});
  return at::cat({a * c - b * s, b * c + a * s}, 2).to(x.scalar_type());
}

Tensor gated_reference(const Tensor& n, const Tensor& u, FeatureMap map) {
  const ScalarType wide = wide_type(n);
  return (n.to(wide) * mapped_reference(u.to(wide), map)).to(n.scalar_type());
}

}  // namespace longhaul::kernels
