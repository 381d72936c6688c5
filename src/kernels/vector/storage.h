// A tensor as the inner loops see it: a pointer and the storage format of its elements. No LibTorch here.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

enum class Storage { kBf16, kFp32, kFp64 };  // bf16 is held as its bits, uint16_t, and computed on in fp32

// Calls body(In{}) with the element type.
template <class Body>
void with_storage(Storage storage, const Body& body) {
  switch (storage) {
    case Storage::kBf16:
      return body(uint16_t{});
    case Storage::kFp32:
      return body(float{});
    case Storage::kFp64:
      return body(double{});
  }
}

}  // namespace longhaul::kernels
