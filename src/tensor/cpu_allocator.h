// The memory of LibTorch's CPU tensors comes from one CachingHeap once the program has called install_cpu_allocator(): pages are
// taken from the system once and kept. The program installs it (cli), the operators' library never does: a process of someone else's
// keeps its own allocator. docs/design/memory.md.
//
// When memory cannot be had, the allocation throws Error 68 with the table of what took how much. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/memory/memory_purpose.h"

namespace longhaul {

// Before the first tensor is made; again: no effect. limit_bytes: what may be held at most, 0: what the machine has available.
void install_cpu_allocator(int64_t limit_bytes = 0);
bool cpu_allocator_installed();

// Of the installed allocator; all zero without one.
MemoryStatistics memory_statistics();
void reset_memory_peaks();
void trim_memory();  // all that lies free goes back to the system

// The rows of a memory table as text: purpose, in use, peak; purposes that never held anything are left out.
std::string memory_table_text(const MemoryStatistics& statistics);

// Test mode: fresh and freed memory is NaN, and writing behind a block is found. check_memory_guards() throws an internal Error
// that lists the damage since the last call. Installs the allocator.
void set_memory_poison(bool on);
void check_memory_guards();

}  // namespace longhaul
