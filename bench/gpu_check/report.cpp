// The report of a run of gpu-check: a table for people, JSON for machines.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "gpu_check/session.h"

namespace longhaul::gpu_check {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string number(double x) {
  if (!std::isfinite(x)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

template <class... Values>
std::string line(const char* format, Values... values) {
  char text[400];
  std::snprintf(text, sizeof text, format, values...);
  return std::string(text) + "\n";
}

// Columns: UTF-8 letters such as × are two bytes and one place wide.
std::string padded(const std::string& text, int width) {
  const auto places = std::count_if(text.begin(), text.end(),
                                    [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; });
  return text + std::string(static_cast<size_t>(std::max<int64_t>(0, width - places)), ' ');
}

}  // namespace

std::string Session::table() const {
  std::string out;
  std::vector<std::string> ops;
  for (const CheckResult& check : checks) {
    if (std::find(ops.begin(), ops.end(), check.op) == ops.end()) ops.push_back(check.op);
  }
  out += "checks against references in fp64: passed of all, and the largest errors\n";
  for (const std::string& op : ops) {
    int all = 0, good = 0;
    double rms = 0, worst = 0;
    for (const CheckResult& check : checks) {
      if (check.op != op) continue;
      ++all;
      good += check.passed;
      rms = std::max(rms, check.rms);
      worst = std::max(worst, check.worst);
    }
    out += line("  %s %4d of %4d   rms %.1e   worst %.1e", padded(op, 28).c_str(), good, all, rms, worst);
  }
  for (const CheckResult& check : checks) {
    if (check.passed) continue;
    out += line("  FAILED %s, %s: %s   rms %.2e (allowed %.0e)   worst %.2e (allowed %.0e)   %s",
                check.op.c_str(), check.case_name.c_str(), check.tensor.c_str(), check.rms,
                check.tolerance.rms, check.worst, check.tolerance.worst, check.note.c_str());
  }
  if (timings.empty()) return out;
  out += line("\ntimings; limits measured here: copy %.2f TB/s, mma.sync bf16 %.0f TFLOP/s (matrix)",
              copy_bytes_per_s / 1e12, matrix_flops_per_s / 1e12);
  out += "  " + padded("kernel", 36) + padded("shape", 52) +
         "       ms  spread      GB    TB/s    GFLOP  TFLOP/s  share of limit\n";
  for (const TimingResult& timing : timings) {
    out += line("  %s%s%9.4f  %5.1f%%%8.3f%8.3f%9.1f%9.1f   %5.1f%% of %s", padded(timing.op, 36).c_str(),
                padded(timing.shape, 52).c_str(), timing.ms, timing.spread * 100, timing.bytes / 1e9,
                timing.bytes / timing.ms / 1e9, timing.flops / 1e9, timing.flops / timing.ms / 1e9,
                timing.share * 100, timing.limit.c_str());
  }
  return out;
}

std::string Session::json() const {
  std::string out = "{\"name\": \"gpu-check\", \"passed\": " + std::string(passed() ? "true" : "false") +
                    ",\n \"machine\": {\"name\": " + quoted(machine.name) +
                    ", \"emulated\": " + (machine.emulated ? "true" : "false") +
                    ", \"compute_capability\": \"" + std::to_string(machine.major) + "." +
                    std::to_string(machine.minor) +
                    "\", \"multiprocessors\": " + std::to_string(machine.multiprocessors) +
                    ", \"memory_bytes\": " + std::to_string(machine.memory_bytes) +
                    ", \"cache_bytes\": " + std::to_string(machine.cache_bytes) +
                    ", \"driver_version\": " + std::to_string(machine.driver_version) +
                    ", \"copy_bytes_per_s\": " + number(copy_bytes_per_s) +
                    ", \"matrix_flops_per_s\": " + number(matrix_flops_per_s) + "},\n \"checks\": [";
  const char* separator = "\n";
  for (const CheckResult& check : checks) {
    out += separator;
    out += "  {\"op\": " + quoted(check.op) + ", \"case\": " + quoted(check.case_name) +
           ", \"tensor\": " + quoted(check.tensor) + ", \"passed\": " + (check.passed ? "true" : "false") +
           ", \"rms\": " + number(check.rms) + ", \"worst\": " + number(check.worst) +
           ", \"allowed_rms\": " + number(check.tolerance.rms) +
           ", \"allowed_worst\": " + number(check.tolerance.worst) + ", \"note\": " + quoted(check.note) +
           "}";
    separator = ",\n";
  }
  out += "],\n \"timings\": [";
  separator = "\n";
  for (const TimingResult& timing : timings) {
    out += separator;
    out += "  {\"name\": " + quoted(timing.op) + ", \"shape\": " + quoted(timing.shape) +
           ", \"milliseconds\": " + number(timing.ms) + ", \"spread\": " + number(timing.spread) +
           ", \"bytes\": " + number(timing.bytes) + ", \"flops\": " + number(timing.flops) +
           ", \"limit\": " + quoted(timing.limit) + ", \"share\": " + number(timing.share) + "}";
    separator = ",\n";
  }
  return out + "]}\n";
}

}  // namespace longhaul::gpu_check
