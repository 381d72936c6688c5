#include "base/memory/pages.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "base/error.h"

namespace longhaul {

void* map_huge_pages(size_t bytes) {
  LONGHAUL_ASSERT(bytes > 0 && bytes % kHugePage == 0, "{} bytes", bytes);
  // One huge page more than requested; the parts outside the aligned range are returned.
  const size_t whole = bytes + kHugePage;
  void* mapped =
      mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  const size_t before = (kHugePage - address % kHugePage) % kHugePage;
  auto* begin = static_cast<char*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  munmap(begin + bytes, whole - before - bytes);
  madvise(begin, bytes, MADV_HUGEPAGE);  // refused where huge pages are switched off: ordinary pages then
  return begin;
}

void unmap_pages(void* begin, size_t bytes) {
  const int failed = munmap(begin, bytes);
  LONGHAUL_ASSERT(failed == 0, "munmap of {} bytes", bytes);
}

void release_pages(void* begin, size_t bytes) {
  const int failed = madvise(begin, bytes, MADV_DONTNEED);
  LONGHAUL_ASSERT(failed == 0, "madvise of {} bytes", bytes);
}

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace longhaul
