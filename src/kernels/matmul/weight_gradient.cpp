#include "kernels/matmul/column_sums.h"
#include "kernels/matmul/product.h"
#include "kernels/matmul/tasks.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {
namespace {

// Rows whose packed copies exist at once. Longer inputs are taken slab by slab, each added to the sink in
// turn.
constexpr int64_t kSlabRows = 4096;
constexpr int64_t kStrip = 128;  // columns of x or dy that are packed in one go

// A stretch of a group's rows, with the places of its packed copies: dyᵀ chunk by chunk, each [out × length];
// x as panels.
struct Part {
  int64_t group, begin;
  Chunks chunks;  // of its rows
  int64_t dy_offset, x_offset;
};

template <class Element>
class Slab {
 public:
  Slab(const WeightGradient<Element>& gradient, std::vector<Part> parts)
      : gradient_(gradient), parts_(std::move(parts)) {
    static thread_local Scratch dy_scratch, x_scratch;
    int64_t dy_size = 0, x_size = 0;
    for (Part& part : parts_) {
      part.dy_offset = dy_size;
      part.x_offset = x_size;
      dy_size += part.chunks.k * gradient.out;
      x_size += PanelLayout<Element>(part.chunks.k, gradient.in).size();
    }
    dy_ = dy_scratch.take<Element>(dy_size);
    x_ = x_scratch.take<Element>(x_size);
  }

  void run() const {
    pack();
    multiply();
  }

 private:
  struct Strip {
    const Part* part;
    bool of_dy;
    int64_t column;
  };
  struct Block {
    const Part* part;
    int64_t row, rows, column, columns;
  };

  void pack() const {
    TaskList<Strip> strips;
    for (const Part& part : parts_) {
      for (int64_t j = 0; j < gradient_.out; j += kStrip)
        strips.add({&part, true, j}, part.chunks.k * kStrip);
      for (int64_t j = 0; j < gradient_.in; j += kStrip)
        strips.add({&part, false, j}, part.chunks.k * kStrip);
    }
    strips.run(1 << 15, [&](const Strip* first, const Strip* last) {
      for (const Strip* strip = first; strip != last; ++strip) {
        if (strip->of_dy)
          pack_dy(*strip->part, strip->column, std::min(kStrip, gradient_.out - strip->column));
        else
          pack_x(*strip->part, strip->column, std::min(kStrip, gradient_.in - strip->column));
      }
    });
  }

  void pack_dy(const Part& part, int64_t column, int64_t columns) const {
    const BlockKernels& kernels = block_kernels();
    for (int64_t c = 0; c < part.chunks.count; ++c) {
      const int64_t begin = part.chunks.begin(c), length = part.chunks.length_of(c);
      const Element* const from = gradient_.dy + (part.begin + begin) * gradient_.ld_dy + column;
      kernels.transpose(from, gradient_.ld_dy, length, columns,
                        dy_ + part.dy_offset + begin * gradient_.out + column * length, length);
      if (gradient_.bias_sink != nullptr)
        add_column_sums(from, gradient_.ld_dy, length, columns, gradient_.bias_sink + column);
    }
  }

  void pack_x(const Part& part, int64_t column, int64_t columns) const {
    const BlockKernels& kernels = block_kernels();
    const PanelLayout<Element> layout(part.chunks.k, gradient_.in);
    for (int64_t c = 0; c < part.chunks.count; ++c) {
      kernels.pack(gradient_.x + (part.begin + part.chunks.begin(c)) * gradient_.ldx + column, gradient_.ldx,
                   false, part.chunks.length_of(c), columns, x_ + part.x_offset + layout.offset(c, column));
    }
  }

  // Blocks of the sink: each stays in the second-level cache while all rows pass by.
  TaskList<Block> blocks() const {
    int64_t longest = 192, widest = 256;
    const auto too_few = [&] {
      return static_cast<int64_t>(parts_.size()) * (gradient_.out / longest + 1) *
                 (gradient_.in / widest + 1) <
             3 * threads();
    };
    while (threads() > 1 && too_few() && (widest > 64 || longest > 48)) {
      if (widest > 64)
        widest /= 2;
      else
        longest /= 2;
    }
    const int64_t rows = even_part(gradient_.out, longest, 32), columns = even_part(gradient_.in, widest, 64);
    TaskList<Block> result;
    for (const Part& part : parts_) {
      for (int64_t j = 0; j < gradient_.in; j += columns) {
        for (int64_t i = 0; i < gradient_.out; i += rows) {
          const Block block{&part, i, std::min(rows, gradient_.out - i), j,
                            std::min(columns, gradient_.in - j)};
          result.add(block, block.rows * block.columns * part.chunks.k);
        }
      }
    }
    return result;
  }

  void multiply() const {
    blocks().run(kProductGrain, [&](const Block* first, const Block* last) {
      const BlockScope kernels;
      for (const Block* block = first; block != last; ++block) {
        const Part& part = *block->part;
        const PanelLayout<Element> layout(part.chunks.k, gradient_.in);
        float* const c =
            gradient_.sink + (part.group * gradient_.out + block->row) * gradient_.in + block->column;
        for (int64_t chunk = 0; chunk < part.chunks.count; ++chunk) {
          const int64_t length = part.chunks.length_of(chunk);
          kernels->multiply(
              dy_ + part.dy_offset + part.chunks.begin(chunk) * gradient_.out + block->row * length, length,
              x_ + part.x_offset + layout.offset(chunk, block->column), block->rows, block->columns, length,
              c, gradient_.in, true);
        }
      }
    });
  }

  const WeightGradient<Element>& gradient_;
  std::vector<Part> parts_;
  Element* dy_;
  Element* x_;
};

}  // namespace

template <class Element>
void add_weight_gradients(const WeightGradient<Element>& gradient, std::span<const RowGroup> groups) {
  std::vector<Part> parts;
  int64_t rows_in_slab = 0;
  const auto run_slab = [&] {
    if (!parts.empty()) Slab<Element>(gradient, std::move(parts)).run();
    parts.clear();
    rows_in_slab = 0;
  };
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int64_t at = 0; at < groups[g].rows;) {
      const int64_t rows = std::min(groups[g].rows - at, kSlabRows - rows_in_slab);
      parts.push_back({static_cast<int64_t>(g), groups[g].begin + at, Chunks(rows), 0, 0});
      at += rows;
      rows_in_slab += rows;
      if (rows_in_slab == kSlabRows) run_slab();
    }
  }
  run_slab();
}

template void add_weight_gradients(const WeightGradient<uint16_t>&, std::span<const RowGroup>);
template void add_weight_gradients(const WeightGradient<float>&, std::span<const RowGroup>);

}  // namespace longhaul::kernels
