// Memory straight from the operating system, for allocators that keep what they have: address ranges of zeroed pages, in huge pages
// (2 MiB on x86-64) where the machine grants them. A range costs address space only until it is written.
// Thread-safe. docs/design/memory.md says why LibTorch's tensors live in such ranges.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longhaul {

inline constexpr size_t kHugePage = size_t{2} << 20;

void* map_huge_pages(size_t bytes);             // a multiple of kHugePage; aligned to it; null: the system has no such range
void unmap_pages(void* begin, size_t bytes);    // as mapped
void release_pages(void* begin, size_t bytes);  // the contents are lost, the range stays: it reads as zero and is fresh again
int64_t page_faults();                          // of this process so far, those that needed no disk

}  // namespace longhaul
