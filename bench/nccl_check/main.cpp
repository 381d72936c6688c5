// nccl-check: a group of one rank on the first GPU, through the NCCL that LibTorch loads: all_reduce,
// reduce_scatter, all_gather and broadcast of fp32 and bf16, outputs poisoned before, every value compared.
// One rank proves that library, driver and runtime fit each other and that calls reach the GPU in stream
// order; it proves nothing about links between GPUs.
//
// Exit status: 0 all values right, 1 a wrong value, 70 a call failed, 71 no GPU.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace {

constexpr size_t kCount = (1 << 20) + 3;  // no round number

void require(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "error: %s: %s\n", call, cudaGetErrorString(error));
  std::exit(70);
}

void require(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "error: %s: %s (%s)\n", call, ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(70);
}

struct Group {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
};

Group make_group() {
  Group group;
  ncclUniqueId id;
  require(ncclGetUniqueId(&id), "ncclGetUniqueId");
  require(ncclCommInitRank(&group.communicator, /*nranks=*/1, id, /*rank=*/0), "ncclCommInitRank");
  require(cudaStreamCreateWithFlags(&group.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return group;
}

// Sends `values` through one operation; true when they come back bit for bit, as they must from a group of
// one.
bool comes_back(const char* name, const std::vector<uint8_t>& values, bool in_place, const Group& group,
                const std::function<ncclResult_t(const void* from, void* to)>& operation) {
  void *from = nullptr, *to = nullptr;
  require(cudaMalloc(&from, values.size()), "cudaMalloc");
  require(cudaMalloc(&to, values.size()), "cudaMalloc");
  require(cudaMemcpyAsync(from, values.data(), values.size(), cudaMemcpyHostToDevice, group.stream),
          "copy to the GPU");
  require(cudaMemsetAsync(to, 0xff, values.size(), group.stream), "cudaMemset");  // NaN in both types
  require(operation(from, in_place ? from : to), name);
  std::vector<uint8_t> result(values.size());
  require(cudaMemcpyAsync(result.data(), in_place ? from : to, values.size(), cudaMemcpyDeviceToHost,
                          group.stream),
          "copy from the GPU");
  require(cudaStreamSynchronize(group.stream), name);
  require(cudaFree(from), "cudaFree");
  require(cudaFree(to), "cudaFree");
  const bool right = result == values;
  std::printf("%-15s %-12s %s\n", name, in_place ? "in place" : "out of place", right ? "ok" : "WRONG");
  return right;
}

// Ordinary numbers of both signs; their bits are valid fp32 and, cut in halves, valid bf16.
std::vector<uint8_t> numbers(size_t bytes) {
  std::vector<uint8_t> values(bytes);
  uint32_t state = 1;
  for (size_t i = 0; i < bytes; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] =
        i % 2 == 1 ? static_cast<uint8_t>(0x3f | ((state >> 24) & 0x80)) : static_cast<uint8_t>(state >> 24);
  }
  return values;
}

bool check(const Group& group, ncclDataType_t type, size_t element_bytes) {
  const std::vector<uint8_t> values = numbers(kCount * element_bytes);
  bool right = true;
  for (const bool in_place : {false, true}) {
    right &= comes_back("all_reduce", values, in_place, group, [&](const void* from, void* to) {
      return ncclAllReduce(from, to, kCount, type, ncclSum, group.communicator, group.stream);
    });
    right &= comes_back("reduce_scatter", values, in_place, group, [&](const void* from, void* to) {
      return ncclReduceScatter(from, to, kCount, type, ncclSum, group.communicator, group.stream);
    });
    right &= comes_back("all_gather", values, in_place, group, [&](const void* from, void* to) {
      return ncclAllGather(from, to, kCount, type, group.communicator, group.stream);
    });
    right &= comes_back("broadcast", values, in_place, group, [&](const void* from, void* to) {
      return ncclBroadcast(from, to, kCount, type, /*root=*/0, group.communicator, group.stream);
    });
  }
  return right;
}

}  // namespace

int main() {
  int devices = 0, version = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "error: no GPU is visible to CUDA: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 71;
  }
  require(ncclGetVersion(&version), "ncclGetVersion");
  require(cudaSetDevice(0), "cudaSetDevice");
  std::printf("NCCL %d.%d.%d, one rank, %zu values\n", version / 10000, version / 100 % 100, version % 100,
              kCount);
  const Group group = make_group();
  std::printf("fp32\n");
  bool right = check(group, ncclFloat32, 4);
  std::printf("bf16\n");
  right &= check(group, ncclBfloat16, 2);
  require(ncclCommDestroy(group.communicator), "ncclCommDestroy");
  return right ? 0 : 1;
}
