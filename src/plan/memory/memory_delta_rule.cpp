// The delta rule (kernels/delta_rule): LibTorch's operators in spans of chunks, chunked.h; our kernels on a
// GPU, cuda.h; our own form on the CPU in segments of chunks, cpu_chunk.cpp.
#include "plan/memory/memory_delta_rule.h"

#include <algorithm>

#include "plan/memory/memory_gpu.h"
#include "plan/memory/memory_layers.h"

namespace longhaul::plan {
namespace {

struct DeltaSpans {
  DeltaSpans(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes)
      : width(sizes.by_channel ? 16 : 64),
        documents(documents_of(request).count),
        chunks_of_document(std::ceil(documents_of(request).length / width)) {
    const double key = number(sizes.key), value = number(sizes.value);
    // In the backward pass, when it converts gradients of pairs to those of rows and columns: operands,
    // gradients, pairs; states and what a chunk makes of one.
    const double pairs = width * (sizes.by_channel ? 3 * key : 7),
                 of_token = (sizes.by_channel ? 13 : 10) * key + 7 * value + pairs;
    bytes_of_chunk = number(wide_bytes(request.dtype)) * number(sizes.heads) *
                     (width * of_token + 4 * key * value + key * key);
    constexpr double kBudget = 6.0 * (1 << 30);
    room = request.on_gpu ? std::max(1.0, std::floor(kBudget / bytes_of_chunk))
                          : (sizes.by_channel ? 256 : 1024) / width;
    const double together = request.on_gpu ? std::min(documents, std::max(1.0, std::floor(room / 16))) : 1;
    steps = std::floor(room / together);  // of pieces
  }
  bool pieces() const { return chunks_of_document > room; }
  double kept() const { return pieces() ? documents * (std::ceil(chunks_of_document / steps) - 1) : 0; }
  double chunks_of_one() const {
    return pieces() ? room : chunks_of_document * std::min(documents, std::floor(room / chunks_of_document));
  }
  double width, documents, chunks_of_document, bytes_of_chunk, room, steps;
};

// Our kernels on a GPU (kernels/delta_rule/cuda.cu) keep nothing for the backward pass.
bool delta_kernels(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes) {
  return by_gpu_kernels(request) && sizes.heads > 0 && !sizes.by_channel && sizes.key <= 256;
}
// Their workspace backward: pairs of tokens twice and states twice for each chunk, what was written, and
// gradients of keys that heads share.
double delta_kernels_workspace(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes) {
  const double key = number(sizes.key), value = number(sizes.value), heads = number(sizes.heads);
  const double of_chunk = 2 * (2 * 64 * 64 + 2 * key * value), of_token = 2 * value;
  const double of_groups = sizes.heads > sizes.key_heads ? 2 * 4 * key : 0;
  const Documents documents = documents_of(request);
  return heads * (documents.count * std::ceil(documents.length / 64) * of_chunk +
                  request.tokens() * (of_token + of_groups));
}

struct DeltaChunks {
  explicit DeltaChunks(const MemoryRequest& request) : documents(documents_of(request)) {}
  double slots() const {
    return documents.count * std::max(0.0, std::ceil(documents.length / (kChunks * kTokens)) - 1);
  }

  // The backward pass has the larger buffer.
  ThreadBuffer buffer(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes) const {
    const double key = number(sizes.key), value = number(sizes.value), area = key * value,
                 wide = std::max(key, value);
    const double keys = kTokens * key, values = kTokens * value, square = kTokens * kTokens,
                 decays = sizes.by_channel ? keys : kTokens;
    const double padded_keys = rounded_up(key, 16), padded_values = rounded_up(value, 16);
    const double forward = 6 * keys + 3 * values + 4 * kTokens + decays + 4 * square + key +
                           kTokens * rounded_up(wide, 16) + key * padded_values + kTokens * padded_values +
                           2 * kTokens * wide + area + (sizes.by_channel ? 2 * keys : 0);
    const double backward = kChunks * (area + values) + 3 * values + 3 * keys + 2 * square +
                            std::max(kTokens, key) + 2 * decays + 2 * kTokens +
                            2 * kTokens * (padded_values + padded_keys) + value * padded_keys +
                            (sizes.heads > sizes.key_heads ? 2 * kChunks * keys : 0);
    const double worth = std::floor(30 * request.tokens() * number(sizes.heads) * area / 1e6);
    const double threads =
        std::clamp(worth, 1.0, std::min(number(request.threads), documents.count * number(sizes.key_heads)));
    return {threads, 4 * (forward + backward)};
  }

  static constexpr double kTokens = 64, kChunks = 8;
  Documents documents;
};

}  // namespace

bool own_delta_rule(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes) {
  return packs(request) && sizes.heads > 0 && std::max(sizes.key, sizes.value) <= 1024 &&
         (!sizes.by_channel || sizes.key <= 256);
}

ThreadBuffer delta_rule_buffer(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes) {
  return DeltaChunks(request).buffer(request, sizes);
}

double delta_rule_states(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes) {
  if (sizes.heads == 0 || delta_kernels(request, sizes)) return 0;
  const double slots =
      own_delta_rule(request, sizes) ? DeltaChunks(request).slots() : DeltaSpans(request, sizes).kept();
  return number(wide_bytes(request.dtype)) * slots * number(sizes.heads * sizes.key * sizes.value);
}

double delta_rule_workspace(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes) {
  if (sizes.heads == 0 || own_delta_rule(request, sizes)) return 0;  // it has what its threads keep
  if (delta_kernels(request, sizes)) return delta_kernels_workspace(request, sizes);
  const DeltaSpans spans(request, sizes);
  return spans.chunks_of_one() * spans.bytes_of_chunk;
}

}  // namespace longhaul::plan
