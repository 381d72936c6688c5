#include "detect/minder/lstm_vae.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace longhaul::detect {
namespace {

enum TensorAt {
  kEncoderIn,
  kEncoderState,
  kEncoderBiasIn,
  kEncoderBiasState,
  kMeanWeight,
  kMeanBias,
  kVarianceWeight,
  kVarianceBias,
  kDecoderIn,
  kDecoderState,
  kDecoderBiasIn,
  kDecoderBiasState,
  kOutWeight,
  kOutBias
};
constexpr double kLeastLogVariance = -12, kMostLogVariance = 4;

inline double exponential(double x) { return std::exp(x); }

// e^x as 2^n · e^r by a polynomial, so that loops of it become vectors; relative error below 2e-7.
inline float exponential(float x) {
  x = std::min(std::max(x, -87.0f), 87.0f);
  const float scaled = x * 1.44269504088896341f;
  const auto n = static_cast<int32_t>(scaled + (scaled < 0 ? -0.5f : 0.5f));
  const float whole = static_cast<float>(n);
  const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  return p * std::bit_cast<float>((n + 127) << 23);
}

template <class T>
inline T sigmoid(T x) {
  return 1 / (1 + exponential(-x));
}
template <class T>
inline T hyperbolic_tangent(T x) {
  return 2 / (1 + exponential(-2 * x)) - 1;
}

// In a fixed order that vectors can follow.
template <class T>
T dot(const T* a, const T* b, int64_t n) {
  T lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int64_t k = 0; k < 16; ++k) lanes[k] += a[i + k] * b[i + k];
  }
  T sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const T lane : lanes) sum += lane;
  return sum;
}

template <class T>
T total(const T* a, int64_t n) {
  T lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int64_t k = 0; k < 16; ++k) lanes[k] += a[i + k];
  }
  T sum = 0;
  for (; i < n; ++i) sum += a[i];
  for (const T lane : lanes) sum += lane;
  return sum;
}

template <class T>
inline void add_scaled(T* into, T factor, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) into[i] += factor * from[i];
}

}  // namespace

int64_t VaeShape::parameters() const {
  const auto lstm = [&](int64_t in) { return 4 * hidden * (in + hidden + 2); };
  return lstm(inputs) + 2 * latent * (hidden + 1) + lstm(latent) + inputs * (hidden + 1);
}

std::vector<VaeTensor> tensors_of(const VaeShape& shape) {
  std::vector<VaeTensor> tensors;
  int64_t offset = 0;
  const auto add = [&](const char* name, int64_t rows, int64_t columns) {
    tensors.push_back({name, offset, rows, columns});
    offset += tensors.back().size();
  };
  const int64_t gates = 4 * shape.hidden;
  add("encoder.weight_ih", gates, shape.inputs);
  add("encoder.weight_hh", gates, shape.hidden);
  add("encoder.bias_ih", gates, 0);
  add("encoder.bias_hh", gates, 0);
  add("mean.weight", shape.latent, shape.hidden);
  add("mean.bias", shape.latent, 0);
  add("log_variance.weight", shape.latent, shape.hidden);
  add("log_variance.bias", shape.latent, 0);
  add("decoder.weight_ih", gates, shape.latent);
  add("decoder.weight_hh", gates, shape.hidden);
  add("decoder.bias_ih", gates, 0);
  add("decoder.bias_hh", gates, 0);
  add("output.weight", shape.inputs, shape.hidden);
  add("output.bias", shape.inputs, 0);
  LONGHAUL_ASSERT(offset == shape.parameters(), "offset {}", offset);
  return tensors;
}

std::vector<float> initial_parameters(const VaeShape& shape, const RandomStream& stream) {
  std::vector<float> values(static_cast<size_t>(shape.parameters()));
  const double bound = 1 / std::sqrt(static_cast<double>(shape.hidden));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(bound * (2 * stream.uniform(i) - 1));
  const auto tensors = tensors_of(shape);
  for (const TensorAt bias : {kEncoderBiasIn, kDecoderBiasIn}) {
    for (int64_t k = 0; k < shape.hidden; ++k)
      values[static_cast<size_t>(tensors[bias].offset + shape.hidden + k)] += 1;
  }
  const auto variance = values.begin() + tensors[kVarianceBias].offset;
  std::fill(variance, variance + shape.latent, -4.0f);
  return values;
}

template <class T>
LstmVae<T>::LstmVae(const VaeShape& shape, int64_t batch)
    : shape_(shape), batch_(batch), tensors_(tensors_of(shape)) {
  const auto prepare = [&](Lstm& lstm, int64_t inputs, TensorAt first) {
    lstm.inputs = inputs, lstm.hidden = shape.hidden, lstm.offset = tensors_[first].offset;
    const auto size = static_cast<size_t>(shape.window * shape.hidden * batch);
    lstm.gates.resize(4 * size), lstm.cells.resize(size), lstm.tanh_cells.resize(size),
        lstm.states.resize(size);
  };
  prepare(encoder_, shape.inputs, kEncoderIn);
  prepare(decoder_, shape.latent, kDecoderIn);
  const auto latent = static_cast<size_t>(shape.latent * batch);
  for (auto* each : {&mean_, &log_variance_, &raw_log_variance_, &z_}) each->resize(latent);
  output_.resize(static_cast<size_t>(shape.window * shape.inputs * batch));
}

template <class T>
void LstmVae<T>::linear(std::span<const T> parameters, const VaeTensor& weight, const T* in, T* out) const {
  const T* w = parameters.data() + weight.offset;
  const T* bias = w + weight.size();  // follows its weight
  for (int64_t r = 0; r < weight.rows; ++r) {
    T* row = out + r * batch_;
    std::fill(row, row + batch_, bias[r]);
    for (int64_t c = 0; c < weight.columns; ++c)
      add_scaled(row, w[r * weight.columns + c], in + c * batch_, batch_);
  }
}

template <class T>
void LstmVae<T>::linear_back(std::span<const T> parameters, const VaeTensor& weight, const T* in,
                             const T* out_gradient, std::span<T> gradient, T* in_gradient) const {
  const T* w = parameters.data() + weight.offset;
  T* dw = gradient.data() + weight.offset;
  for (int64_t r = 0; r < weight.rows; ++r) {
    const T* row = out_gradient + r * batch_;
    dw[weight.size() + r] += total(row, batch_);
    for (int64_t c = 0; c < weight.columns; ++c) {
      dw[r * weight.columns + c] += dot(row, in + c * batch_, batch_);
      add_scaled(in_gradient + c * batch_, w[r * weight.columns + c], row, batch_);
    }
  }
}

// Input of step t at input + t · stride.
template <class T>
void LstmVae<T>::run(Lstm& lstm, std::span<const T> parameters, const T* input, int64_t input_stride) {
  const int64_t h = lstm.hidden, rows = 4 * h, b = batch_;
  const T* w_in = parameters.data() + lstm.offset;
  const T* w_state = w_in + rows * lstm.inputs;
  const T* bias_in = w_state + rows * h;
  const T* bias_state = bias_in + rows;
  for (int64_t t = 0; t < shape_.window; ++t) {
    const T* x = input + t * input_stride;
    const T* before = t == 0 ? nullptr : lstm.states.data() + (t - 1) * h * b;
    T* gates = lstm.gates.data() + t * rows * b;
    for (int64_t r = 0; r < rows; ++r) {
      T* row = gates + r * b;
      std::fill(row, row + b, bias_in[r] + bias_state[r]);
      for (int64_t k = 0; k < lstm.inputs; ++k) add_scaled(row, w_in[r * lstm.inputs + k], x + k * b, b);
      for (int64_t k = 0; before != nullptr && k < h; ++k)
        add_scaled(row, w_state[r * h + k], before + k * b, b);
      const bool is_cell = r / h == 2;
      if (is_cell) {
        for (int64_t i = 0; i < b; ++i) row[i] = hyperbolic_tangent(row[i]);
      } else {
        for (int64_t i = 0; i < b; ++i) row[i] = sigmoid(row[i]);
      }
    }
    for (int64_t k = 0; k < h; ++k) {
      const T *in = gates + k * b, *forget = gates + (h + k) * b, *cell = gates + (2 * h + k) * b,
              *out = gates + (3 * h + k) * b;
      const T* c_before = lstm.cells.data() + ((t - 1) * h + k) * b;
      T* c = lstm.cells.data() + (t * h + k) * b;
      T* tanh_c = lstm.tanh_cells.data() + (t * h + k) * b;
      T* state = lstm.states.data() + (t * h + k) * b;
      for (int64_t i = 0; i < b; ++i) {
        c[i] = in[i] * cell[i] + (t == 0 ? 0 : forget[i] * c_before[i]);
        tanh_c[i] = hyperbolic_tangent(c[i]);
        state[i] = out[i] * tanh_c[i];
      }
    }
  }
}

// state_gradient: the outer gradient of every step's state, [window · hidden][batch]; it is overwritten. Adds
// to gradient and to input_gradient, which all steps share (the decoder's z; null for the encoder, whose
// input is data).
template <class T>
void LstmVae<T>::run_back(const Lstm& lstm, std::span<const T> parameters, const T* input,
                          int64_t input_stride, std::vector<T>& state_gradient, std::span<T> gradient,
                          T* input_gradient) {
  const int64_t h = lstm.hidden, rows = 4 * h, b = batch_;
  const T* w_in = parameters.data() + lstm.offset;
  const T* w_state = w_in + rows * lstm.inputs;
  T* dw_in = gradient.data() + lstm.offset;
  T* dw_state = dw_in + rows * lstm.inputs;
  T* dbias_in = dw_state + rows * h;
  T* dbias_state = dbias_in + rows;
  std::vector<T> cell_gradient(static_cast<size_t>(h * b), 0), raw(static_cast<size_t>(rows * b));
  for (int64_t t = shape_.window - 1; t >= 0; --t) {
    const T* gates = lstm.gates.data() + t * rows * b;
    for (int64_t k = 0; k < h; ++k) {
      const T *in = gates + k * b, *forget = gates + (h + k) * b, *cell = gates + (2 * h + k) * b,
              *out = gates + (3 * h + k) * b;
      const T* c_before = t == 0 ? nullptr : lstm.cells.data() + ((t - 1) * h + k) * b;
      const T* tanh_c = lstm.tanh_cells.data() + (t * h + k) * b;
      const T* dh = state_gradient.data() + (t * h + k) * b;
      T* dc = cell_gradient.data() + k * b;
      T *d_in = raw.data() + k * b, *d_forget = d_in + h * b, *d_cell = d_forget + h * b,
        *d_out = d_cell + h * b;
      for (int64_t i = 0; i < b; ++i) {
        d_out[i] = dh[i] * tanh_c[i] * out[i] * (1 - out[i]);
        const T d = dc[i] + dh[i] * out[i] * (1 - tanh_c[i] * tanh_c[i]);
        d_in[i] = d * cell[i] * in[i] * (1 - in[i]);
        d_cell[i] = d * in[i] * (1 - cell[i] * cell[i]);
        d_forget[i] = c_before == nullptr ? 0 : d * c_before[i] * forget[i] * (1 - forget[i]);
        dc[i] = d * forget[i];
      }
    }
    const T* x = input + t * input_stride;
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = raw.data() + r * b;
      const T sum = total(row, b);
      dbias_in[r] += sum, dbias_state[r] += sum;
      for (int64_t k = 0; k < lstm.inputs; ++k) {
        dw_in[r * lstm.inputs + k] += dot(row, x + k * b, b);
        if (input_gradient != nullptr) add_scaled(input_gradient + k * b, w_in[r * lstm.inputs + k], row, b);
      }
      for (int64_t k = 0; t > 0 && k < h; ++k) {
        dw_state[r * h + k] += dot(row, lstm.states.data() + ((t - 1) * h + k) * b, b);
        add_scaled(state_gradient.data() + ((t - 1) * h + k) * b, w_state[r * h + k], row, b);
      }
    }
  }
}

template <class T>
VaeLoss LstmVae<T>::forward(std::span<const T> parameters, std::span<const T> input, std::span<const T> noise,
                            double beta) {
  const int64_t b = batch_, latent = shape_.latent * b, step = shape_.inputs * b;
  input_.assign(input.begin(), input.end());
  noise_.assign(noise.begin(), noise.end());
  beta_ = beta;
  run(encoder_, parameters, input_.data(), step);
  const T* last = encoder_.states.data() + (shape_.window - 1) * shape_.hidden * b;
  linear(parameters, tensors_[kMeanWeight], last, mean_.data());
  linear(parameters, tensors_[kVarianceWeight], last, raw_log_variance_.data());
  for (int64_t i = 0; i < latent; ++i) {
    const auto at = static_cast<size_t>(i);
    log_variance_[at] = std::clamp(raw_log_variance_[at], static_cast<T>(kLeastLogVariance),
                                   static_cast<T>(kMostLogVariance));
    z_[at] = mean_[at] + exponential(log_variance_[at] / 2) * noise_[at];
  }
  run(decoder_, parameters, z_.data(), 0);
  for (int64_t t = 0; t < shape_.window; ++t)
    linear(parameters, tensors_[kOutWeight], decoder_.states.data() + t * shape_.hidden * b,
           output_.data() + t * step);

  double squares = 0, kl = 0;
  for (size_t i = 0; i < output_.size(); ++i)
    squares += static_cast<double>((output_[i] - input_[i]) * (output_[i] - input_[i]));
  for (size_t i = 0; i < mean_.size(); ++i)
    kl -=
        0.5 * static_cast<double>(1 + log_variance_[i] - mean_[i] * mean_[i] - exponential(log_variance_[i]));
  VaeLoss loss{.reconstruction = squares / static_cast<double>(output_.size()),
               .kl = kl / static_cast<double>(b)};
  loss.total = loss.reconstruction + beta * loss.kl;
  return loss;
}

template <class T>
void LstmVae<T>::backward(std::span<const T> parameters, std::span<T> gradient) {
  const int64_t b = batch_, h = shape_.hidden, step = shape_.inputs * b;
  std::fill(gradient.begin(), gradient.end(), static_cast<T>(0));
  std::vector<T> d_output(output_.size()), d_states(static_cast<size_t>(shape_.window * h * b), 0),
      d_z(z_.size(), 0);
  const T scale = static_cast<T>(2.0 / static_cast<double>(output_.size()));
  for (size_t i = 0; i < output_.size(); ++i) d_output[i] = scale * (output_[i] - input_[i]);
  for (int64_t t = 0; t < shape_.window; ++t) {
    linear_back(parameters, tensors_[kOutWeight], decoder_.states.data() + t * h * b,
                d_output.data() + t * step, gradient, d_states.data() + t * h * b);
  }
  run_back(decoder_, parameters, z_.data(), 0, d_states, gradient, d_z.data());

  const T share = static_cast<T>(beta_ / static_cast<double>(b));
  std::vector<T> d_mean(z_.size()), d_variance(z_.size());
  for (size_t i = 0; i < z_.size(); ++i) {
    const T variance = exponential(log_variance_[i]);
    d_mean[i] = d_z[i] + share * mean_[i];
    d_variance[i] = d_z[i] * noise_[i] * exponential(log_variance_[i] / 2) / 2 + share * (variance - 1) / 2;
    if (raw_log_variance_[i] != log_variance_[i]) d_variance[i] = 0;  // held at a limit
  }
  d_states.assign(static_cast<size_t>(shape_.window * h * b), 0);
  const int64_t last = (shape_.window - 1) * h * b;
  linear_back(parameters, tensors_[kMeanWeight], encoder_.states.data() + last, d_mean.data(), gradient,
              d_states.data() + last);
  linear_back(parameters, tensors_[kVarianceWeight], encoder_.states.data() + last, d_variance.data(),
              gradient, d_states.data() + last);
  run_back(encoder_, parameters, input_.data(), step, d_states, gradient, nullptr);
}

template class LstmVae<float>;
template class LstmVae<double>;

}  // namespace longhaul::detect
