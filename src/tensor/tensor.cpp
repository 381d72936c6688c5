#include "tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/machine/machine.h"
#include "base/progress.h"

namespace longhaul {
namespace {

constexpr std::array<std::pair<std::string_view, ScalarType>, 11> kNames{{{"bf16", at::kBFloat16},
                                                                          {"fp32", at::kFloat},
                                                                          {"fp64", at::kDouble},
                                                                          {"fp16", at::kHalf},
                                                                          {"int64", at::kLong},
                                                                          {"int32", at::kInt},
                                                                          {"int16", at::kShort},
                                                                          {"int8", at::kChar},
                                                                          {"uint8", at::kByte},
                                                                          {"uint16", at::kUInt16},
                                                                          {"bool", at::kBool}}};

}  // namespace

std::string_view name_of(ScalarType type) {
  for (const auto& [name, value] : kNames) {
    if (value == type) return name;
  }
  return c10::toString(type);
}

ScalarType scalar_type_named(std::string_view name) {
  for (const auto& [known, value] : kNames) {
    if (known == name) return value;
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown dtype",
               .expected = "bf16, fp32 or fp64",
               .found = std::string(name)});
}

Precision Precision::named(std::string_view dtype) {
  if (dtype == "bf16") return {.compute = at::kBFloat16};
  if (dtype == "fp32") return {};
  if (dtype == "fp64") return {at::kDouble, at::kDouble, at::kDouble, at::kDouble, at::kDouble};
  throw Error({.code = ExitCode::kUsage,
               .what = "no training in this dtype",
               .expected = "bf16, fp32 or fp64",
               .found = std::string(dtype),
               .where = "train.dtype",
               .hint = "train.dtype=bf16"});
}

void translate_torch_errors(const std::function<void()>& body) {
  const auto out_of_memory = [](const std::string& what, const std::string& expected,
                                const std::string& found) {
    return Error({.code = ExitCode::kOutOfMemory,
                  .what = what,
                  .expected = expected,
                  .found = found,
                  .hint = "lower train.micro_batch or train.sequence, or choose a smaller model"});
  };
  // Libraries below say in words of their own what came of an allocation that failed.
  const auto nothing_is_left = [] {
    return std::min(available_memory_bytes(), free_address_space_bytes()) < int64_t{256} << 20;
  };
  const auto failed_in_the_end = [&](const std::string& what) {
    return out_of_memory("out of memory",
                         "some of the " + bytes_text(machine().memory_bytes) + " of the machine to be free",
                         fmt::format("{}, with {} in use", what, bytes_text(resident_bytes())));
  };
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError& error) {  // only GPUs' allocators throw it; its text has the sizes
    throw out_of_memory("out of memory on the GPU", "", error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw out_of_memory("out of memory", bytes_text(machine().memory_bytes) + " or less in use",
                        "an allocation failed with " + bytes_text(resident_bytes()) + " in use");
  } catch (const c10::AcceleratorError& error) {
    throw Error({.code = ExitCode::kDevice,
                 .what = "the GPU failed",
                 .found = error.what_without_backtrace(),
                 .hint = "CUDA_LAUNCH_BLOCKING=1 names the call; train.device=cpu tells whether it is the "
                         "GPU; nvidia-smi -q shows its errors"});
  } catch (const c10::Error& error) {
    if (nothing_is_left()) throw failed_in_the_end(error.what_without_backtrace());
    throw Error({.code = ExitCode::kInternal,
                 .what = "LibTorch refused an operation",
                 .found = error.what_without_backtrace(),
                 .hint = "this is a bug in Longhaul: please report it with the command that led here"});
  } catch (const std::exception& error) {  // oneDNN
    if (nothing_is_left()) throw failed_in_the_end(error.what());
    throw;
  }
}

}  // namespace longhaul
