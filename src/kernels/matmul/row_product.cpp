#include <type_traits>

#include "base/machine.h"
#include "kernels/matmul/product.h"
#include "kernels/matmul/scratch.h"
#include "kernels/matmul/tasks.h"

namespace longhaul::kernels {
namespace {

// Multiply-adds worth a thread of their own: a few microseconds.
constexpr int64_t kGrain = 1 << 18;

struct Block {
  int64_t group, row, rows, column, columns;
};

// Blocks of y. A block of B (all of k) takes about a third of the second-level cache and is used for one block of rows after the other;
// where k is so long that the block would be narrow, it is wider all the same, and B streams through.
TaskList<Block> blocks_of(std::span<const RowGroup> groups, int64_t k, int64_t n, int64_t element_bytes) {
  const int64_t cache = std::max<int64_t>(machine().l2_bytes, 512 << 10);
  int64_t longest_rows = 192, widest = std::clamp<int64_t>(cache * 3 / 8 / (element_bytes * std::max<int64_t>(k, 1)), 256, 512);
  int64_t rows = 0;
  for (const RowGroup& group : groups) rows += group.rows;
  // Enough blocks for every thread, however small the product.
  const auto too_few = [&] { return (rows / longest_rows + 1) * (n / widest + 1) < 3 * threads(); };
  while (threads() > 1 && too_few() && (widest > 64 || longest_rows > 48)) {
    if (widest > 64) widest /= 2;
    else longest_rows /= 2;
  }
  TaskList<Block> blocks;
  const int64_t columns = even_part(n, widest, 64);
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t height = even_part(groups[g].rows, longest_rows, 32);
    for (int64_t j = 0; j < n; j += columns) {
      for (int64_t i = 0; i < groups[g].rows; i += height) {
        const Block block{static_cast<int64_t>(g), groups[g].begin + i, std::min(height, groups[g].rows - i), j, std::min(columns, n - j)};
        blocks.add(block, block.rows * block.columns * std::max<int64_t>(k, 1));
      }
    }
  }
  return blocks;
}

// c = the block of x B, over all chunks of k.
template <class Element>
void multiply_block(const BlockScope& kernels, const RowProduct<Element>& product, const Element* panels, const PanelLayout<Element>& layout,
                    const Block& block, float* c, int64_t ldc) {
  const Element* const x = product.x + block.row * product.ldx;
  if (layout.chunks.count == 0) return kernels->multiply(x, product.ldx, panels, block.rows, block.columns, 0, c, ldc, false);
  for (int64_t chunk = 0; chunk < layout.chunks.count; ++chunk) {
    kernels->multiply(x + layout.chunks.begin(chunk), product.ldx, panels + layout.offset(chunk, block.column), block.rows, block.columns,
                      layout.chunks.length_of(chunk), c, ldc, chunk > 0);
  }
}

template <class Element>
void run_block(const BlockScope& kernels, const RowProduct<Element>& product, const PanelLayout<Element>& layout, const Block& block) {
  const Element* const panels = product.panels + block.group * layout.size();
  Element* const y = product.y + block.row * product.ldy + block.column;
  const Element* const bias = product.bias == nullptr ? nullptr : product.bias + block.column;
  if constexpr (std::is_same_v<Element, float>) {
    multiply_block(kernels, product, panels, layout, block, y, product.ldy);
    if (bias == nullptr) return;
    for (int64_t i = 0; i < block.rows; ++i) {
#pragma omp simd
      for (int64_t j = 0; j < block.columns; ++j) y[i * product.ldy + j] += bias[j];
    }
  } else {
    static thread_local Scratch scratch;
    float* const c = scratch.take<float>(block.rows * block.columns);
    multiply_block(kernels, product, panels, layout, block, c, block.columns);
    if (bias == nullptr) kernels->round_bf16(c, block.columns, block.rows, block.columns, y, product.ldy);
    else kernels->round_bf16_with_bias(c, block.columns, block.rows, block.columns, bias, y, product.ldy);
  }
}

}  // namespace

std::vector<RowGroup> row_groups(std::span<const int64_t> rows_per_group) {
  std::vector<RowGroup> groups;
  int64_t begin = 0;
  for (const int64_t rows : rows_per_group) {
    groups.push_back({begin, rows});
    begin += rows;
  }
  return groups;
}

template <class Element>
void multiply_rows(const RowProduct<Element>& product, std::span<const RowGroup> groups) {
  const PanelLayout<Element> layout(product.k, product.n);
  blocks_of(groups, product.k, product.n, sizeof(Element)).run(kGrain, [&](const Block* first, const Block* last) {
    const BlockScope kernels;
    for (const Block* block = first; block != last; ++block) run_block(kernels, product, layout, *block);
  });
}

template <class Element>
void pack_weights(const Element* weights, int64_t matrices, int64_t out, int64_t in, bool for_input, Element* panels) {
  const int64_t k = for_input ? out : in, n = for_input ? in : out;
  const PanelLayout<Element> layout(k, n);
  constexpr int64_t kColumns = 64;
  struct Piece {
    int64_t matrix, chunk, column;
  };
  TaskList<Piece> pieces;
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    for (int64_t chunk = 0; chunk < layout.chunks.count; ++chunk) {
      for (int64_t j = 0; j < n; j += kColumns) pieces.add({matrix, chunk, j}, layout.chunks.length_of(chunk) * kColumns);
    }
  }
  const BlockKernels& kernels = block_kernels();
  pieces.run(1 << 15, [&](const Piece* first, const Piece* last) {
    for (const Piece* piece = first; piece != last; ++piece) {
      const int64_t from = layout.chunks.begin(piece->chunk);
      const Element* const source = weights + piece->matrix * out * in + (for_input ? from * in + piece->column : piece->column * in + from);
      kernels.pack(source, in, !for_input, layout.chunks.length_of(piece->chunk), std::min(kColumns, n - piece->column),
                   panels + piece->matrix * layout.size() + layout.offset(piece->chunk, piece->column));
    }
  });
}

template void multiply_rows(const RowProduct<uint16_t>&, std::span<const RowGroup>);
template void multiply_rows(const RowProduct<float>&, std::span<const RowGroup>);
template void pack_weights(const uint16_t*, int64_t, int64_t, int64_t, bool, uint16_t*);
template void pack_weights(const float*, int64_t, int64_t, int64_t, bool, float*);

}  // namespace longhaul::kernels
