// The autoencoder against the definition in plain double loops, its gradients against differences, and its
// training.
#include "detect/minder/lstm_vae.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detect/minder/train.h"
#include "detect/minder/vector_loops.h"

namespace longhaul::detect {
namespace {

// One window of one machine, written out as the equations stand.
std::vector<double> written_out(const VaeShape& shape, std::span<const double> p,
                                std::span<const double> window, std::span<const double> noise) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const int64_t h = shape.hidden;
  size_t at = 0;
  const auto take = [&](int64_t size) {
    return p.subspan((at += static_cast<size_t>(size)) - static_cast<size_t>(size),
                     static_cast<size_t>(size));
  };
  const auto lstm = [&](int64_t inputs, const auto& input_of) {
    const auto w_in = take(4 * h * inputs), w_state = take(4 * h * h), b_in = take(4 * h),
               b_state = take(4 * h);
    std::vector<double> state(static_cast<size_t>(h), 0), cell(static_cast<size_t>(h), 0), all;
    for (int64_t t = 0; t < shape.window; ++t) {
      std::vector<double> gates(static_cast<size_t>(4 * h));
      for (int64_t r = 0; r < 4 * h; ++r) {
        double sum = b_in[static_cast<size_t>(r)] + b_state[static_cast<size_t>(r)];
        for (int64_t k = 0; k < inputs; ++k)
          sum += w_in[static_cast<size_t>(r * inputs + k)] * input_of(t, k);
        for (int64_t k = 0; k < h; ++k)
          sum += w_state[static_cast<size_t>(r * h + k)] * state[static_cast<size_t>(k)];
        gates[static_cast<size_t>(r)] = sum;
      }
      for (int64_t k = 0; k < h; ++k) {
        const auto gate = [&](int64_t g) { return gates[static_cast<size_t>(g * h + k)]; };
        double& c = cell[static_cast<size_t>(k)];
        c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * std::tanh(gate(2));
        state[static_cast<size_t>(k)] = sigmoid(gate(3)) * std::tanh(c);
      }
      all.insert(all.end(), state.begin(), state.end());
    }
    return all;
  };
  const auto encoded = lstm(
      shape.inputs, [&](int64_t t, int64_t k) { return window[static_cast<size_t>(t * shape.inputs + k)]; });
  const double* last = encoded.data() + (shape.window - 1) * h;
  const auto linear = [&](int64_t rows, const double* in) {
    const auto w = take(rows * h), b = take(rows);
    std::vector<double> out;
    for (int64_t r = 0; r < rows; ++r) {
      double sum = b[static_cast<size_t>(r)];
      for (int64_t k = 0; k < h; ++k) sum += w[static_cast<size_t>(r * h + k)] * in[k];
      out.push_back(sum);
    }
    return out;
  };
  const auto mean = linear(shape.latent, last), log_variance = linear(shape.latent, last);
  std::vector<double> z;
  for (size_t l = 0; l < mean.size(); ++l)
    z.push_back(mean[l] + std::exp(std::clamp(log_variance[l], -12.0, 4.0) / 2) * noise[l]);
  const auto decoded = lstm(shape.latent, [&](int64_t, int64_t k) { return z[static_cast<size_t>(k)]; });
  std::vector<double> out;
  const size_t before = at;
  for (int64_t t = 0; t < shape.window; ++t) {
    at = before;
    for (const double value : linear(shape.inputs, decoded.data() + t * h)) out.push_back(value);
  }
  return out;
}

template <class T>
std::vector<T> random_values(size_t count, const char* name, double scale, double shift = 0) {
  const RandomStream stream(7, name);
  std::vector<T> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(static_cast<T>(shift + scale * (2 * stream.uniform(i) - 1)));
  return values;
}

TEST(LstmVae, HasMindersParameters) {
  EXPECT_EQ(VaeShape{}.parameters(), 421);
  EXPECT_EQ(initial_parameters({}, RandomStream(1, "x")).size(), 421u);
}

TEST(LstmVae, IsWhatTheEquationsSay) {
  for (const VaeShape shape : {VaeShape{}, VaeShape{.inputs = 3, .window = 5, .hidden = 2, .latent = 3}}) {
    constexpr int64_t kBatch = 21;
    const auto p = random_values<double>(static_cast<size_t>(shape.parameters()), "p", 0.9);
    const auto x =
        random_values<double>(static_cast<size_t>(shape.window * shape.inputs * kBatch), "x", 0.5, 0.5);
    const auto noise = random_values<double>(static_cast<size_t>(shape.latent * kBatch), "n", 1.5);
    LstmVae<double> vae(shape, kBatch);
    const VaeLoss loss = vae.forward(p, x, noise, 0.1);
    double squares = 0;
    for (int64_t b = 0; b < kBatch; ++b) {
      std::vector<double> window, own_noise;
      for (int64_t i = 0; i < shape.window * shape.inputs; ++i)
        window.push_back(x[static_cast<size_t>(i * kBatch + b)]);
      for (int64_t i = 0; i < shape.latent; ++i)
        own_noise.push_back(noise[static_cast<size_t>(i * kBatch + b)]);
      const auto expected = written_out(shape, p, window, own_noise);
      for (int64_t i = 0; i < shape.window * shape.inputs; ++i) {
        const double got = vae.output()[static_cast<size_t>(i * kBatch + b)];
        ASSERT_NEAR(got, expected[static_cast<size_t>(i)], 1e-12) << "value " << i << " of window " << b;
        squares += (got - window[static_cast<size_t>(i)]) * (got - window[static_cast<size_t>(i)]);
      }
    }
    EXPECT_NEAR(loss.reconstruction, squares / static_cast<double>(shape.window * shape.inputs * kBatch),
                1e-12);
    EXPECT_NEAR(loss.total, loss.reconstruction + 0.1 * loss.kl, 1e-12);
  }
}

TEST(LstmVae, GradientsAreThoseOfDifferences) {
  for (const VaeShape shape : {VaeShape{}, VaeShape{.inputs = 2, .window = 3, .hidden = 3, .latent = 5}}) {
    constexpr int64_t kBatch = 19;
    auto p = random_values<double>(static_cast<size_t>(shape.parameters()), "p", 0.8);
    const auto x =
        random_values<double>(static_cast<size_t>(shape.window * shape.inputs * kBatch), "x", 0.5, 0.5);
    const auto noise = random_values<double>(static_cast<size_t>(shape.latent * kBatch), "n", 1.5);
    LstmVae<double> vae(shape, kBatch);
    vae.forward(p, x, noise, 0.05);
    std::vector<double> gradient(p.size(), std::numeric_limits<double>::quiet_NaN());
    vae.backward(p, gradient);
    for (size_t i = 0; i < p.size(); ++i) {
      const double kept = p[i], step = 1e-5;
      p[i] = kept + step;
      const double above = vae.forward(p, x, noise, 0.05).total;
      p[i] = kept - step;
      const double below = vae.forward(p, x, noise, 0.05).total;
      p[i] = kept;
      // Central differences are right to step² and to rounding / step.
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-8 + 1e-6 * std::abs(gradient[i]))
          << "parameter " << i;
    }
  }
}

TEST(LstmVae, FastLoopsGiveWhatThePlainOnesGive) {
  for (const VaeShape shape :
       {VaeShape{}, VaeShape{.inputs = 7}, VaeShape{.window = 13}, VaeShape{.hidden = 3, .latent = 2}}) {
    constexpr int64_t kStride = 48;
    const auto p64 = random_values<double>(static_cast<size_t>(shape.parameters()), "p", 1.3);
    const std::vector<float> p(p64.begin(), p64.end());
    const auto x =
        random_values<float>(static_cast<size_t>(shape.window * shape.inputs * kStride), "x", 0.5, 0.5);
    const std::vector<double> exact_p(p.begin(), p.end()), exact_x(x.begin(), x.end()),
        still(static_cast<size_t>(shape.latent * kStride), 0);
    LstmVae<double> plain(shape, kStride);
    plain.forward(exact_p, exact_x, still, 0);
    std::vector<float> out(x.size(), std::numeric_limits<float>::quiet_NaN());
    reconstruct(shape, p, x.data(), kStride, out.data());
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(static_cast<double>(out[i]), plain.output()[i], 3e-6) << i;  // fp32 over 2 · window steps
  }
}

Pull noisy_sinusoids(double noise) {
  Pull pull{.metrics = {1},
            .machines = {"a", "b", "c", "d", "e", "f"},
            .class_of = std::vector<int32_t>(6, 0),
            .classes = {"all"},
            .seconds = 600};
  const RandomStream stream(3, "sinusoids");
  for (int64_t s = 0; s < pull.seconds; ++s) {
    for (int64_t i = 0; i < 6; ++i)
      pull.values.push_back(static_cast<float>(0.5 + 0.25 * std::sin(static_cast<double>(s) / 2) +
                                               noise * stream.normal(static_cast<uint64_t>(6 * s + i))));
  }
  return pull;
}

TEST(TrainVae, LearnsAndKeepsWhatItSees) {
  constexpr double kNoise = 0.02;
  const std::vector<Pull> pulls = {noisy_sinusoids(kNoise)};
  TrainOptions options{.steps = 1500, .batch = 128, .beta = 1e-5};
  const TrainedVae vae = train_vae(pulls, {1}, options);
  EXPECT_LE(vae.error, 1.5 * kNoise * kNoise + 5e-4);  // the noise, and what 1,500 steps leave
  EXPECT_GT(vae.retained, 0.5);                        // not collapsed
  options.beta = 0.3;
  options.steps = 300;
  EXPECT_LT(train_vae(pulls, {1}, options).retained, 0.1);  // and the check sees a collapse
}

TEST(TrainVae, IsAFunctionOfTheSeed) {
  const std::vector<Pull> pulls = {noisy_sinusoids(0.05)};
  TrainOptions options{.steps = 30, .batch = 64};
  const auto first = train_vae(pulls, {1}, options).parameters;
  EXPECT_EQ(first, train_vae(pulls, {1}, options).parameters);
  options.seed = 1;
  EXPECT_NE(first, train_vae(pulls, {1}, options).parameters);
}

}  // namespace
}  // namespace longhaul::detect
