#include "base/memory/peak_memory.h"

#include <fstream>

#include "base/machine/machine.h"

namespace longhaul {

int64_t reset_peak_resident_bytes() {
  return_free_memory();
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // proc(5): resets the peak of the resident set
  return file.good() ? peak_resident_bytes() : -1;
}

}  // namespace longhaul
