// The denoiser of one metric: an LSTM variational autoencoder (Minder, arXiv 2411.01791) over `window`
// samples of one machine. Forward and backward pass are written by hand, as plain loops over a batch, for
// float (training) and double (gradient checks). detect/minder/vector_loops.h has the fast forward pass.
//
//   encoder: LSTM(inputs → hidden); mean, log-variance = linear of its last state (log-variance held to [−12,
//     4])
//   z = mean + exp(log-variance / 2) · ε;  decoder: LSTM(latent → hidden) with z at every step; output =
//     linear of its states
//   loss = mean over batch and steps of (output − input)² + β · mean over batch of KL(N(mean, variance) ‖
//     N(0, 1))
//
// With Minder's sizes (1 input, window 8, hidden 4, latent 8) it has 421 parameters. The gates are in the
// order input, forget, cell, output. Batches are [feature][batch]: the values of one feature are contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"

namespace longhaul::detect {

struct VaeShape {
  int64_t inputs = 1, window = 8, hidden = 4, latent = 8;

  bool operator==(const VaeShape&) const = default;
  int64_t parameters() const;
};

// VaeTensor: the place of one tensor in the vector of all parameters.
struct VaeTensor {
  std::string name;                           // "encoder.weight_ih"
  int64_t offset = 0, rows = 0, columns = 0;  // columns 0: a vector
  int64_t size() const { return rows * (columns == 0 ? 1 : columns); }
};
std::vector<VaeTensor> tensors_of(const VaeShape& shape);

// Draws from U(−1/√hidden, 1/√hidden); forget gates start open (+1), log-variances at −4.
std::vector<float> initial_parameters(const VaeShape& shape, const RandomStream& stream);

struct VaeLoss {
  double reconstruction = 0, kl = 0, total = 0;
};

template <class T>
class LstmVae {
 public:
  LstmVae(const VaeShape& shape, int64_t batch);

  // input [window · inputs][batch], noise [latent][batch]; `output` has the shape of input. Keeps what
  // backward needs.
  VaeLoss forward(std::span<const T> parameters, std::span<const T> input, std::span<const T> noise,
                  double beta);
  std::span<const T> output() const { return output_; }
  std::span<const T> mean() const { return mean_; }
  // For the last forward pass; overwrites `gradient`.
  void backward(std::span<const T> parameters, std::span<T> gradient);

  // Lstm: one LSTM alone, to be compared with another implementation: input [steps · inputs][batch] → states
  // [steps · hidden][batch].
  struct Lstm {
    int64_t inputs, hidden, offset;                   // its tensors begin at `offset`
    std::vector<T> gates, cells, tanh_cells, states;  // of every step
  };

 private:
  void run(Lstm& lstm, std::span<const T> parameters, const T* input, int64_t input_stride);
  void run_back(const Lstm& lstm, std::span<const T> parameters, const T* input, int64_t input_stride,
                std::vector<T>& state_gradient, std::span<T> gradient, T* input_gradient);
  void linear(std::span<const T> parameters, const VaeTensor& weight, const T* in, T* out) const;
  void linear_back(std::span<const T> parameters, const VaeTensor& weight, const T* in, const T* out_gradient,
                   std::span<T> gradient, T* in_gradient) const;

  VaeShape shape_;
  int64_t batch_;
  std::vector<VaeTensor> tensors_;
  Lstm encoder_, decoder_;
  std::vector<T> input_, noise_, mean_, log_variance_, raw_log_variance_, z_, output_;
  double beta_ = 0;
};

extern template class LstmVae<float>;
extern template class LstmVae<double>;

}  // namespace longhaul::detect
