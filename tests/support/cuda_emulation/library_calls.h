// LibTorch's operators that exist on a GPU only, as the CPU computes them in fp64: products of bf16 matrices
// with fp32 results, and flash attention. They take what LibTorch's take, refuse what these refuse, and leave
// what these leave unwritten; so the calls of kernels/*/ are tested with their very arguments. They say
// nothing about speed, or about the last bits of a GPU's results.
#pragma once

namespace longhaul::testing {

// From the first call on, for the rest of the process.
void stand_in_for_library_calls();

// What a LibTorch of another build or version might do from now on.
enum class LibraryFault {
  kNone,
  kMissing,      // it was built without the library
  kOtherLimits,  // attention counts from the first key, sums of products begin at 0
};
void break_library_calls(LibraryFault fault);

}  // namespace longhaul::testing
