#include "observe/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log_form.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "observe/events/machine_metrics.h"
#include "observe/events/run_history.h"
#include "observe/format.h"

namespace longhaul::observe {
namespace {

constexpr const char* kAsItWas = "\x1b[0m";
constexpr const char* kFaint = "\x1b[2m";
constexpr const char* kBlue = "\x1b[34m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kCyan = "\x1b[36m";
constexpr const char* kRed = "\x1b[1;31m";
constexpr int kTagWidth = 7;

std::string tagged(std::string_view style, const char* tag, const std::string& text) {
  return fmt::format("{}{:<{}}{} {}\n", style, tag, kTagWidth, style.empty() ? "" : kAsItWas, text);
}

std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (!tells_of_memory(name)) text += fmt::format("  {} {}", printable(name), fixed(value, 4));
  }
  return text;
}

std::string share(const std::optional<double>& value) { return value ? fixed(*value * 100, 1) + "%" : "-"; }

}  // namespace

void Terminal::on(const Event& event) {
  const ProgressPause pause;
  const bool is_alarm = std::holds_alternative<Alarm>(event.body) ||
                        std::holds_alternative<NonFinite>(event.body) ||
                        std::holds_alternative<IncidentReport>(event.body);
  if (is_alarm || !options_.quiet) std::visit([this](const auto& body) { show(body); }, event.body);
}

void Terminal::line(const char* style, const char* tag, const std::string& text) {
  write_stream(options_.stream, tagged(options_.colours ? style : "", tag, text));
}

void Terminal::alarm_line(const char* tag, const std::string& text) {
  if (options_.alarms == stderr && log_form() == LogForm::kJson) return log_warning("{}: {}", tag, text);
  write_stream(options_.alarms, tagged(options_.alarm_colours ? kRed : "", tag, text));
}

std::string Terminal::position(int64_t step) const {
  const std::string text =
      planned_steps_ > 0 ? fmt::format("{}/{}", step, planned_steps_) : fmt::to_string(step);
  const size_t width =
      planned_steps_ > 0 ? std::max<size_t>(9, 2 * fmt::to_string(planned_steps_).size() + 1) : 9;
  return fmt::format("{:>{}}", text, width);
}

void Terminal::headings() {
  const std::string text =
      fmt::format("{:<{}} {:>{}}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>6}  {:>8}  {:>8}  {:>9}", "",
                  kTagWidth, "step", position(0).size(), "loss", "grad norm", "rate", "time", "tokens/s",
                  "MFU", "MFU full", "tokens", "data wait");
  write_stream(options_.stream, fmt::format("{}{}{}\n", options_.colours ? kFaint : "", text,
                                            options_.colours ? kAsItWas : ""));
}

void Terminal::show(const RunStart& start) {
  planned_steps_ = start.steps;
  peak_flops_per_second_ = start.peak_flops_per_second.value_or(0);
  lines_ = 0;
}

// The machine, where it is another one than the figures of the steps suppose.
void Terminal::show_machine(const StepReport& step) {
  taken_by_others_ = step.taken_by_others.value_or(taken_by_others_);
  if (taken_by_others_ >= kTakenByOthers && !std::exchange(told_of_others_, true)) {
    line(kCyan, "busy",
         fmt::format("{}  {}: MFU with a * is of steps beside them, and would be higher without",
                     position(step.step), others_text(taken_by_others_)));
  }
  if (!step.peak_flops_per_second) return;
  line(kCyan, "peak",
       fmt::format("{}  faster than the measured peak of {}FLOP/s: MFU is a share of {}FLOP/s from here on",
                   position(step.step), compact(peak_flops_per_second_),
                   compact(*step.peak_flops_per_second)));
  peak_flops_per_second_ = *step.peak_flops_per_second;
}

void Terminal::show(const StepReport& step) {
  show_machine(step);
  const bool last = planned_steps_ > 0 && step.step == planned_steps_;
  const bool unusual = step.skipped.value_or(false) || !std::isfinite(step.loss);
  if (options_.log_every > 1 && step.step % options_.log_every != 0 && step.step != 1 && !last && !unusual)
    return;
  if (lines_ % std::max<int64_t>(1, options_.headings_every) == 0) headings();
  ++lines_;
  line(unusual ? kRed : kBlue, "train",
       fmt::format("{}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>6}  {:>8}  {:>8}  {:>9}{}{}",
                   position(step.step), fixed(step.loss, 4), fixed(step.grad_norm, 3),
                   scientific(step.learning_rate), milliseconds_text(step.milliseconds),
                   grouped(step.tokens_per_second),
                   share(step.mfu) + (step.mfu && taken_by_others_ >= kTakenByOthers ? "*" : ""),
                   share(step.mfu_full_attention), compact(static_cast<double>(step.tokens)),
                   step.data_wait_milliseconds ? milliseconds_text(*step.data_wait_milliseconds) : "-",
                   metrics_text(step.metrics), step.skipped.value_or(false) ? "  skipped" : ""));
}

void Terminal::show(const OuterRound& round) {
  std::string text = fmt::format("{}  round {} of {} steps", position(round.step), round.round, round.steps);
  if (!round.synchronous.empty()) text += fmt::format(", synchronous ({})", printable(round.synchronous));
  text += round.applied ? fmt::format(": took round {}", *round.applied) : ": nothing had arrived";
  if (round.fragment) text += fmt::format(", fragment {}", *round.fragment);
  if (round.applied) text += fmt::format(", exchanged in {}", milliseconds_text(round.exchange_milliseconds));
  text += fmt::format(", waited {}", milliseconds_text(round.waited_milliseconds));
  if (round.gap != 1) text += fmt::format(", staleness gap {}", fixed(round.gap, 2));
  if (round.strain) text += fmt::format(", strain {}", fixed(*round.strain, 2));
  if (round.loss) text += fmt::format("; loss of all workers {}", fixed(*round.loss, 4));
  line(kCyan, "outer", text);
}

void Terminal::show(const OuterEvery& chosen) {
  line(kCyan, "outer",
       fmt::format("{}  rounds of {} steps from here on: {}", position(chosen.step), chosen.every,
                   printable(chosen.reason)));
}

void Terminal::show(const BatchGrowth& growth) {
  line(kCyan, "batch",
       fmt::format("{}  {} sequences a step from here on, {} before: the critical batch is about {} tokens",
                   position(growth.step), growth.batch, growth.batch_before,
                   compact(growth.critical_batch_tokens)));
}

void Terminal::show(const Evaluation& evaluation) {
  std::string text = position(evaluation.step) + "  " +
                     fmt::format("{:>9}", evaluation.loss ? fixed(*evaluation.loss, 4) : "");
  if (evaluation.bits_per_byte)
    text += fmt::format("  {} bits per byte", fixed(*evaluation.bits_per_byte, 4));
  if (evaluation.perplexity) text += fmt::format("   perplexity {}", fixed(*evaluation.perplexity, 2));
  text += metrics_text(evaluation.metrics);
  if (baseline_ && evaluation.bits_per_byte) {
    text += fmt::format("   (gzip -9 {}, xz -9 {})", fixed(baseline_->gzip_bits_per_byte, 4),
                        fixed(baseline_->xz_bits_per_byte, 4));
  }
  line(kGreen, "eval", text);
}

void Terminal::show(const CompressionBaseline& baseline) {
  baseline_ = baseline;
  line(kFaint, "data",
       fmt::format("held-out text{}: gzip -9 {} bits per byte, xz -9 {}",
                   baseline.of_bytes ? fmt::format(" ({} of it)", bytes_text(*baseline.of_bytes)) : "",
                   fixed(baseline.gzip_bits_per_byte, 4), fixed(baseline.xz_bits_per_byte, 4)));
}

void Terminal::show(const CheckpointSaved& checkpoint) {
  line(kCyan, "save",
       fmt::format("{}  {}   training waited {}", position(checkpoint.step), printable(checkpoint.path),
                   milliseconds_text(checkpoint.blocking_milliseconds)));
}

void Terminal::show(const Resume& resume) {
  line(kCyan, "resume",
       fmt::format("{}  going on from the checkpoint of step {}", position(resume.step), resume.step));
}

void Terminal::show(const Alarm& alarm) {
  alarm_line("alarm",
             fmt::format("{}: {}", printable(alarm.kind), printable(alarm.message, LineEnds::kKept)));
}

void Terminal::show(const IncidentReport& incident) {
  const std::string of = incident.rank >= 0 ? fmt::format(" of rank {}", incident.rank) : "";
  alarm_line("fault", fmt::format("{}{}: {} -> {}", printable(incident.fault), of,
                                  printable(fmt::format("{}", fmt::join(incident.evidence, "; "))),
                                  printable(incident.action)));
}

void Terminal::show(const NonFinite& nonfinite) {
  alarm_line("nan", fmt::format("{}  {} of {}: {} is not finite", position(nonfinite.step), nonfinite.phase,
                                printable(nonfinite.layer), printable(nonfinite.tensor)));
}

void Terminal::show(const Sample& sample) {
  line(kGreen, "sample", fmt::format("{}  a prompt and how the model goes on:", position(sample.step)));
  const std::string prompt = printable(sample.prompt, LineEnds::kKept),
                    text = printable(sample.text, LineEnds::kKept);
  write_stream(options_.stream, fmt::format("{}{}{}{}\n", options_.colours ? kFaint : "", prompt,
                                            options_.colours ? kAsItWas : "", text));
}

void Terminal::show(const End& end) {
  line(kFaint, "end", fmt::format("{}  {}", position(end.step), end.reason));
}

}  // namespace longhaul::observe
