// How `detect run` and `detect score` examine samples: the options that both have, and the examination
// itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "detect/minder/detector.h"

namespace longhaul::cli {

struct LookArguments {
  std::string models, variant = "minder", distance = "euclidean", metrics, priority = "learnt";
  int64_t top = 1, followed = 0, continuity_s = 240, gap_s = 8, agreement_from = 100, pull_s = 900,
          every_s = 480;
  std::optional<double> share, distance_threshold;
  double silent_s = 60;
  bool strict = false, no_continuity = false, json = false, stream = false;

  void declare(Command& command);
  detect::DetectOptions options() const;
};

// Examines the record in separate calls, or as a stream; an alert of a machine that continues is reported
// once.
detect::RunReport looked(const detect::Pull& record, const detect::Models& models, const LookArguments& look);

}  // namespace longhaul::cli
