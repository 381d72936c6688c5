// The sample ring of one machine: a file of fixed size with the last hour of a run, one row per second. The
// node's daemon (control/node/node_sampler.h) writes it, and the detectors of faulty machines read it.
// docs/formats/samples.md describes its bytes.
//
//   SampleRingWriter ring = SampleRingWriter::open(run / "samples/node-0.ring", {.node = "node-0",
//       .host = "h7", .boot = …});
//   // its ranks have ended: missing data is no sign from now on
//   ring.write(unix_s, values);   ring.end(unix_s);
//   const SampleRing read = read_ring(path);               // at any time, also while it is written
//
// Each row has a number and a checksum, so that a half-written row, whether its writer goes on or died, is
// ignored. A writer continues where an earlier one on the same host ended; a ring of another host or version,
// or a damaged one, is replaced. Only one writer at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "detect/samples/machine_sample.h"

namespace longhaul::detect {

inline constexpr int64_t kRingSeconds = 3600;

struct RingOwner {
  std::string node, host;  // the node's name in the run; the machine's name
  std::string boot;        // boot of the machine's kernel: nodes with the same one are one machine
  // The samples cover only the node's ranks, which share the machine with others, not the whole machine.
  bool ranks_alone = false;
};

struct RingRow {
  double time_s = 0;  // Unix time
  SampleValues values = no_values();
  bool ended = false;  // the node's ranks have ended: nothing is measured from here to the next row
};

class SampleRingWriter {
 public:
  static SampleRingWriter open(const std::filesystem::path& path, const RingOwner& owner,
                               int64_t rows = kRingSeconds);
  void write(double time_s, const SampleValues& values);
  void end(double time_s);
  void close() { file_.close(); }

 private:
  SampleRingWriter(File file, int64_t rows, uint64_t number)
      : file_(std::move(file)), rows_(rows), number_(number) {}
  void put(const RingRow& row);
  File file_;
  int64_t rows_;
  uint64_t number_;  // number of the next row, counted from 1
};

struct SampleRing {
  std::filesystem::path path;
  RingOwner owner;
  std::vector<RingRow> rows;  // in the order in which they were written, with increasing times
  int64_t damaged = 0;        // rows with a wrong checksum; they are left out
  int64_t undone = 0;         // rows left out because the clock was set back after them
  uint64_t last_number = 0;
};
// Error (65) where the file is no complete ring of this version.
SampleRing read_ring(const std::filesystem::path& path);

}  // namespace longhaul::detect
