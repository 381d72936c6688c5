// Memory directly from the operating system, for allocators that keep their memory: address ranges of zeroed
// pages, in huge pages (2 MiB on x86-64) where the machine grants them. A range costs only address space
// until it is written. Thread-safe. docs/design/memory.md says why LibTorch's tensors are in such ranges.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longhaul {

inline constexpr size_t kHugePage = size_t{2} << 20;

// bytes: a multiple of kHugePage; the result is aligned to it; null: the system has no such range.
void* map_huge_pages(size_t bytes);
void unmap_pages(void* begin, size_t bytes);  // a range as it was mapped
// The contents are lost; the range stays mapped, reads as zero and has no pages again.
void release_pages(void* begin, size_t bytes);
int64_t page_faults();  // of this process so far, only those that needed no disk

}  // namespace longhaul
