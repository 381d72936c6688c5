// Checks and timings of the optimizer step: gradient norm, clipping and AdamW over tensors of awkward sizes,
// against fp64.
#include "kernels/adamw/cuda.h"

#include <cmath>
#include <list>

#include "gpu_check/session.h"

namespace longhaul::gpu_check {
namespace {

using kernels::cuda::AdamwPiece;
using kernels::cuda::AdamwStep;
using kernels::cuda::AdamwTensor;

struct Tensors {  // of one model, on the device
  struct One {
    Buffer<float> master, m, v, gradient;
    Buffer<Bf16> value;
  };
  Tensors(Session& session, const std::vector<int64_t>& counts) {
    for (const int64_t count : counts) {
      std::vector<float> second = random_fp32(session, count);
      for (float& x : second) x = x * x;
      all.push_back({Buffer<float>(random_fp32(session, count)),
                     Buffer<float>(random_fp32(session, count, 0.1)), Buffer<float>(std::move(second)),
                     Buffer<float>(random_fp32(session, count, 3)), Buffer<Bf16>::output(count)});
      One& one = all.back();
      const bool decayed = all.size() % 2 == 1, copied = all.size() % 3 != 0;
      host.push_back({one.master.device(), one.m.device(), one.v.device(), one.gradient.device(),
                      copied ? one.value.device() : nullptr, count, decayed ? 0.99f : 1.f});
    }
  }
  std::list<One> all;
  std::vector<AdamwTensor> host;
};

void check_step(Session& session, float clip_norm, const char* name) {
  Tensors tensors(session, {1, 4096, 4097, 3, 10001});
  const std::vector<AdamwPiece> pieces = kernels::cuda::adamw_pieces(tensors.host);
  Buffer<AdamwTensor> table(tensors.host);
  Buffer<AdamwPiece> pieces_on_device(pieces);
  const AdamwStep step{table.device(),
                       pieces_on_device.device(),
                       pieces_on_device.size(),
                       0.5f,
                       clip_norm,
                       0.9f,
                       0.95f,
                       1e-8f,
                       0.01f,
                       1.5f};
  auto norm = Buffer<float>::output(2);
  auto workspace =
      Buffer<unsigned char>::output(kernels::cuda::gradient_norm_workspace_bytes(step.piece_count));
  double squares = 0;
  for (const auto& one : tensors.all) {
    for (const float g : one.gradient.host) squares += static_cast<double>(g) * static_cast<double>(g);
  }
  const double size = std::sqrt(squares) * 0.5,
               factor = 0.5 *
                        (clip_norm > 0 ? std::min(1.0, static_cast<double>(clip_norm) / (size + 1e-6)) : 1.0);
  kernels::cuda::gradient_norm(step, norm.device(), workspace.device(), nullptr);
  kernels::cuda::adamw(step, norm.device(), nullptr);
  kernels::cuda::runtime::synchronize();
  session.compare("adamw", name, "norm", norm, {size, factor}, kFp32);
  size_t index = 0;
  for (auto& one : tensors.all) {
    std::vector<double> w = widened(one.master.host), m = widened(one.m.host), v = widened(one.v.host);
    const std::vector<double> g = widened(one.gradient.host);
    for (size_t i = 0; i < w.size(); ++i) {
      const double gradient = g[i] * factor;
      m[i] = 0.9 * m[i] + 0.1 * gradient;
      v[i] = 0.95 * v[i] + 0.05 * gradient * gradient;
      w[i] = static_cast<double>(tensors.host[index].kept_weight) * w[i] -
             0.01 * m[i] / (std::sqrt(v[i]) * 1.5 + 1e-8);
    }
    const std::string which = " of tensor " + std::to_string(index);
    session.compare("adamw", name, "master" + which, one.master, w, kFp32);
    session.compare("adamw", name, "m" + which, one.m, m, kFp32);
    session.compare("adamw", name, "v" + which, one.v, v, kFp32);
    session.compare("adamw", name, "gradient" + which, one.gradient, std::vector<double>(g.size(), 0),
                    kExact);
    if (tensors.host[index].value != nullptr)
      session.compare("adamw", name, "value" + which, one.value, w, kBf16);
    ++index;
  }
  session.expect("adamw", name, "workspace", workspace.guards_hold(), "wrote outside the workspace");
}

}  // namespace

void check_adamw(Session& session) {
  check_step(session, 0, "no clipping");
  check_step(session, 1, "clipped");
  check_step(session, 1e9f, "far from clipping");
}

void time_adamw(Session& session) {
  Tensors tensors(session, std::vector<int64_t>(12, 10'000'000));
  Buffer<AdamwTensor> table(tensors.host);
  Buffer<AdamwPiece> pieces(kernels::cuda::adamw_pieces(tensors.host));
  const AdamwStep step{table.device(), pieces.device(), pieces.size(), 1, 1, 0.9f, 0.95f, 1e-8f, 1e-4f, 1};
  auto norm = Buffer<float>::output(2);
  Buffer<unsigned char> workspace(std::vector<unsigned char>(
      static_cast<size_t>(kernels::cuda::gradient_norm_workspace_bytes(step.piece_count))));
  session.time("gradient norm", "120M parameters", 4 * 120e6, 0,
               [&] { kernels::cuda::gradient_norm(step, norm.device(), workspace.device(), nullptr); });
  session.time("adamw", "120M parameters", (16 + 16) * 120e6 + 2 * 80e6, 0,
               [&] { kernels::cuda::adamw(step, norm.device(), nullptr); });
}

}  // namespace longhaul::gpu_check
