// attention on a GPU: raw pointers, sizes and a stream (contract: op.h; FlashAttention-2, arXiv 2307.08691,
// docs/sources/megascale.md §12).
//
// mma.m16n8k16 with bf16 operands; scores, softmax and sums in fp32. The backward pass computes dk, dv in
// blocks over keys and dq in blocks over queries: each score twice, nothing added from several blocks, so
// results are deterministic. Head sizes 1 … 256; the sizes of k and v may differ. Tables (tiles.h) and
// workspace belong to the caller and lie on the device.
#pragma once

#include "kernels/attention/tiles.h"
#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

struct Attention {
  int64_t tokens = 0, key_tokens = 0;
  int heads = 0, key_heads = 0, keys = 0, values = 0;
  int window = 0;  // 0: none; w: each token sees w keys including itself
  float scale = 1;
  const Bf16* q = nullptr;  // [T, H, keys]
  const Bf16* k = nullptr;  // [S, Hk, keys]
  const Bf16* v = nullptr;  // [S, Hk, values]
};

struct AttentionTiles {
  const AttentionTile* tiles = nullptr;
  int count = 0;
};

struct AttentionGradientPointers {
  const float* logsumexp = nullptr;  // [T, H], from the forward pass
  const float* delta = nullptr;      // [T, H], from attention_delta
  const Bf16* d_o = nullptr;         // [T, H, values]
  Bf16 *d_q = nullptr, *d_k = nullptr, *d_v = nullptr;
};

// `tiles`: of queries, query_rows(padded_head(keys, values)) each. logsumexp [T, H]: −infinity where nothing
// is visible.
void attention_forward(const Attention& problem, const AttentionTiles& tiles, Bf16* o, float* logsumexp,
                       Stream stream);
// delta[row] = do·o − dℓ of `rows` rows of `width`; d_logsumexp null: zeros.
void attention_delta(const Bf16* o, const Bf16* d_o, const float* d_logsumexp, float* delta, int64_t rows,
                     int width, Stream stream);
// Tiles of kBackwardRows queries, and of kKeyRows keys.
void attention_backward(const Attention& problem, const AttentionTiles& query_tiles,
                        const AttentionTiles& key_tiles, const AttentionGradientPointers& gradients,
                        Stream stream);

// One new token for each of `sequences`, keys and values in pages, each on its own: head h of token s of
// sequence n lies in row h · page + s % page of page k_pages[n · table_width + s / page]. A page holds a
// multiple of kDecodeKeys tokens. lengths counts the new token too.
struct AttentionDecode {
  int sequences = 0, heads = 0, key_heads = 0, keys = 0, values = 0, window = 0;
  int page = 0, table_width = 0, longest = 0;  // longest: the largest length
  float scale = 1;
  const Bf16* q = nullptr;               // [N, H, keys]
  const Bf16* const* k_pages = nullptr;  // [N, table_width], each [Hk, page, keys]
  const Bf16* const* v_pages = nullptr;  // [N, table_width], each [Hk, page, values]
  const int32_t* lengths = nullptr;      // [N]
};
int64_t decode_workspace_bytes(const AttentionDecode& problem);
void attention_decode(const AttentionDecode& problem, Bf16* o, float* logsumexp, void* workspace,
                      Stream stream);

}  // namespace longhaul::kernels::cuda
