// Minder second by second over a source that grows: a Prometheus, a folder of CSV files, the rings of a run. What was seen is kept in one Stream; the source
// is asked for the seconds since only, and for the few before them that missing samples are filled from. Alarms are those of a Stream over the whole
// record. They come `kHeldBack` seconds late, as a missing sample may take its value from one that has not come yet. When machines, classes or metrics
// change, the stream begins anew with the last pull.
#pragma once

#include <functional>
#include <optional>

#include "detect/minder/stream.h"
#include "detect/samples/run_samples.h"

namespace longhaul::detect {

inline constexpr int64_t kHeldBack = 8;  // seconds: as far as samples are filled in from (AlignOptions::fill_s)

class Follower {
 public:
  // read(first second wanted): samples from there to now; nothing: the last `pull_s` seconds.
  using Read = std::function<RunSamples(std::optional<double>)>;
  Follower(const Models& models, const DetectOptions& options, Read read) : models_(models), options_(options), read_(std::move(read)) {}

  struct News {
    std::vector<Alert> alerts;
    std::vector<std::string> remarks;  // of the source; that machines have changed
    int64_t seconds = 0;               // that were new
    int64_t machines = 0;
    double last_s = 0;  // looked at
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
  Pull about_;  // without samples: whose they are
  double fed_s_ = 0;
};

}  // namespace longhaul::detect
