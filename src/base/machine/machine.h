// A description of this machine: processor, instruction sets, memory, host. It is written into run manifests
// and shown by `doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

struct Machine {
  std::string host;
  // boot id of its kernel: processes with the same boot id have the same monotonic clock
  std::string boot;
  std::string operating_system;  // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0"
  std::string processor;         // model name of the CPU
  // Some of: sse4_2 avx2 fma avx512f avx512bw avx512_bf16 avx512_fp16 amx_tile amx_bf16 amx_int8 neon
  // neon_bf16 sve.
  std::vector<std::string> features;
  int cores = 0;             // usable cores
  int64_t memory_bytes = 0;  // the smaller of physical memory and cgroup limit
  int64_t l2_bytes = 0, l3_bytes = 0;
};

const Machine& machine();
// Asks the operating system once for the tile registers, for the whole process; false: there are none.
bool allow_amx();
int64_t resident_bytes();   // of this process
void return_free_memory();  // returns unused heap memory to the system
int64_t peak_resident_bytes();
int64_t available_memory_bytes();
int64_t free_address_space_bytes();  // the rest of the limit ulimit -v; INT64_MAX without a limit

}  // namespace longhaul
