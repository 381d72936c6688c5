// Tables for the terminal, and those with which a training run begins. Columns are as wide as their widest
// cell, counted in display cells; numbers are right-aligned.
//
//   Table table("memory", {{"purpose"}, {"bytes", Align::kRight}});
//   table.row({"parameters", "46.4 MB"});
//   std::fputs(table.text(colours_wanted(stdout)).c_str(), stdout);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/events/event.h"

namespace longhaul::observe {

enum class Align { kLeft, kRight };

struct Column {
  std::string heading;
  Align align = Align::kLeft;
};

class Table {
 public:
  Table(std::string title, std::vector<Column> columns);
  void row(std::vector<std::string> cells);    // as many cells as there are columns
  void total(std::vector<std::string> cells);  // a last row, separated by a line
  std::string text(bool colours) const;        // ends with a newline
  std::string markdown() const;                // a GitHub table: the title in bold above, a total in bold

 private:
  struct Row {
    std::vector<std::string> cells;
    bool is_total = false;
  };
  std::string title_;
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

struct ParameterGroup {
  std::string name;  // "embedding", "mixer", "experts"
  int64_t tensors = 0, values = 0;
  int64_t values_per_token = 0;  // those that one token uses (layout::activated_elements)
  int64_t frozen = 0;            // those that do not train
};
Table parameter_table(std::span<const ParameterGroup> groups);

struct PlannedMemory {
  std::string name;  // "parameters", "gradients", "optimizer state", "activations"
  int64_t bytes = 0;
};
// `moment`: when the peak is reached: "backward of layer 3, mixer".
Table memory_table(std::span<const PlannedMemory> purposes, const std::string& moment,
                   int64_t available_bytes);

// The last entry is separated by a line. The difference is that between peak and plan, in percent of the
// plan.
Table measured_memory_table(std::span<const MeasuredMemory> purposes);
std::string plan_difference(const MeasuredMemory& memory);  // "+2.1 %"; empty where there is no plan

struct DataPart {
  std::string name;  // "training", "held out", "left out: copies"
  int64_t documents = 0, bytes = 0, tokens = 0;
  double epochs = 0;  // how often the run reads it; cells that would be 0 are empty
};
Table data_table(std::span<const DataPart> parts);

// Steps with one batch, one length of sequences and one peak learning rate.
struct TrainingStage {
  int64_t first_step = 0, first_token = 0;  // tokens of all steps before it
  int64_t batch = 0, sequence = 0;
  double peak_lr = 0;
};
Table stage_table(std::span<const TrainingStage> stages);

struct ExpectedWork {
  // forward and backward, attention counted causally; MFU is based on it
  double flops_per_token = 0;
  double flops_per_token_full_attention = 0;  // the whole square of attention counted
  int64_t tokens_per_step = 0, steps = 0;
  double peak_flops_per_second = 0;                         // measured on this machine; 0: unknown
  double peak_measured_at = 0;                              // Unix seconds; 0: unknown
  double assumed_mfu = 0.5;                                 // for the time estimate
  double decoding_bytes = 0, decoding_bytes_per_token = 0;  // state that decoding keeps for a sequence
};
Table work_table(const ExpectedWork& work);

}  // namespace longhaul::observe
