#include <type_traits>

#include "base/machine/machine.h"
#include "kernels/gemm/int8.h"
#include "kernels/int8/loops.h"
#include "kernels/matmul/int8_weight.h"
#include "kernels/matmul/product.h"
#include "kernels/matmul/tasks.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {
namespace {

struct Block {
  int64_t group, row, rows, column, columns;
};

// Blocks of y. A block of B (all of k) takes about a third of the second-level cache and is used for one
// block of rows after the other; where k is so long that the block would be narrow, it is wider all the same,
// and B streams through. halves: blocks of both halves of y at the same columns are one block.
TaskList<Block> blocks_of(std::span<const RowGroup> groups, int64_t k, int64_t n, int64_t element_bytes,
                          bool halves) {
  const int64_t cache = std::max<int64_t>(machine().l2_bytes, 512 << 10);
  int64_t longest_rows = 192,
          widest = std::clamp<int64_t>(cache * 3 / 8 / (element_bytes * std::max<int64_t>(k, 1)), 256, 512);
  if (halves) {
    widest /= 2;
    n /= 2;
  }
  int64_t rows = 0;
  for (const RowGroup& group : groups) rows += group.rows;
  // Enough blocks for every thread, however small the product.
  const auto too_few = [&] { return (rows / longest_rows + 1) * (n / widest + 1) < 3 * threads(); };
  while (threads() > 1 && too_few() && (widest > 64 || longest_rows > 48)) {
    if (widest > 64)
      widest /= 2;
    else
      longest_rows /= 2;
  }
  TaskList<Block> blocks;
  const int64_t columns = even_part(n, widest, 64);
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t height = even_part(groups[g].rows, longest_rows, 32);
    for (int64_t j = 0; j < n; j += columns) {
      for (int64_t i = 0; i < groups[g].rows; i += height) {
        const Block block{static_cast<int64_t>(g), groups[g].begin + i, std::min(height, groups[g].rows - i),
                          j, std::min(columns, n - j)};
        blocks.add(block, block.rows * block.columns * std::max<int64_t>(k, 1) * (halves ? 2 : 1));
      }
    }
  }
  return blocks;
}

// c [rows × columns] = A B as multiply_panels has it, for panels in eight bits. They are widened in registers
// where the set can do that; else four at a time, chunk by chunk, in cache. Either way sums have the order of
// the wide product.
template <class Element>
void multiply_int8_panels(const BlockScope& kernels, const Element* a, int64_t lda, const int8_t* panels,
                          const Int8Layout& layout, int64_t rows, int64_t column, int64_t columns, float* c,
                          int64_t ldc) {
  if (const auto multiply = int8_products().multiply_of(Element{});
      multiply != nullptr && layout.chunks.count > 0) {
    for (int64_t chunk = 0; chunk < layout.chunks.count; ++chunk) {
      multiply(a + layout.chunks.begin(chunk), lda, panels + layout.offset(chunk, column), rows, columns,
               layout.chunks.length_of(chunk), c, ldc, chunk > 0);
    }
    return;
  }
  constexpr int64_t kStrip = 4 * kPanelColumns;
  static thread_local Scratch scratch;
  Element* const wide = scratch.take<Element>(layout.chunks.length * kStrip);
  const Int8Loops& loops = int8_loops();
  for (int64_t strip = 0; strip < columns; strip += kStrip) {
    const int64_t width = std::min(kStrip, columns - strip);
    if (layout.chunks.count == 0) kernels->multiply(a, lda, wide, rows, width, 0, c + strip, ldc, false);
    for (int64_t chunk = 0; chunk < layout.chunks.count; ++chunk) {
      const int64_t k = layout.chunks.length_of(chunk), size = panel_rows<Element>(k) * kPanelColumns;
      const int8_t* const from = panels + layout.offset(chunk, column + strip);
      for (int64_t panel = 0; panel * kPanelColumns < width; ++panel)
        loops.widen(from + panel * packed_k(k) * kPanelColumns, panel_rows<Element>(k), wide + panel * size);
      kernels->multiply(a + layout.chunks.begin(chunk), lda, wide, rows, width, k, c + strip, ldc, chunk > 0);
    }
  }
}

template <class Element, class Stored>
class BlockRunner {
 public:
  explicit BlockRunner(const RowProduct<Element, Stored>& product)
      : product_(product), layout_(product.k, product.n) {}

  void run(const Block& block) const {
    const Epilogue& epilogue = product_.epilogue;
    const int64_t half = epilogue.halves ? product_.n / 2 : 0;
    OutputBlock out{block.row, block.rows, block.column, block.columns, nullptr, nullptr, product_.ldy};
    Element *y = nullptr, *second = nullptr;
    if (epilogue.keeps) {
      y = product_.y + block.row * product_.ldy + block.column;
      second = y + half;
    } else {
      static thread_local Scratch scratch;
      out.ldy = half > 0 ? 2 * block.columns : block.columns;
      y = scratch.take<Element>(block.rows * out.ldy);
      second = y + block.columns;
    }
    compute(block, block.column, y, out.ldy);
    if (half > 0) compute(block, half + block.column, second, out.ldy);
    if (!epilogue.run) return;
    out.y = y;
    out.y_second = half > 0 ? second : nullptr;
    epilogue.run(out);
  }

 private:
  // The sums of the block's rows and of as many columns from `column` on.
  void multiply(const Block& block, int64_t column, float* c, int64_t ldc) const {
    const Stored* const panels = product_.panels + block.group * layout_.size();
    const Element* const x = product_.x + block.row * product_.ldx;
    if constexpr (std::is_same_v<Stored, Element>) {
      multiply_panels(kernels_, x, product_.ldx, panels, layout_, block.rows, column, block.columns, c, ldc);
    } else {
      multiply_int8_panels(kernels_, x, product_.ldx, panels, layout_, block.rows, column, block.columns, c,
                           ldc);
      const float* const scales = product_.scales + block.group * product_.n + column;
      for (int64_t i = 0; i < block.rows; ++i) {
#pragma omp simd
        for (int64_t j = 0; j < block.columns; ++j) c[i * ldc + j] *= scales[j];
      }
    }
  }

  void compute(const Block& block, int64_t column, Element* y, int64_t ldy) const {
    const Element* const bias = product_.bias == nullptr ? nullptr : product_.bias + column;
    if constexpr (std::is_same_v<Element, float>) {
      multiply(block, column, y, ldy);
      if (bias == nullptr) return;
      for (int64_t i = 0; i < block.rows; ++i) {
#pragma omp simd
        for (int64_t j = 0; j < block.columns; ++j) y[i * ldy + j] += bias[j];
      }
    } else {
      static thread_local Scratch scratch;
      float* const c = scratch.take<float>(block.rows * block.columns);
      multiply(block, column, c, block.columns);
      if (bias == nullptr)
        kernels_->round_bf16(c, block.columns, block.rows, block.columns, y, ldy);
      else
        kernels_->round_bf16_with_bias(c, block.columns, block.rows, block.columns, bias, y, ldy);
    }
  }

  const BlockScope kernels_;
  const RowProduct<Element, Stored>& product_;
  const std::conditional_t<std::is_same_v<Stored, Element>, PanelLayout<Element>, Int8Layout> layout_;
};

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

template <class Element, class Stored>
void multiply_rows(const RowProduct<Element, Stored>& product, std::span<const RowGroup> groups) {
  blocks_of(groups, product.k, product.n, sizeof(Stored), product.epilogue.halves)
      .run(kProductGrain, [&](const Block* first, const Block* last) {
        const BlockRunner<Element, Stored> runner(product);
        for (const Block* block = first; block != last; ++block) runner.run(*block);
      });
}

template <class Element>
void multiply_rows_wide(const WideProduct<Element>& product) {
  const RowGroup all{.rows = product.rows};
  const PanelLayout<Element> layout(product.k, product.n);
  blocks_of(std::span(&all, 1), product.k, product.n, sizeof(Element), false)
      .run(kProductGrain, [&](const Block* first, const Block* last) {
        const BlockScope kernels;
        for (const Block* block = first; block != last; ++block) {
          multiply_panels(kernels, product.x + block->row * product.ldx, product.ldx, product.panels, layout,
                          block->rows, block->column, block->columns,
                          product.y + block->row * product.n + block->column, product.n);
        }
      });
}

template void multiply_rows(const RowProduct<uint16_t>&, std::span<const RowGroup>);
template void multiply_rows(const RowProduct<float>&, std::span<const RowGroup>);
template void multiply_rows(const RowProduct<uint16_t, int8_t>&, std::span<const RowGroup>);
template void multiply_rows(const RowProduct<float, int8_t>&, std::span<const RowGroup>);
template void multiply_rows_wide(const WideProduct<uint16_t>&);
template void multiply_rows_wide(const WideProduct<float>&);

}  // namespace longhaul::kernels
