// The list of benchmarks. To add one: a file bench/<op>.cpp with its function, its declaration here, its
// line in register.cpp.
#pragma once

#include <string>
#include <vector>

#include "bench/benchmark.h"

namespace longhaul::bench {

void bench_gemm(const Request& request, Results& into);
void bench_copy(const Request& request, Results& into);
void bench_matmul(const Request& request, Results& into);
void bench_linear_cross_entropy(const Request& request, Results& into);
void bench_linear_recurrence(const Request& request, Results& into);
void bench_grid(const Request& request, Results& into);
void bench_attention(const Request& request, Results& into);
// and the other operators bound by memory: elementwise.cpp
void bench_norm(const Request& request, Results& into);
void bench_activation(const Request& request, Results& into);
void bench_heads(const Request& request, Results& into);
void bench_embedding(const Request& request, Results& into);
void bench_experts(const Request& request, Results& into);
void bench_int8(const Request& request, Results& into);
void bench_optim(const Request& request, Results& into);
void bench_detect(const Request& request, Results& into);
void bench_recorder(const Request& request, Results& into);

struct Benchmark {
  std::string name, purpose;
  void (*run)(const Request&, Results&);
};
const std::vector<Benchmark>& benchmarks();

}  // namespace longhaul::bench
