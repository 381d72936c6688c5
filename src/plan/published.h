// Published training steps of others as tests of the model: its prediction compared with their measurement.
// Rows of a family on which constants were fitted are marked (held_out = false) and prove nothing. What a
// source does not say (micro-batches, stages per rank) is assumed once for its whole family, except the
// micro-batches of Narayanan's seven fitted rows, which shrink as models grow; `assumed` says what.
//
// Each row has one use. kConstants: the efficiencies of an accelerator were fitted on it. kReach: the factor
// by which its cluster reaches these efficiencies was. kOverlap: the visible part of layer-by-layer exchanges
// was (kLayerExposed). kHeldOut: nothing was fitted on it; if a reading of the paper or the form of a formula
// was chosen with knowledge of its error, `in_sight` says so.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/step_time.h"

namespace longhaul::plan {

enum class RowUse { kHeldOut, kConstants, kReach, kOverlap };

struct PublishedRow {
  std::string family;  // "MegaScale"
  std::string name;    // "175B, 768 sequences, 256 GPUs"
  std::string source, assumed;
  Work work;
  PlanLayout layout;
  int64_t batch = 0;
  Cluster cluster;
  Practice practice;
  double flops = 0;    // of a step, as counted by the source
  double seconds = 0;  // published; computed from the share of the peak where only that is printed
  RowUse use = RowUse::kHeldOut;
  double reach = 1;  // factor of its cluster on the efficiencies of its accelerator
  // Stages per rank, where the source does not say: all that its software allows.
  std::vector<int64_t> stages;
  bool dense = true;
  std::string in_sight;  // what was chosen with knowledge of its error, if anything
  std::string apart;     // the reason why it is not among the rows by which plans are judged, if there is one
  bool held_out() const { return use == RowUse::kHeldOut; }
  // Plans are judged by this row: it is held out, with tensor ranks and pipelines (cutting everything is
  // software of its own), and nothing speaks against it.
  bool judged() const { return held_out() && layout.zero < 3 && apart.empty(); }
  double mfu(double of_seconds) const {
    return flops / (static_cast<double>(layout.world()) * cluster.device.bf16_flops * of_seconds);
  }
};

const std::vector<PublishedRow>& published_rows();

std::vector<PublishedRow> published_rows(RowUse use, const std::string& device);

// PublishedPair: two layouts of one model with equal numbers of sequences, tokens and devices of one kind,
// the first of which was measured to be faster.
struct PublishedPair {
  const PublishedRow *faster = nullptr, *slower = nullptr;
};
std::vector<PublishedPair> published_pairs();
bool in_published_order(const PublishedPair& pair);  // true: predicted in this order too
// True if they differ by more than the mean error for steps with experts, either way: for closer pairs the
// formulas cannot tell which is faster.
bool clearly_apart(const PublishedPair& pair);

Efficiency scaled(Efficiency efficiency, double factor);  // makes each part faster by the factor

// Seconds, at the row's reach of these.
double predicted(const PublishedRow& row, const Efficiency& efficiency);
double predicted(const PublishedRow& row);  // with the constants in use

// Least and greatest prediction over the row's `stages`; equal where these are known.
std::pair<double, double> predicted_range(const PublishedRow& row);

// Errors over rows of a kind.
struct Errors {
  int64_t rows = 0;
  double mean = 0, worst = 0;  // of |predicted / published − 1|
};
Errors errors_of(const std::vector<PublishedRow>& rows);

}  // namespace longhaul::plan
