#include "detect/minder/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/progress.h"
#include "base/threads/parallel.h"

namespace longhaul::detect {
namespace {

bool has_metric(const Pull& pull, size_t metric) {
  return std::find(pull.metrics.begin(), pull.metrics.end(), metric) != pull.metrics.end();
}

// "--metrics cpu_usage,…": the metrics that every pull has.
std::string metrics_there(std::span<const Pull> pulls) {
  std::string names;
  for (size_t metric = 0; metric < kMetrics; ++metric) {
    if (!pulls.empty() &&
        std::all_of(pulls.begin(), pulls.end(), [&](const Pull& pull) { return has_metric(pull, metric); }))
      names += (names.empty() ? "--metrics " : ",") + std::string(metrics()[metric].name);
  }
  return names;
}

// The reason why no pull can be used: "gpu_duty_cycle is missing everywhere".
std::string what_is_missing(std::span<const Pull> pulls, const std::vector<size_t>& wanted) {
  for (const size_t metric : wanted) {
    if (std::none_of(pulls.begin(), pulls.end(), [&](const Pull& pull) { return has_metric(pull, metric); }))
      return std::string(metrics()[metric].name) + " is missing everywhere";
  }
  return "shorter ones, or some that lack a metric each";
}

// Draws windows without missing samples. Draw number i is a function of the seed only.
class WindowSource {
 public:
  WindowSource(std::span<const Pull> pulls, const std::vector<size_t>& wanted, int64_t window,
               const RandomStream& stream)
      : wanted_(wanted), window_(window), stream_(stream) {
    for (const Pull& pull : pulls) {
      std::vector<size_t> places = places_in(pull, {.name = "", .metrics = wanted});
      if (!places.empty() && pull.seconds >= window) usable_.push_back({&pull, std::move(places)});
    }
    if (usable_.empty()) {
      throw Error(
          {.code = ExitCode::kData,
           .what = wanted.size() == 1 ? "no training data has a metric" : "no training data has all metrics",
           .expected = fmt::format("{} seconds of {}", window, wanted.size() == 1 ? "it" : "them"),
           .found = what_is_missing(pulls, wanted),
           .hint = metrics_there(pulls)});
    }
  }

  // rows: [window][inputs][batch]
  void draw(uint64_t first, int64_t batch, std::span<float> rows) const {
    const auto inputs = static_cast<int64_t>(wanted_.size());
    for (int64_t b = 0; b < batch; ++b) {
      for (uint64_t attempt = 0;
           !try_one(4 * (64 * (first + static_cast<uint64_t>(b)) + attempt), b, batch, inputs, rows);
           ++attempt) {
        if (attempt < 63) continue;
        throw Error({.code = ExitCode::kData,
                     .what = "the training data of a metric is mostly missing",
                     .expected = "windows without gaps",
                     .found = "64 draws in a row had gaps",
                     .where = std::string(metrics()[wanted_.front()].name)});
      }
    }
  }

 private:
  struct Usable {
    const Pull* pull;
    std::vector<size_t> places;
  };
  bool try_one(uint64_t at, int64_t b, int64_t batch, int64_t inputs, std::span<float> rows) const {
    const Usable& from = usable_[stream_.below(at, usable_.size())];
    const auto machine =
        static_cast<int64_t>(stream_.below(at + 1, static_cast<uint64_t>(from.pull->count())));
    const auto second =
        static_cast<int64_t>(stream_.below(at + 2, static_cast<uint64_t>(from.pull->seconds - window_ + 1)));
    for (int64_t t = 0; t < window_; ++t) {
      for (int64_t q = 0; q < inputs; ++q) {
        const float value = from.pull->row(from.places[static_cast<size_t>(q)], second + t)[machine];
        if (std::isnan(value)) return false;
        rows[static_cast<size_t>((t * inputs + q) * batch + b)] = value;
      }
    }
    return true;
  }

  const std::vector<size_t>& wanted_;
  int64_t window_;
  const RandomStream& stream_;
  std::vector<Usable> usable_;
};

class Adam {
 public:
  explicit Adam(size_t size) : first_(size, 0), second_(size, 0) {}
  void step(std::span<float> parameters, std::span<const float> gradient, double rate) {
    ++steps_;
    const double correct_first = 1 - std::pow(0.9, steps_), correct_second = 1 - std::pow(0.999, steps_);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto g = static_cast<double>(gradient[i]);
      first_[i] = 0.9 * first_[i] + 0.1 * g;
      second_[i] = 0.999 * second_[i] + 0.001 * g * g;
      parameters[i] -= static_cast<float>(rate * (first_[i] / correct_first) /
                                          (std::sqrt(second_[i] / correct_second) + 1e-8));
    }
  }

 private:
  std::vector<double> first_, second_;
  int steps_ = 0;
};

double variance_of(std::span<const float> values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double square = 0;
  for (const float value : values)
    square += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  return square / static_cast<double>(values.size());
}

// The reconstruction of new windows, with z = mean as in use.
void measure(TrainedVae& vae, const WindowSource& windows, uint64_t first) {
  constexpr int64_t kWindows = 4096;
  std::vector<float> rows(static_cast<size_t>(vae.shape.window * vae.shape.inputs * kWindows));
  windows.draw(first, kWindows, rows);
  LstmVae<float> network(vae.shape, kWindows);
  const std::vector<float> still(static_cast<size_t>(vae.shape.latent * kWindows), 0.0f);
  const VaeLoss loss = network.forward(vae.parameters, rows, still, 0);
  vae.error = loss.reconstruction, vae.kl = loss.kl;
  vae.retained = variance_of(network.output()) / (variance_of(rows) + 1e-12);
}

}  // namespace

TrainedVae train_vae(std::span<const Pull> pulls, const std::vector<size_t>& wanted,
                     const TrainOptions& options, const std::function<void()>& step_done) {
  TrainedVae vae{.metrics = wanted, .shape = options.shape};
  vae.shape.inputs = static_cast<int64_t>(wanted.size());
  std::string name = "detect";
  for (const size_t metric : wanted) name += "/" + std::string(metrics()[metric].name);
  const RandomStream draws(options.seed, name + "/windows"), noises(options.seed, name + "/noise");
  const WindowSource windows(pulls, wanted, vae.shape.window, draws);
  vae.parameters = initial_parameters(vae.shape, RandomStream(options.seed, name + "/init"));
  LstmVae<float> network(vae.shape, options.batch);
  Adam adam(vae.parameters.size());
  std::vector<float> rows(static_cast<size_t>(vae.shape.window * vae.shape.inputs * options.batch)),
      noise(static_cast<size_t>(vae.shape.latent * options.batch)), gradient(vae.parameters.size());
  for (int64_t step = 0; step < options.steps; ++step) {
    windows.draw(static_cast<uint64_t>(step * options.batch), options.batch, rows);
    const auto first = static_cast<uint64_t>(step) * noise.size();
    for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<float>(noises.normal(first + i));
    network.forward(vae.parameters, rows, noise, options.beta);
    network.backward(vae.parameters, gradient);
    adam.step(vae.parameters, gradient, 10 * step < 7 * options.steps ? options.rate : options.rate / 5);
    if (step_done) step_done();
  }
  measure(vae, windows, static_cast<uint64_t>(options.steps * options.batch));
  return vae;
}

Models train_models(std::span<const Pull> pulls, const TrainOptions& options) {
  Models models{.metrics = options.metrics, .limits = options.limits, .priority = options.metrics};
  const auto count = static_cast<int64_t>(options.metrics.size());
  models.vaes.resize(options.metrics.size()), models.mahalanobis.resize(options.metrics.size());
  Progress progress("training", (count + 1) * options.steps);
  parallel_items(count + 1, threads(), [&](const auto& each) {
    each([&](int64_t item) {
      const auto done = [&] { progress.advance(1); };
      const auto at = static_cast<size_t>(item - 1);  // the longest first
      if (item == 0) {
        models.joint = train_vae(pulls, options.metrics, options, done);
        models.mahalanobis_joint =
            fit_mahalanobis(pulls, options.metrics, options.mahalanobis_joint, options.seed);
      } else {
        models.vaes[at] = train_vae(pulls, {options.metrics[at]}, options, done);
        models.mahalanobis[at] =
            fit_mahalanobis(pulls, {options.metrics[at]}, options.mahalanobis, options.seed);
      }
    });
  });
  return models;
}

}  // namespace longhaul::detect
