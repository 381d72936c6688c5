// The ring of one machine's samples: a file of fixed size that holds the last hour of a run, a row a second, written by the node's daemon
// (control/node/node_sampler.h) and read by whoever looks for a faulty machine. docs/formats/samples.md has its bytes.
//
//   SampleRingWriter ring = SampleRingWriter::open(run / "samples/node-0.ring", {.node = "node-0", .host = "h7", .boot = …});
//   ring.write(unix_s, values);   ring.end(unix_s);                       // its ranks have ended: no data is no sign from now on
//   const SampleRing read = read_ring(path);                             // any time, while it is written too
//
// Each row has a number and a checksum: one that is half written, by a writer that goes on or one that died, is no row. A writer goes on where an
// earlier one of the same host ended; a ring that is another host's, of another version or damaged is replaced. One writer at a time.
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
  std::string node, host;    // the node's name in the run; the machine's
  std::string boot;          // of the machine's kernel: nodes that have the same are one machine
  bool ranks_alone = false;  // samples are of the node's ranks, which share the machine with others, not of the machine
};

struct RingRow {
  double time_s = 0;  // Unix time
  SampleValues values = no_values();
  bool ended = false;  // the node's ranks have ended: from here to the next row nothing is measured
};

class SampleRingWriter {
 public:
  static SampleRingWriter open(const std::filesystem::path& path, const RingOwner& owner, int64_t rows = kRingSeconds);
  void write(double time_s, const SampleValues& values);
  void end(double time_s);
  void close() { file_.close(); }

 private:
  SampleRingWriter(File file, int64_t rows, uint64_t number) : file_(std::move(file)), rows_(rows), number_(number) {}
  void put(const RingRow& row);
  File file_;
  int64_t rows_;
  uint64_t number_;  // of the next row, from 1
};

struct SampleRing {
  std::filesystem::path path;
  RingOwner owner;
  std::vector<RingRow> rows;  // in the order in which they were written, their times increasing
  int64_t damaged = 0;        // rows whose checksum is wrong; they are left out
  int64_t undone = 0;         // rows left out because the clock was set back behind them
  uint64_t last_number = 0;
};
SampleRing read_ring(const std::filesystem::path& path);  // Error (65) where it is no whole ring of this version

}  // namespace longhaul::detect
