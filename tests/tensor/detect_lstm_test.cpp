// The denoiser of src/detect (ground floor, by hand) against LibTorch's LSTM and its autograd, forward and
// backward.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <limits>

#include "base/random.h"
#include "detect/minder/lstm_vae.h"
#include "detect/minder/vector_loops.h"

namespace longhaul::detect {
namespace {

struct Peer {
  at::Tensor output, loss;
  std::vector<at::Tensor> parameters;
};

// The same network of at::lstm and at::linear. x: [window, batch, inputs].
Peer peer_of(const VaeShape& shape, const std::vector<double>& values, const at::Tensor& x,
             const at::Tensor& noise, double beta, at::ScalarType dtype) {
  Peer peer;
  for (const VaeTensor& tensor : tensors_of(shape)) {
    std::vector<int64_t> sizes = {tensor.rows};
    if (tensor.columns > 0) sizes.push_back(tensor.columns);
    at::Tensor parameter = at::empty(sizes, at::kDouble);
    std::copy_n(values.begin() + tensor.offset, tensor.size(), parameter.data_ptr<double>());
    peer.parameters.push_back(parameter.to(dtype).requires_grad_(true));
  }
  const auto& p = peer.parameters;
  const int64_t batch = x.size(1);
  const at::Tensor zero = at::zeros({1, batch, shape.hidden}, dtype);
  const auto lstm = [&](const at::Tensor& in, size_t first) {
    return at::lstm(in, {zero, zero}, {p[first], p[first + 1], p[first + 2], p[first + 3]}, true, 1, 0.0,
                    false, false, false);
  };
  const at::Tensor last = std::get<0>(lstm(x, 0))[shape.window - 1];
  const at::Tensor mean = at::linear(last, p[4], p[5]),
                   log_variance = at::linear(last, p[6], p[7]).clamp(-12, 4);
  const at::Tensor z = mean + (log_variance / 2).exp() * noise;
  peer.output = at::linear(std::get<0>(lstm(z.unsqueeze(0).expand({shape.window, batch, shape.latent}), 8)),
                           p[12], p[13]);
  const at::Tensor kl = (-0.5 * (1 + log_variance - mean * mean - log_variance.exp())).sum() / batch;
  peer.loss = (peer.output - x).square().mean() + beta * kl;
  return peer;
}

template <class T>
void compare(double tolerance) {
  constexpr at::ScalarType kType = std::is_same_v<T, float> ? at::kFloat : at::kDouble;
  for (const VaeShape shape :
       {VaeShape{}, VaeShape{.inputs = 7}, VaeShape{.inputs = 2, .window = 5, .hidden = 3, .latent = 6}}) {
    constexpr int64_t kBatch = 37;
    const RandomStream stream(5, "parity");
    std::vector<double> values;
    for (int64_t i = 0; i < shape.parameters(); ++i)
      values.push_back(1.2 * stream.uniform(static_cast<uint64_t>(i)) - 0.6);
    std::vector<T> parameters(values.begin(), values.end()), input, noise;
    at::Tensor x = at::empty({shape.window, kBatch, shape.inputs}, kType),
               eps = at::empty({kBatch, shape.latent}, kType);
    for (int64_t row = 0; row < shape.window * shape.inputs; ++row) {
      for (int64_t b = 0; b < kBatch; ++b) {
        input.push_back(static_cast<T>(stream.uniform(static_cast<uint64_t>(10'000 + row * kBatch + b))));
        x.data_ptr<T>()[(row / shape.inputs * kBatch + b) * shape.inputs + row % shape.inputs] = input.back();
      }
    }
    for (int64_t l = 0; l < shape.latent; ++l) {
      for (int64_t b = 0; b < kBatch; ++b) {
        noise.push_back(static_cast<T>(stream.normal(static_cast<uint64_t>(90'000 + l * kBatch + b))));
        eps.data_ptr<T>()[b * shape.latent + l] = noise.back();
      }
    }
    LstmVae<T> vae(shape, kBatch);
    const VaeLoss loss = vae.forward(parameters, input, noise, 0.02);
    std::vector<T> gradient(parameters.size(), std::numeric_limits<T>::quiet_NaN());
    vae.backward(parameters, gradient);

    Peer peer = peer_of(shape, values, x, eps, 0.02, kType);
    EXPECT_NEAR(loss.total, peer.loss.template item<double>(), tolerance);
    const at::Tensor output = peer.output.detach().contiguous();
    for (int64_t row = 0; row < shape.window * shape.inputs; ++row) {
      for (int64_t b = 0; b < kBatch; ++b) {
        ASSERT_NEAR(
            static_cast<double>(vae.output()[static_cast<size_t>(row * kBatch + b)]),
            static_cast<double>(
                output.data_ptr<T>()[(row / shape.inputs * kBatch + b) * shape.inputs + row % shape.inputs]),
            tolerance);
      }
    }
    const auto gradients =
        torch::autograd::grad({peer.loss}, {peer.parameters.begin(), peer.parameters.end()});
    const auto tensors = tensors_of(shape);
    for (size_t t = 0; t < tensors.size(); ++t) {
      const at::Tensor expected = gradients[t].contiguous();
      for (int64_t i = 0; i < tensors[t].size(); ++i)
        ASSERT_NEAR(static_cast<double>(gradient[static_cast<size_t>(tensors[t].offset + i)]),
                    static_cast<double>(expected.data_ptr<T>()[i]), tolerance)
            << tensors[t].name << " " << i;
    }
  }
}

TEST(DetectLstm, Float32AsLibTorch) { compare<float>(1e-6); }
TEST(DetectLstm, Float64AsLibTorch) { compare<double>(1e-12); }

}  // namespace
}  // namespace longhaul::detect
