// Steps of trainings that others have published, as questions to the model: what it says beside what they measured. Rows of a family that constants
// were fitted on are marked (held_out = false) and prove nothing. What a source does not say (micro-batches, stages on a rank) is assumed once for
// its whole family, but for the micro-batches of Narayanan's seven fitted rows, which shrink as models grow; `assumed` says what.
//
// Rows serve for one of four things. kConstants: efficiencies of a kind of accelerator were fitted on them. kReach: one factor, what this row's
// cluster reaches of those efficiencies, was. kOverlap: what shows of exchanges layer by layer was (kLayerExposed). kHeldOut: nothing was; where a
// reading of the paper or the form of a formula was chosen with such a row's error in sight, `in_sight` says so.
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
  double flops = 0;    // of a step, as the source counts them
  double seconds = 0;  // published; where only the share of the peak is printed, from that
  RowUse use = RowUse::kHeldOut;
  double reach = 1;             // of its cluster: times the efficiencies of its kind of accelerator
  std::vector<int64_t> stages;  // a rank's, where the source does not say how many: all that its software takes
  bool dense = true;
  std::string in_sight;  // what was chosen with its error in sight, where something was
  std::string apart;     // why it stands beside the rows that plans are judged by, where it does
  bool held_out() const { return use == RowUse::kHeldOut; }
  // Plans are judged by it: held out, of tensor ranks and pipelines (that everything is cut over is software of its own), and nothing speaks against it.
  bool judged() const { return held_out() && layout.zero < 3 && apart.empty(); }
  double mfu(double of_seconds) const { return flops / (static_cast<double>(layout.world()) * cluster.device.bf16_flops * of_seconds); }
};

const std::vector<PublishedRow>& published_rows();

std::vector<PublishedRow> published_rows(RowUse use, const std::string& device);

// Two layouts of one model, as many sequences and tokens, devices of one kind and number, of which the first was measured to be faster.
struct PublishedPair {
  const PublishedRow *faster = nullptr, *slower = nullptr;
};
std::vector<PublishedPair> published_pairs();
bool in_published_order(const PublishedPair& pair);  // as predicted too
// Further apart than what steps with experts are off by in the mean, either way: of nearer ones the formulas cannot tell the faster one.
bool clearly_apart(const PublishedPair& pair);

Efficiency scaled(Efficiency efficiency, double factor);  // each part faster by it

double predicted(const PublishedRow& row, const Efficiency& efficiency);  // seconds, at the row's reach of these
double predicted(const PublishedRow& row);                                // with the constants in use

// Least and greatest over the row's `stages`; twice the same where these are known.
std::pair<double, double> predicted_range(const PublishedRow& row);

// Over rows of a kind.
struct Errors {
  int64_t rows = 0;
  double mean = 0, worst = 0;  // of |predicted / published − 1|
};
Errors errors_of(const std::vector<PublishedRow>& rows);

}  // namespace longhaul::plan
