// Follower runs Minder second by second over a growing source: a Prometheus, a folder of CSV files, the
// sample rings of a run. It keeps the samples in one Stream, and asks the source only for the new seconds and
// for the few before them from which missing samples are filled. Its alarms equal those of a Stream over the
// whole record. They come `kHeldBack` seconds late, because a missing sample may take its value from a later
// one. When machines, classes or metrics change, the stream starts anew with the last pull.
#pragma once

#include <functional>
#include <optional>

#include "detect/minder/stream.h"
#include "detect/samples/run_samples.h"

namespace longhaul::detect {

// In seconds; the distance over which samples are filled in (AlignOptions::fill_s).
inline constexpr int64_t kHeldBack = 8;

class Follower {
 public:
  // read(first second wanted) returns the samples from there to now; without a value, the last `pull_s`
  // seconds.
  using Read = std::function<RunSamples(std::optional<double>)>;
  Follower(const Models& models, const DetectOptions& options, Read read)
      : models_(models), options_(options), read_(std::move(read)) {}

  struct News {
    std::vector<Alert> alerts;
    std::vector<std::string> remarks;  // from the source; also that machines have changed
    int64_t seconds = 0;               // number of new seconds
    int64_t machines = 0;
    double last_s = 0;  // the last second that was examined
  };
  News more();
  void replaced(const std::string& machine);

 private:
  bool is_same(const Pull& pull) const;
  void begin(const Pull& pull);

  const Models& models_;
  DetectOptions options_;
  Read read_;
  std::optional<Stream> stream_;
  Pull about_;  // the pull without samples: its machines, metrics and classes
  double fed_s_ = 0;
};

}  // namespace longhaul::detect
