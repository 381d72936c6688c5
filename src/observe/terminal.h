// The terminal output of a run: one aligned line per step under headings; evaluations, checkpoints and alarms
// begin with a word that names them. All of it is made from events, so a finished run can be shown again from
// its file. Alarms (NaNs among them) have a stream of their own, standard error, and are always shown.
//
//   writer.add(std::make_shared<Terminal>(TerminalOptions{.stream = stdout, .colours = colours_wanted(
//       stdout)}));
//
// Not thread-safe by itself; EventWriter calls readers one at a time. kDisk when a stream cannot be written.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "observe/events/event_log.h"

namespace longhaul::observe {

struct TerminalOptions {
  std::FILE* stream = stdout;
  bool colours = false;
  std::FILE* alarms = stderr;
  bool alarm_colours = false;
  bool quiet = false;           // only alarms
  int64_t log_every = 1;        // in steps; the first and the last planned step are always shown
  int64_t headings_every = 50;  // step lines between repeated headings
};

class Terminal : public EventReader {
 public:
  explicit Terminal(TerminalOptions options) : options_(options) {}
  void on(const Event& event) override;

 private:
  void show(const RunStart& start);
  void show(const StepReport& step);
  void show_machine(const StepReport& step);
  void show(const OuterRound& round);
  void show(const OuterEvery& chosen);
  void show(const BatchGrowth& growth);
  void show(const Evaluation& evaluation);
  void show(const CompressionBaseline& baseline);
  void show(const CheckpointSaved& checkpoint);
  void show(const Resume& resume);
  void show(const Alarm& alarm);
  void show(const NonFinite& nonfinite);
  void show(const Sample& sample);
  void show(const MeasuredMemory&) {}  // shown as a table when the run is over
  void show(const IncidentReport& incident);
  void show(const DriverState&) {}  // the driver prints it itself
  void show(const End& end);
  void headings();
  std::string position(int64_t step) const;  // "100/400"
  // `style` is an escape sequence for the tag only.
  void line(const char* style, const char* tag, const std::string& text);
  void alarm_line(const char* tag, const std::string& text);

  TerminalOptions options_;
  int64_t planned_steps_ = 0;
  int64_t lines_ = 0;  // step lines since the last headings; 0: headings come next
  std::optional<CompressionBaseline> baseline_;
  double taken_by_others_ = 0;  // as told last
  bool told_of_others_ = false;
  double peak_flops_per_second_ = 0;
};

}  // namespace longhaul::observe
