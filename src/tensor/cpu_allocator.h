// Makes one CachingHeap the allocator of LibTorch's CPU tensors, once the program has called
// install_cpu_allocator(): pages are taken from the system once and kept. The program installs it (cli);
// the library of operators never does, because a host process keeps its own allocator.
// docs/design/memory.md.
//
// When memory is not available, the allocation throws Error 68 with a table of the memory that each purpose
// uses. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/memory/memory_purpose.h"

namespace longhaul {

// Call it before the first tensor is made; a second call has no effect. limit_bytes: upper limit of held
// memory; 0: what the machine has available.
void install_cpu_allocator(int64_t limit_bytes = 0);
bool cpu_allocator_installed();

// Statistics of the installed allocator; all zero without one.
MemoryStatistics memory_statistics();
void reset_memory_peaks();
void trim_memory();  // gives all free memory back to the system

// The rows of a memory table as text: purpose, in use, peak; purposes that never held anything are left out.
std::string memory_table_text(const MemoryStatistics& statistics);

// Test mode: fresh and freed memory is NaN, and writing past the end of a block is detected.
// check_memory_guards() throws an internal Error that lists the damage since the last call. Installs the
// allocator.
void set_memory_poison(bool on);
void check_memory_guards();

}  // namespace longhaul
